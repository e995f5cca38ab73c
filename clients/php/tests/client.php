<?php

declare(strict_types=1);

require __DIR__ . '/support.php';

use Stint\Client;
use Stint\StintError;
use Stint\StintOutage;

function testAKeyIsLimitedByItsPolicy(): void
{
    policy('phpclient:*', ['3/1d']);
    $stint = node('raise', ['adminUrl' => getenv('STINT_ADMIN_URL'), 'adminToken' => getenv('STINT_ADMIN_TOKEN')]);
    $key = fresh('phpclient');
    foreach ([2, 1, 0] as $left) {
        $decision = $stint->check($key);
        same([true, 3, $left], [$decision->allowed, $decision->rules[0]['limit'], $decision->rules[0]['remaining']]);
    }
    same('limited', $stint->check($key, ['peek' => true])->decision);
    $decision = $stint->check($key);
    same(['limited', false, '3/1d'], [$decision->decision, $decision->allowed, $decision->rule]);
    same(true, $decision->id !== null && $decision->retryAfter > 0 && (int) $decision->headers['Retry-After'] > 0);
    $stint->reset($key);
    same(true, $stint->check($key)->allowed);
}

function testAllKeysAreChargedOrNone(): void
{
    policy('phpall:*', ['2/1d']);
    [$stint, $full, $other] = [node(), fresh('phpall'), fresh('phpall')];
    same(true, $stint->check($full, ['cost' => 2])->allowed);
    $decision = $stint->check([['key' => $other, 'cost' => 1], $full]);
    same([false, [true, false]], [$decision->allowed, array_map(fn ($d) => $d->allowed, $decision->decisions)]);
    same(2, $stint->check($other, ['peek' => true])->rules[0]['remaining']);
}

function testABatchAnswersEachCheck(): void
{
    policy('phpbatch:*', ['1/1d']);
    $key = fresh('phpbatch');
    [$first, $second, $wrong] = node()->checkMany([['key' => $key], ['key' => $key], ['key' => '']]);
    same(['allowed', 'limited'], [$first->decision, $second->decision]);
    same([422, 'key'], [$wrong->status, $wrong->field]);
}

function testOutcomesAreReported(): void
{
    policy('phpreport:*', ['2/1d'], ['outcome' => 'login_failed']);
    [$stint, $key] = [node(), fresh('phpreport')];
    $hostile = [
        'request' => ['path' => '/' . str_repeat('./', 9000) . 'login', 'agent' => "a\xff\n" . str_repeat('x', 3000), 'host' => str_repeat("\xff", 300)],
        'values' => ['account' => str_repeat("\x01\xe9", 4000)], 'meta' => ['a' => str_repeat('é', 999)],
    ];
    same('charged', $stint->report($key, 'login_failed', $hostile)['policies'][0]['result']);
    [$charged, $wrong] = $stint->reportMany([['key' => $key, 'outcome' => 'login_failed'], ['key' => $key, 'outcome' => 'Wrong']]);
    same([true, 'outcome'], [$charged['policies'][0]['refuses'], $wrong->field]);
    same('limited', $stint->check($key, $hostile)->decision);
}

function testHoldsAreSettledReleasedAndRenewed(): void
{
    policy('phpamount:*', ['10 tokens/1d'], ['unit' => 'tokens']);
    [$stint, $key] = [node(), fresh('phpamount')];
    $held = $stint->check($key, ['cost' => 8, 'hold' => '10m'])->raw['hold'];
    same(true, $stint->extend($held['handle'], '20m')['expires_at'] > $held['expires_at']);
    same([3, 3], [$stint->settle($held['handle'], 3)['cost'], $stint->settle($held['handle'], 3)['cost']]);
    same([409, 'settled'], [($error = throws(StintError::class, fn () => $stint->settle($held['handle'], 4)))->status, $error->problem]);
    same('released', $stint->release($stint->check($key, ['cost' => 7, 'hold' => '10m'])->raw['hold']['handle'])['state']);
    same(7, $stint->check($key, ['peek' => true])->rules[0]['remaining']);
}

function testAMistakeIsAnErrorWhateverAnOutageIsAnswered(): void
{
    foreach (['open', 'closed', 'raise'] as $onOutage) {
        foreach (['', "phpmistake:\0", "phpmistake:\xff", 'phpmistake:' . str_repeat('x', 600), ['a:b', 'a:b'], []] as $key) {
            same(1, preg_match('/^keys?/', throws(StintError::class, fn () => node($onOutage)->check($key))->field));
        }
        same('policy', throws(StintError::class, fn () => node($onOutage)->check('a:b', ['policy' => 'no-such-policy']))->field);
    }
}

