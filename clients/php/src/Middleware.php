<?php

declare(strict_types=1);

namespace Stint;

use Psr\Http\Message\ResponseFactoryInterface;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\MiddlewareInterface;
use Psr\Http\Server\RequestHandlerInterface;

/**
 * Middleware of PSR-15 that asks about each request, and answers a refused one itself. The attribute "stint" of a request that is
 * let through is its Decision. Options:
 *
 * - trusted: addresses and networks of the proxies in front;
 * - key: a function of the request that returns one key or several; by default ip: and the client's address;
 * - policy, cost, source: of the check;
 * - skip: a function that lets a request pass without a check; a client that can make it true has no limit;
 * - outcome: a function of the request and the response that returns the name of an outcome to report for the keys, or null;
 * - reportStatus: true reports the status of each response by reportSoon, for policies with outcomes or evidence: Stint finds by it
 *   that a page was missing or a login failed, and learns what the site has;
 * - onError: a function that is called with each error, and the request.
 */
final class Middleware implements MiddlewareInterface
{
    private const OPTIONS = ['trusted', 'key', 'policy', 'cost', 'source', 'skip', 'outcome', 'reportStatus', 'onError'];

    /** @param array<string, mixed> $options */
    public function __construct(private readonly Client $stint, private readonly ResponseFactoryInterface $responses, private readonly array $options = [])
    {
        $unknown = array_diff(array_keys($options), self::OPTIONS);
        if ($unknown !== []) {
            throw new \InvalidArgumentException('unknown options: ' . implode(', ', $unknown));
        }
    }

    public function process(ServerRequestInterface $request, RequestHandlerInterface $handler): ResponseInterface
    {
        if (isset($this->options['skip']) && ($this->options['skip'])($request)) {
            return $handler->handle($request);
        }
        $keys = isset($this->options['key']) ? ($this->options['key'])($request) : 'ip:' . $this->address($request);
        $attributes = [
            'path' => $request->getUri()->getPath(), 'method' => $request->getMethod(), 'agent' => $request->getHeaderLine('User-Agent'),
            'host' => $request->getHeaderLine('Host') ?: $request->getUri()->getHost(),
        ];
        try {
            $decision = $this->stint->check(is_string($keys) || (is_array($keys) && array_is_list($keys)) ? $keys : '', ['request' => $attributes]
                + array_intersect_key($this->options, ['policy' => 0, 'cost' => 0, 'source' => 0]));
        } catch (StintError $error) {
            $this->failed($error, $request);
            $isAboutKey = preg_match('/^(key|keys|keys\[\d+\](\.key)?)$/', $error->field ?? '') === 1;
            return $isAboutKey ? $this->refusal(Refusal::badKey()) : $this->refusal(Refusal::unavailable());
        }
        if ($decision->outage !== null) {
            $this->failed($decision->outage, $request);
        }
        if (!$decision->allowed) {
            return $this->refusal(Refusal::of($decision));
        }
        try {
            $response = $handler->handle($request->withAttribute('stint', $decision));
        } catch (\Throwable $error) {
            $this->reportStatus((array) $keys, 500, $attributes);
            throw $error;
        }
        $this->reportStatus((array) $keys, $response->getStatusCode(), $attributes);
        foreach ($decision->headers as $name => $value) {
            $response = $response->withHeader($name, $value);
        }
        $outcome = isset($this->options['outcome']) ? ($this->options['outcome'])($request, $response) : null;
        if ($outcome !== null) {
            $this->report((array) $keys, $outcome, $attributes, $request);
        }
        return $response;
    }

    private function address(ServerRequestInterface $request): string
    {
        $connection = (string) ($request->getServerParams()['REMOTE_ADDR'] ?? '');
        return Client::addressBehind($this->options['trusted'] ?? [], $connection, $request->getHeaderLine('X-Forwarded-For'));
    }

    private function report(array $keys, string $outcome, array $attributes, ServerRequestInterface $request): void
    {
        $reports = [];
        foreach ($keys as $key) {
            $reports[] = ['key' => is_array($key) ? $key['key'] : $key, 'outcome' => $outcome, 'request' => $attributes, 'source' => $this->options['source'] ?? null];
        }
        try {
            foreach ($this->stint->reportMany($reports) as $result) {
                if ($result instanceof StintError) {
                    $this->failed($result, $request);
                }
            }
        } catch (StintError | StintOutage $error) {
            $this->failed($error, $request);
        }
    }

    private function reportStatus(array $keys, int $status, array $attributes): void
    {
        foreach (empty($this->options['reportStatus']) ? [] : $keys as $key) {
            $key = is_array($key) ? $key['key'] : $key;
            $this->stint->reportSoon(['key' => $key, 'status' => $status, 'request' => $attributes, 'source' => $this->options['source'] ?? null]);
        }
    }

    private function refusal(Refusal $refusal): ResponseInterface
    {
        $response = $this->responses->createResponse($refusal->status);
        foreach ($refusal->headers as $name => $value) {
            $response = $response->withHeader($name, $value);
        }
        $response->getBody()->write($refusal->body);
        return $response;
    }

    private function failed(\Throwable $error, ServerRequestInterface $request): void
    {
        if (isset($this->options['onError'])) {
            ($this->options['onError'])($error, $request);
        }
    }
}
