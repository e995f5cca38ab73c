<?php

declare(strict_types=1);

require __DIR__ . '/support.php';

use Stint\Client;
use Stint\StintError;

$cases = json_decode(file_get_contents(__DIR__ . '/../../conformance/cases.json'), true);

function filled(mixed $value, string $name): mixed
{
    if (is_array($value)) {
        return array_map(fn ($part) => filled($part, $name), $value);
    }
    return is_string($value) ? preg_replace_callback('/@(\d+)/', fn ($found) => str_repeat('x', (int) $found[1]), str_replace('$', $name, $value)) : $value;
}

function expect(array $want, callable $call, string $onOutage, string $what): void
{
    try {
        $result = $call();
    } catch (StintError $error) {
        same($want['error'] ?? null, ['status' => $error->status, 'field' => $error->field], $what);
        return;
    }
    if (isset($want['refuses'])) {
        same($want['refuses'], in_array(true, array_column($result['policies'], 'refuses'), true), $what);
    } elseif (isset($want['outage'])) {
        same(true, $result->outage !== null, $what);
        same($onOutage === 'open' ? ['allowed', true] : ['unavailable', false], [$result->decision, $result->allowed], $what);
    } else {
        same([null, $want['decision'] ?? 'an error'], [$result->outage?->getMessage(), $result->decision], $what);
        same($want['remaining'] ?? null, isset($want['remaining']) ? $result->rules[0]['remaining'] : null, $what);
    }
}

function testConversations(): void
{
    foreach ($GLOBALS['cases']['conversations'] as $case) {
        foreach (['open', 'closed'] as $onOutage) {
            $stint = node($onOutage);
            foreach (filled($case['steps'], bin2hex(random_bytes(12))) as $step) {
                $given = $step['check'] ?? $step['report'];
                $options = array_diff_key($given, ['key' => 0, 'keys' => 0, 'outcome' => 0]);
                $call = isset($step['report']) ? fn () => $stint->report($given['key'], $given['outcome'], $options)
                    : fn () => $stint->check($given['keys'] ?? $given['key'], $options);
                expect($step['want'], $call, $onOutage, $case['name'] . ': ' . substr(json_encode($given), 0, 200));
            }
        }
    }
}

function testFaults(): void
{
    foreach ($GLOBALS['cases']['faults'] as $index => $case) {
        foreach (['open', 'closed'] as $onOutage) {
            $url = ($case['server']['kind'] ?? '') === 'nobody' ? NOBODY : getenv('STINT_FAULTS_URL') . "/$index";
            $stint = new Client($url, $onOutage, timeout: ($case['timeout_ms'] ?? TIMEOUT * 1000) / 1000);
            expect($case['want'], fn () => $stint->check('conformance:fault'), $onOutage, $case['name']);
        }
    }
}

run();
