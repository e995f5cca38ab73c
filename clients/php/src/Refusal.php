<?php

declare(strict_types=1);

namespace Stint;

/** How a refused request is answered, as by /v1/forward. The body names nothing that the request can choose, nor what operators wrote about a block. */
final class Refusal
{
    private const TYPES = 'https://iana.org/assignments/http-problem-types#';

    /** @param array<string, string> $headers */
    private function __construct(public readonly int $status, public readonly array $headers, public readonly string $body)
    {
    }

    public static function of(Decision $decision): self
    {
        $seconds = ctype_digit($decision->headers['Retry-After'] ?? '') ? (int) $decision->headers['Retry-After'] : 0;
        if ($decision->decision === 'blocked') {
            $detail = $seconds > 0 ? 'This client is blocked for a time. Try again later.' : 'This client is blocked.';
            $problem = ['type' => 'about:blank', 'title' => 'Forbidden', 'status' => 403, 'detail' => $detail, 'code' => 'blocked'];
        } elseif ($decision->decision === 'limited') {
            $detail = 'Too many requests.' . ($seconds > 0 ? " Try again in $seconds second" . ($seconds === 1 ? '' : 's') . '.' : '');
            $problem = ['type' => self::TYPES . 'quota-exceeded', 'title' => 'Too Many Requests', 'status' => 429, 'detail' => $detail, 'code' => 'limited'];
        } else {
            return self::unavailable($decision->headers);
        }
        if ($decision->id !== null) {
            $problem['id'] = $decision->id;
        }
        if ($decision->decision === 'limited' && preg_match('~^\d+/[0-9a-z]+$~', $decision->rule ?? '') === 1 && !str_ends_with($decision->rule, 'ms')) {
            $problem['violated-policies'] = [$decision->rule];
        }
        return self::from($problem, $decision->headers);
    }

    public static function badKey(): self
    {
        $detail = 'What identifies the client in this request cannot be read.';
        return self::from(['type' => 'about:blank', 'title' => 'Bad Request', 'status' => 400, 'detail' => $detail, 'code' => 'invalid'], []);
    }

    /** @param array<string, string> $headers */
    public static function unavailable(array $headers = ['Retry-After' => '1']): self
    {
        $detail = 'The service cannot decide at the moment. Try again later.';
        return self::from(['type' => self::TYPES . 'temporary-reduced-capacity', 'title' => 'Service Unavailable', 'status' => 503, 'detail' => $detail, 'code' => 'unavailable'], $headers);
    }

    private static function from(array $problem, array $headers): self
    {
        $headers += ['Content-Type' => 'application/problem+json', 'Cache-Control' => 'no-store', 'X-Content-Type-Options' => 'nosniff'];
        return new self($problem['status'], $headers, json_encode($problem, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES));
    }
}
