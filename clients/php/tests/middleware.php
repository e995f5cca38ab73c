<?php

declare(strict_types=1);

require __DIR__ . '/support.php';
require 'Nyholm/Psr7/autoload.php';
require __DIR__ . '/../src/Middleware.php';

use Nyholm\Psr7\Factory\Psr17Factory;
use Nyholm\Psr7\Response;
use Nyholm\Psr7\ServerRequest;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\RequestHandlerInterface;
use Stint\Client;
use Stint\Middleware;

function get(Client $stint, string $path, string $address, array $options = [], array $headers = []): ResponseInterface
{
    $handler = new class implements RequestHandlerInterface {
        public function handle(ServerRequestInterface $request): ResponseInterface
        {
            if ($request->getUri()->getPath() === '/broken') {
                throw new LogicException('broken');
            }
            return new Response(['/login' => 401, '/missing' => 404][$request->getUri()->getPath()] ?? 200, [], 'Hello ' . ($request->getAttribute('stint')->decision ?? 'skipped'));
        }
    };
    $request = new ServerRequest('GET', "http://site.example$path", $headers, null, '1.1', ['REMOTE_ADDR' => $address]);
    return (new Middleware($stint, new Psr17Factory(), $options))->process($request, $handler);
}

function testRequestsBeyondTheLimitAreRefused(): void
{
    policy('ip:*', ['2/1d']);
    $answers = array_map(fn () => get(node(), '/', '127.0.0.1', ['trusted' => ['127.0.0.1']], ['X-Forwarded-For' => '203.0.113.7']), [1, 2, 3]);
    same([200, 200, 429], array_map(fn ($answer) => $answer->getStatusCode(), $answers));
    same('Hello allowed', (string) $answers[0]->getBody());
    same(true, str_contains($answers[0]->getHeaderLine('RateLimit'), 'r=1;'));
    $problem = json_decode((string) $answers[2]->getBody(), true);
    same(['limited', ['2/1d'], 'application/problem+json'], [$problem['code'], $problem['violated-policies'], $answers[2]->getHeaderLine('Content-Type')]);
    same(true, (int) $answers[2]->getHeaderLine('Retry-After') > 0);
    admin('POST', '/v1/blocks', ['pattern' => 'ip:203.0.113.7', 'reason' => 'secret words']);
    $blocked = get(node(), '/', '203.0.113.7');
    same([403, false], [$blocked->getStatusCode(), str_contains((string) $blocked->getBody(), 'secret')]);
}

function testOutagesAreAnsweredAsWasChosen(): void
{
    $errors = 0;
    $options = ['onError' => function () use (&$errors) { $errors++; }];
    $closed = get(new Client(NOBODY, 'closed', timeout: TIMEOUT), '/', '192.0.2.1', $options);
    same([503, '1'], [$closed->getStatusCode(), $closed->getHeaderLine('Retry-After')]);
    same(200, get(new Client(NOBODY, 'open', timeout: TIMEOUT), '/', '192.0.2.1', $options)->getStatusCode());
    same('Hello skipped', (string) get(new Client(NOBODY, 'closed', timeout: TIMEOUT), '/', '192.0.2.1', ['skip' => fn () => true])->getBody());
    same(2, $errors);
}

function testWrongKeysAreRefused(): void
{
    foreach (['', null, 7, [], [null], ['a' => 'b'], "site:\0", "site:\xff", 'site:' . str_repeat('x', 600)] as $key) {
        same(400, get(node('open'), '/', '192.0.2.1', ['key' => fn () => $key])->getStatusCode(), var_export($key, true));
    }
    same(503, get(node('open'), '/', '192.0.2.1', ['policy' => 'no-such-policy'])->getStatusCode());
    throws(InvalidArgumentException::class, fn () => get(node(), '/', '192.0.2.1', ['polcy' => 'x']));
}

function testOutcomesOfResponsesAreReported(): void
{
    policy('phpoutcome:*', ['1/1d'], ['outcome' => 'login_failed']);
    policy('phpoutcome:*', ['1000/1d']);
    $options = ['key' => fn () => 'phpoutcome:a', 'outcome' => fn ($request, $response) => $response->getStatusCode() === 401 ? 'login_failed' : null];
    same([200, 401, 429], array_map(fn ($path) => get(node(), $path, '192.0.2.1', $options)->getStatusCode(), ['/', '/login', '/']));
}

function testTheStatusOfResponsesIsReported(): void
{
    policy('phpstatus:*', ['1/1d'], ['outcome' => 'not_found']);
    policy('phpstatus:*', ['1000/1d']);
    policy('phpplain:*', ['1000/1d']);
    $stint = node();
    $options = ['key' => fn () => ['phpplain:a', ['key' => 'phpstatus:a']], 'reportStatus' => true];
    throws(LogicException::class, fn () => get($stint, '/broken', '192.0.2.1', $options));
    $statuses = [];
    foreach (['/', '/missing', '/'] as $path) {
        $statuses[] = get($stint, $path, '192.0.2.1', $options)->getStatusCode();
        $stint->flush();
    }
    same([[200, 404, 429], 0], [$statuses, $stint->dropped()]);
}

run();