function testAnOutageIsAnsweredAsWasChosen(): void
{
    $open = (new Client(NOBODY, 'open', timeout: TIMEOUT))->check('a:b');
    same(['allowed', true, true, true], [$open->decision, $open->allowed, $open->degraded, $open->outage instanceof StintOutage]);
    $closed = new Client(NOBODY, 'closed', timeout: TIMEOUT);
    same(['unavailable', false, ['Retry-After' => '1']], [$closed->check('a:b')->decision, $closed->check('a:b')->allowed, $closed->check('a:b')->headers]);
    same(['unavailable', 'unavailable'], array_map(fn ($d) => $d->decision, $closed->checkMany([['key' => 'a:b'], ['key' => 'a:c']])));
    throws(StintOutage::class, fn () => (new Client(NOBODY, 'raise', timeout: TIMEOUT))->check('a:b'));
    throws(StintOutage::class, fn () => (new Client(NOBODY, 'open', timeout: TIMEOUT))->report('a:b', 'login_failed'));
}

function testReportsAreSentTogetherAtTheEnd(): void
{
    policy('phpsoon:*', ['2/1d'], ['outcome' => 'not_found']);
    policy('phpsoon:*', ['1000/1d']);
    $key = fresh('phpsoon');
    // Another program ends, also by exit, and its own functions at the end still write.
    $program = 'require $argv[1]; $stint = new Stint\Client($argv[2], "raise", timeout: 60.0);
        $stint->reportSoon(["key" => $argv[3], "status" => 404, "request" => ["path" => "/a"]]);
        register_shutdown_function(function () use ($stint, $argv) { echo "written"; $stint->reportSoon(["key" => $argv[3], "status" => 404, "request" => ["path" => "/b"]]); });
        exit;';
    exec(implode(' ', array_map(escapeshellarg(...), ['php', '-r', $program, '--', __DIR__ . '/../src/Client.php', getenv('STINT_CHECK_URL'), $key])), $lines, $code);
    same([['written'], 0], [$lines, $code]);
    same('limited', node()->check($key, ['peek' => true])->decision);
    $gone = new Client(NOBODY, 'open', timeout: TIMEOUT);
    for ($i = 0; $i < 64; $i++) {
        $gone->reportSoon(['key' => 'ip:192.0.2.1', 'status' => 200]);
    }
    same(64, $gone->dropped());
    $wrong = node();
    $wrong->reportSoon(['key' => '', 'status' => 200]);
    $wrong->flush();
    same(1, $wrong->dropped());
}

function testWrongOptionsAreRefused(): void
{
    foreach ([[NOBODY, 'maybe'], [NOBODY, 'open', 'a b'], [NOBODY, 'open', "a\n"], [NOBODY, 'open', null, 0.0], ['stint', 'open'], ['http://u:p@a', 'open']] as $options) {
        throws(InvalidArgumentException::class, fn () => new Client(...$options));
    }
}

function testAddressesOfProxies(): void
{
    $trusted = ['127.0.0.1', '10.0.0.0/8', '::1', '2001:db8:1::/47'];
    foreach ([
        ['192.0.2.1', '203.0.113.7', '192.0.2.1'], ['127.0.0.1', '203.0.113.9, 203.0.113.7', '203.0.113.7'], ['127.0.0.1', '203.0.113.7, 10.1.2.3', '203.0.113.7'],
        ['::ffff:127.0.0.1', '[2001:db8::1]:443', '2001:db8::1'], ['127.0.0.1', 'nonsense', '127.0.0.1'], ['2001:db8:0:1::1', '203.0.113.7:5000', '203.0.113.7'],
        ['2001:db8:2::1', '203.0.113.7', '2001:db8:2::1'],
    ] as [$connection, $forwarded, $want]) {
        same($want, Client::addressBehind($trusted, $connection, $forwarded));
    }
    same(['login:192.0.2.1', 'account:alice'], Client::loginKeys('192.0.2.1', 'alice'));
    same(['login:2001:db8:0:1::/64'], Client::loginKeys('2001:db8:0:1:2:3:4:5', null));
    same(['account:' . Client::hashOf("a\xff")], Client::loginKeys('', "a\xff"));
}

run();
