<?php

declare(strict_types=1);

namespace Stint;

/** What Stint answered in place of a decision: the check, the report or the token is wrong. */
class StintError extends \RuntimeException
{
    public readonly int $status;
    public readonly ?string $problem;
    public readonly ?string $field;

    public function __construct(int $status, mixed $problem = null)
    {
        $problem = is_array($problem) ? $problem : [];
        $this->status = $status;
        $this->problem = isset($problem['code']) ? (string) $problem['code'] : null;
        $this->field = isset($problem['field']) ? (string) $problem['field'] : null;
        parent::__construct("Stint answered $status: " . ($problem['detail'] ?? $problem['title'] ?? 'no decision'));
    }
}

/** Stint could not be reached, did not answer in time, or something else answered in its place. */
class StintOutage extends \RuntimeException
{
}

/** The answer to a check. $raw has every member that the server sent. */
final class Decision
{
    /**
     * @param list<array<string, mixed>>|null $rules what each rule has left
     * @param list<Decision>|null $decisions about each key, where several were asked
     * @param array<string, string> $headers Retry-After, RateLimit and RateLimit-Policy
     * @param array<string, mixed> $raw
     */
    public function __construct(
        public readonly string $decision, // allowed, limited, blocked or unavailable
        public readonly bool $allowed,
        public readonly ?string $id = null,
        public readonly ?string $key = null,
        public readonly ?string $policy = null,
        public readonly bool $degraded = false,
        public readonly ?float $retryAfter = null, // seconds: 0 where allowed, null where waiting never helps
        public readonly ?string $rule = null,
        public readonly ?array $rules = null,
        public readonly ?array $decisions = null,
        public readonly array $headers = [],
        public readonly ?\Throwable $outage = null, // why this client decided in Stint's place
        public readonly array $raw = [],
    ) {
    }

    /**
     * @param array<string, mixed> $given
     * @param array<string, string> $headers
     */
    public static function of(array $given, array $headers = []): self
    {
        $parts = isset($given['decisions']) && is_array($given['decisions']) ? array_values(array_filter($given['decisions'], self::is(...))) : null;
        return new self(
            $given['decision'], $given['allowed'], $given['id'] ?? null, $given['key'] ?? null, $given['policy'] ?? null, (bool) ($given['degraded'] ?? false),
            isset($given['retry_after_ms']) ? $given['retry_after_ms'] / 1000 : null, $given['rule'] ?? null, $given['rules'] ?? null,
            $parts === null ? null : array_map(self::of(...), $parts), $headers, null, $given,
        );
    }

    /** Whatever else answers for Stint lets no request pass, nor does an answer that contradicts itself. */
    public static function is(mixed $given): bool
    {
        return is_array($given) && isset(Client::STATUS[$given['decision'] ?? null]) && ($given['allowed'] ?? null) === ($given['decision'] === 'allowed');
    }
}

/**
 * Asks one Stint server, or several behind one address. It keeps one connection while the program runs.
 *
 * $url is that of the check listener, for example http://127.0.0.1:8080, or of the path below which a proxy serves it.
 * $onOutage says what a check is answered while Stint cannot be reached, does not answer in time or refuses the token: "open"
 * allows it, "closed" refuses it with 503, "raise" throws a StintOutage. $timeout is how many seconds a call may take in all.
 * $adminUrl and $adminToken are needed by reset alone. $context has options of a stream context, such as ["ssl" => [...]].
 */
final class Client
{
    public const STATUS = ['allowed' => 200, 'limited' => 429, 'blocked' => 403, 'unavailable' => 503];
    private const RETRY_SECONDS = 1;
    private const MAX_ANSWER = 4 << 20; // bytes; the answer to a batch of 1,000 checks with rules has some 1 MiB
    private const SOON = 64; // reports that wait: whatever clients choose of them fits into a call
    private const MOST = ['path' => 8192, 'method' => 32, 'agent' => 2048, 'host' => 255]; // bytes

    /** @var array<string, resource> the connection to each listener */
    private array $connections = [];

    /** @var list<array<string, mixed>> reports that are sent when the program ends */
    private array $soon = [];
    private bool $isSentAtEnd = false;
    private int $dropped = 0;

    /** @param array<string, array<string, mixed>> $context */
    public function __construct(
        private readonly string $url,
        private readonly string $onOutage,
        private readonly ?string $token = null,
        private readonly float $timeout = 0.1,
        private readonly ?string $adminUrl = null,
        private readonly ?string $adminToken = null,
        private readonly array $context = [],
    ) {
        if (!in_array($onOutage, ['open', 'closed', 'raise'], true)) {
            throw new \InvalidArgumentException('onOutage must be "open", "closed" or "raise"');
        }
        if (!($timeout > 0)) {
            throw new \InvalidArgumentException('timeout must be seconds above 0');
        }
        foreach (['token' => $token, 'adminToken' => $adminToken] as $name => $value) {
            if ($value !== null && preg_match('/^[\x21-\x7e]+$/D', $value) !== 1) {
                throw new \InvalidArgumentException("$name must be printable ASCII without spaces; one that was read from a file may end in a line break");
            }
        }
        self::target($url);
        if ($adminUrl !== null) {
            self::target($adminUrl);
        }
    }

    /**
     * Asks about one key or, all charged or none, about several, each a text or ['key' => , 'policy' => , 'cost' => ]. Options:
     * policy, cost, peek, detail, charge, source, meta, request, values and idempotency_key.
     *
     * @param string|list<string|array<string, mixed>> $key
     * @param array<string, mixed> $options
     */
    public function check(string|array $key, array $options = []): Decision
    {
        $check = self::sentCheck($key, $options);
        try {
            $answer = $this->call('POST', '/v1/check', $check);
            $given = self::decoded($answer);
            if (Decision::is($given) && self::STATUS[$given['decision']] === $answer['status']) {
                $headers = [];
                foreach (['Retry-After', 'RateLimit', 'RateLimit-Policy'] as $name) {
                    if (isset($answer['headers'][strtolower($name)])) {
                        $headers[$name] = $answer['headers'][strtolower($name)];
                    }
                }
                return Decision::of($given, $headers);
            }
            throw self::refused($answer, $given);
        } catch (\TypeError $error) {
            return $this->decide(new StintOutage('Stint could not be asked: the members of the answer have other types', 0, $error));
        } catch (StintOutage $outage) {
            return $this->decide($outage);
        }
    }

    /**
     * Asks up to 1,000 checks, each on its own, in one call: arrays with key and the options of check.
     *
     * @param list<array<string, mixed>> $checks
     * @return list<Decision|StintError> in their order
     */
    public function checkMany(array $checks): array
    {
        $sent = [];
        foreach ($checks as $check) {
            $key = $check['key'] ?? '';
            unset($check['key']);
            $sent[] = self::sentCheck($key, $check);
        }
        try {
            $items = self::items($this->call('POST', '/v1/check/batch', ['checks' => $sent]), 'decisions', count($sent));
        } catch (StintOutage $outage) {
            return array_map(fn () => $this->decide($outage), $sent);
        }
        return array_map(static fn ($item) => isset($item['decision']) ? Decision::of($item) : new StintError((int) ($item['status'] ?? 422), $item), $items);
    }

    /**
     * Reports the outcome of a request, such as login_failed, or, where it is null, the option status, by which Stint finds the outcomes.
     * Options: request, values, at, source, meta, id and status. Returns the answer of the server; throws a StintError where the
     * report is wrong, and a StintOutage while Stint cannot be reached.
     *
     * @param array<string, mixed> $options
     * @return array<string, mixed>
     */
    public function report(string $key, ?string $outcome, array $options = []): array
    {
        $answer = $this->call('POST', '/v1/report', self::sentReport($key, $outcome, $options));
        $given = self::decoded($answer);
        if ($answer['status'] === 200 && is_array($given['policies'] ?? null)) {
            return $given;
        }
        throw self::refused($answer, $given);
    }

    /**
     * Reports up to 1,000 outcomes in one call: arrays with key, outcome or status, and the options of report.
     *
     * @param list<array<string, mixed>> $reports
     * @return list<array<string, mixed>|StintError>
     */
    public function reportMany(array $reports): array
    {
        $sent = [];
        foreach ($reports as $report) {
            $sent[] = self::sentReport($report['key'], $report['outcome'] ?? null, array_diff_key($report, ['key' => 0, 'outcome' => 0]));
        }
        $items = self::items($this->call('POST', '/v1/report/batch', ['reports' => $sent]), 'answers', count($sent));
        return array_map(static fn ($item) => isset($item['policies']) ? $item : new StintError((int) ($item['status'] ?? 422), $item), $items);
    }

    /**
     * Reports an outcome once the program ends: under FPM, when the client has its response. A program that runs on sends 64 reports
     * together. What cannot be sent is dropped. See reportMany.
     *
     * @param array<string, mixed> $report
     */
    public function reportSoon(array $report): void
    {
        $this->soon[] = $report;
        if (count($this->soon) >= self::SOON) {
            $this->flush();
        }
        if (!$this->isSentAtEnd) {
            $this->isSentAtEnd = true;
            // After the functions of the application, which may write.
            register_shutdown_function(fn () => register_shutdown_function($this->end(...)));
        }
    }

    /** Sends what reportSoon took. */
    public function flush(): void
    {
        [$reports, $this->soon] = [$this->soon, []];
        if ($reports === []) {
            return;
        }
        try {
            $this->dropped += count(array_filter($this->reportMany($reports), static fn ($result) => $result instanceof StintError));
        } catch (\Throwable) {
            $this->dropped += count($reports);
        }
    }

    /** Returns how many reports of reportSoon were not sent. */
    public function dropped(): int
    {
        return $this->dropped;
    }

    private function end(): void
    {
        if ($this->soon !== [] && function_exists('fastcgi_finish_request')) {
            fastcgi_finish_request();
        }
        $this->flush();
    }

    /**
     * Settles a hold with what was used. The handle is $decision->raw['hold']['handle'] of a check with
     * the option hold, such as "10m". May be repeated.
     *
     * @return array<string, mixed>
     */
    public function settle(string $handle, int $cost): array
    {
        return $this->hold('POST', $handle, '', ['cost' => $cost]);
    }

    /**
     * Gives back all that is held, as if it had never been charged.
     *
     * @return array<string, mixed>
     */
    public function release(string $handle): array
    {
        return $this->hold('DELETE', $handle, '', null);
    }

    /**
     * Renews a hold for this time from now, such as "10m".
     *
     * @return array<string, mixed>
     */
    public function extend(string $handle, string $hold): array
    {
        return $this->hold('POST', $handle, '/extend', ['hold' => $hold]);
    }

    /** Forgets what a key has used, under all policies. Needs adminUrl and a token of the scope operate. */
    public function reset(string $key): void
    {
        $answer = $this->call('DELETE', '/v1/keys?key=' . rawurlencode($key), null, true);
        if ($answer['status'] !== 200) {
            throw self::refused($answer, self::decoded($answer));
        }
    }

    /** Returns the hash that keys contain in place of a secret: 32 hexadecimal digits, as /v1/forward makes them. */
    public static function hashOf(string $secret): string
    {
        return substr(hash('sha256', $secret), 0, 32);
    }

    /** Returns an address without its port and zone, as proxies may write it: 192.0.2.1:80, [2001:db8::1]:80. */
    public static function plainAddress(string $address): string
    {
        $address = trim($address);
        if (preg_match('/^\[([^\]]*)\](?::\d+)?$/', $address, $found) || preg_match('/^(\d+(?:\.\d+){3}):\d+$/', $address, $found)) {
            $address = $found[1];
        }
        return preg_replace(['/%.*$/', '/^::ffff:(?=\d+\.)/i'], '', $address);
    }

    /**
     * Returns the address of the connection or, where that is one of the trusted addresses and networks, the nearest address of
     * X-Forwarded-For, from the right, that is none of them.
     *
     * @param list<string> $trusted
     */
    public static function addressBehind(array $trusted, string $connection, string $forwarded): string
    {
        $address = self::plainAddress($connection);
        $rest = explode(',', $forwarded);
        while ($rest !== [] && self::isWithin($address, $trusted)) {
            $next = self::plainAddress(array_pop($rest));
            if (@inet_pton($next) === false) {
                break;
            }
            $address = $next;
        }
        return $address;
    }

    /**
     * Returns the keys of a login, as the preset "login" has them: login:ADDRESS, of IPv6 the /64, and account:NAME. An account that
     * is too long for a key is hashed.
     *
     * @return list<string>
     */
    public static function loginKeys(string $address, ?string $account): array
    {
        $keys = [];
        $packed = @inet_pton(self::plainAddress($address));
        if ($packed !== false) {
            $keys[] = 'login:' . (strlen($packed) === 4 ? inet_ntop($packed) : inet_ntop(substr($packed, 0, 8) . str_repeat("\0", 8)) . '/64');
        }
        if ($account !== null && $account !== '') {
            $keys[] = 'account:' . (strlen($account) > 500 || !self::isText($account) ? self::hashOf($account) : $account);
        }
        return $keys;
    }

    /** @param list<string> $networks */
    private static function isWithin(string $address, array $networks): bool
    {
        $packed = @inet_pton($address);
        foreach ($packed === false ? [] : $networks as $network) {
            [$base, $bits] = explode('/', $network, 2) + [1 => null];
            $base = @inet_pton($base);
            if ($base === false || strlen($base) !== strlen($packed)) {
                continue;
            }
            $bits = $bits === null ? 8 * strlen($base) : (int) $bits;
            $whole = intdiv($bits, 8);
            $mask = 0xff << 8 - $bits % 8 & 0xff;
            if (substr($base, 0, $whole) === substr($packed, 0, $whole) && ($bits % 8 === 0 || (ord($base[$whole]) & $mask) === (ord($packed[$whole]) & $mask))) {
                return true;
            }
        }
        return false;
    }

    private static function isText(string $text): bool
    {
        return preg_match('/^[^\p{Cc}]*$/Du', $text) === 1;
    }

    private static function sentCheck(string|array $key, array $options): array
    {
        $texts = is_string($key) ? [$key] : array_map(static fn ($part) => is_array($part) ? $part['key'] ?? '' : $part, $key);
        foreach ($texts as $text) {
            if (!is_string($text) || preg_match('//u', $text) !== 1) {
                throw new StintError(422, ['code' => 'invalid', 'field' => 'key', 'detail' => 'key: is not valid UTF-8']);
            }
        }
        if (is_string($key)) {
            $check = ['key' => $key] + $options;
        } else {
            $common = array_filter(['policy' => $options['policy'] ?? null, 'cost' => $options['cost'] ?? null], static fn ($value) => $value !== null);
            $check = ['keys' => array_map(static fn ($part) => (is_array($part) ? $part : ['key' => $part]) + $common, array_values($key))];
            $check += array_diff_key($options, $common);
        }
        if (empty($options['peek'])) {
            $check += ['idempotency_key' => bin2hex(random_bytes(16))]; // it is charged once, however often it is sent
        }
        return self::cutTexts($check);
    }

    private static function sentReport(string $key, ?string $outcome, array $options): array
    {
        return self::cutTexts(['key' => $key, 'outcome' => $outcome] + $options + ['id' => bin2hex(random_bytes(16))]);
    }

    /** Cuts what clients choose to what the server takes: nothing in it may make a check or a report invalid. */
    private static function cutTexts(array $question): array
    {
        if (isset($question['request'])) {
            $request = $question['request'];
            if (isset($request['path'])) {
                $request['path'] = self::plainPath((string) $request['path']);
            }
            foreach (self::MOST as $name => $most) {
                if (isset($request[$name])) {
                    $request[$name] = self::cut((string) $request[$name], $most);
                }
            }
            $question['request'] = array_filter($request, static fn ($value) => $value !== null && $value !== '');
        }
        foreach (['meta' => 256, 'values' => 2048] as $name => $most) {
            if (isset($question[$name])) {
                $question[$name] = array_map(static fn ($value) => self::cut(is_string($value) ? $value : (string) json_encode($value), $most), $question[$name]);
            }
        }
        foreach (['request', 'meta', 'values'] as $name) {
            if (($question[$name] ?? null) === []) {
                unset($question[$name]); // an empty array would be sent as a list
            }
        }
        return array_filter($question, static fn ($value) => $value !== null);
    }

    private static function cut(string $text, int $most): string
    {
        $text = (string) json_decode((string) json_encode(substr($text, 0, 4 * $most), JSON_INVALID_UTF8_SUBSTITUTE));
        $text = preg_replace('/\p{Cc}/u', "\u{fffd}", $text);
        if (strlen($text) <= $most) {
            return $text;
        }
        while ((ord($text[$most]) & 0xc0) === 0x80) {
            $most--;
        }
        return substr($text, 0, $most);
    }

    /** Returns a path in its plain spelling where it is long, so that no padding hides what it leads to. */
    private static function plainPath(string $target): string
    {
        $path = explode('?', $target, 2)[0];
        if (strlen($path) <= self::MOST['path']) {
            return $path;
        }
        $parts = [];
        foreach (explode('/', rawurldecode(preg_replace('~^[a-z][a-z0-9+.-]*://[^/]*~i', '', $path))) as $part) {
            if ($part === '..') {
                array_pop($parts);
            } elseif ($part !== '' && $part !== '.') {
                $parts[] = rawurlencode($part);
            }
        }
        return '/' . implode('/', $parts);
    }

    private function hold(string $method, string $handle, string $below, ?array $body): array
    {
        $answer = $this->call($method, '/v1/holds/' . rawurlencode($handle) . $below, $body);
        $given = self::decoded($answer);
        return $answer['status'] === 200 && isset($given['state']) ? $given : throw self::refused($answer, $given);
    }

    private function decide(StintOutage $outage): Decision
    {
        return match ($this->onOutage) {
            'raise' => throw $outage,
            'open' => new Decision('allowed', true, degraded: true, retryAfter: 0.0, outage: $outage),
            default => new Decision('unavailable', false, degraded: true, retryAfter: (float) self::RETRY_SECONDS, headers: ['Retry-After' => (string) self::RETRY_SECONDS], outage: $outage),
        };
    }

    /** Any Stint would refuse a wrong question in the same way; everything else is an outage. */
    private static function refused(array $answer, mixed $given): \RuntimeException
    {
        $error = new StintError($answer['status'], $given);
        if ($answer['status'] >= 400 && $answer['status'] < 500 && !in_array($answer['status'], [401, 403, 408, 429], true)) {
            return $error;
        }
        return new StintOutage($error->getMessage(), 0, $error);
    }

    private static function decoded(array $answer): mixed
    {
        return json_decode($answer['body'], true, 64);
    }

    private static function items(array $answer, string $name, int $length): array
    {
        $given = self::decoded($answer);
        $items = is_array($given) ? $given[$name] ?? null : null;
        $isItem = static fn ($item) => is_array($item) && (!isset($item['decision']) || Decision::is($item));
        if ($answer['status'] !== 200 || !is_array($items) || count($items) !== $length || array_filter($items, $isItem) !== $items) {
            throw self::refused($answer, $given);
        }
        return $items;
    }

    /** @return array{string, string, string, string} the address of the socket, the header Host, the path, the name in certificates */
    private static function target(string $url): array
    {
        $parts = parse_url($url);
        $scheme = $parts['scheme'] ?? '';
        if (!in_array($scheme, ['http', 'https'], true) || empty($parts['host']) || isset($parts['user'])) {
            throw new \InvalidArgumentException('url must be http://HOST:PORT or https://HOST:PORT');
        }
        $port = $parts['port'] ?? ($scheme === 'https' ? 443 : 80);
        $socket = ($scheme === 'https' ? 'ssl' : 'tcp') . "://{$parts['host']}:$port";
        return [$socket, $parts['host'] . (isset($parts['port']) ? ":$port" : ''), rtrim($parts['path'] ?? '', '/'), trim($parts['host'], '[]')];
    }

    /**
     * Sends a request and returns its answer within the time-out. A server closes idle connections when it likes, also at the
     * moment of a new request: that request is sent again on a new one.
     *
     * @return array{status: int, headers: array<string, string>, body: string}
     */
    private function call(string $method, string $path, ?array $body, bool $isAdmin = false): array
    {
        $url = $isAdmin ? $this->adminUrl ?? throw new \InvalidArgumentException('reset needs adminUrl and adminToken') : $this->url;
        [$socket, $host, $below, $name] = self::target($url);
        $token = $isAdmin ? $this->adminToken : $this->token;
        $text = $body === null ? '' : json_encode($body, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION);
        $request = "$method $below$path HTTP/1.1\r\nHost: $host\r\n" . ($token === null ? '' : "Authorization: Bearer $token\r\n")
            . ($body === null ? '' : "Content-Type: application/json\r\nContent-Length: " . strlen($text) . "\r\n") . "\r\n$text";
        $deadline = microtime(true) + $this->timeout;
        $kept = $this->connections[$socket] ?? null;
        unset($this->connections[$socket]);
        if ($kept !== null) {
            $answer = $this->converse($kept, $socket, $request, $deadline);
            if ($answer !== null) {
                return $answer;
            }
        }
        $context = stream_context_create(['ssl' => ['peer_name' => $name] + ($this->context['ssl'] ?? [])] + $this->context);
        $connection = @stream_socket_client($socket, $code, $why, max(0.001, $deadline - microtime(true)), STREAM_CLIENT_CONNECT, $context);
        if ($connection === false) {
            throw new StintOutage("Stint could not be asked: $why");
        }
        return $this->converse($connection, $socket, $request, $deadline) ?? throw new StintOutage('Stint could not be asked: the connection was closed without an answer');
    }

    /**
     * @param resource $connection
     * @return array{status: int, headers: array<string, string>, body: string}|null null if it was closed without any byte of an answer
     */
    private function converse($connection, string $socket, string $request, float $deadline): ?array
    {
        stream_set_blocking($connection, false);
        $received = '';
        try {
            while ($request !== '') {
                self::await($connection, $deadline, true);
                $written = @fwrite($connection, $request);
                if ($written === false || ($written === 0 && feof($connection))) {
                    return null;
                }
                $request = substr($request, $written);
            }
            do {
                if (microtime(true) >= $deadline) { // also where parts come all the time
                    throw new StintOutage('Stint could not be asked: it did not answer in time');
                }
                $part = @fread($connection, 65536);
                $isClosed = ($part === false || $part === '') && feof($connection);
                if ($part === false || $part === '') {
                    if ($isClosed && $received === '') {
                        return null;
                    }
                    if (!$isClosed) {
                        self::await($connection, $deadline, false);
                        continue;
                    }
                }
                $received .= $part;
                if (strlen($received) > self::MAX_ANSWER) {
                    throw new StintOutage('Stint could not be asked: the answer is too long');
                }
                $answer = self::answer($received, $isClosed);
            } while (!isset($answer));
        } catch (StintOutage $outage) {
            fclose($connection);
            throw $outage;
        }
        if ($answer['keeps']) {
            $this->connections[$socket] = $connection;
        } else {
            fclose($connection);
        }
        return $answer;
    }

    private static function await($connection, float $deadline, bool $toWrite): void
    {
        $left = $deadline - microtime(true);
        $read = $toWrite ? null : [$connection];
        $write = $toWrite ? [$connection] : null;
        $except = null;
        if ($left <= 0 || @stream_select($read, $write, $except, (int) $left, (int) (fmod($left, 1) * 1e6)) === 0) {
            throw new StintOutage('Stint could not be asked: it did not answer in time');
        }
    }

    /** Returns an answer, null while it is not complete. */
    private static function answer(string $received, bool $isClosed): ?array
    {
        $broken = new StintOutage('Stint could not be asked: the answer is not HTTP, or ends early');
        if (strncmp($received, 'HTTP/', min(5, strlen($received))) !== 0) {
            throw $broken;
        }
        do {
            $end = strpos($received, "\r\n\r\n");
            if ($end === false) {
                return $isClosed || strlen($received) > 65536 ? throw $broken : null;
            }
            $lines = explode("\r\n", substr($received, 0, $end));
            if (preg_match('~^HTTP/1\.([01]) (\d{3})( |$)~', array_shift($lines), $line) !== 1) {
                throw $broken;
            }
            $received = substr($received, $end + 4);
            $status = (int) $line[2];
        } while ($status >= 100 && $status < 200 && $status !== 101);
        $headers = [];
        foreach ($lines as $header) {
            [$name, $value] = explode(':', $header, 2) + [1 => ''];
            $name = strtolower($name);
            $headers[$name] = isset($headers[$name]) ? "$headers[$name], " . trim($value) : trim($value);
        }
        $length = $headers['content-length'] ?? null;
        $keeps = $line[1] === '1' && !str_contains(strtolower($headers['connection'] ?? ''), 'close') && $status !== 101;
        if (in_array($status, [101, 204, 304], true)) {
            $body = '';
        } elseif (isset($headers['transfer-encoding'])) {
            $body = self::chunks($received, strtolower($headers['transfer-encoding']), $broken);
        } elseif ($length !== null) {
            if (!ctype_digit($length) || (int) $length > self::MAX_ANSWER) {
                throw $broken;
            }
            $keeps = $keeps && strlen($received) === (int) $length;
            $body = strlen($received) >= (int) $length ? substr($received, 0, (int) $length) : null;
        } else {
            $keeps = false;
            $body = $isClosed ? $received : null;
        }
        if ($body === null) {
            return $isClosed ? throw $broken : null;
        }
        return ['status' => $status, 'headers' => $headers, 'body' => $body, 'keeps' => $keeps && !$isClosed];
    }

    private static function chunks(string $received, string $coding, StintOutage $broken): ?string
    {
        $body = '';
        $at = 0;
        while ($coding === 'chunked' && ($end = strpos($received, "\r\n", $at)) !== false) {
            if (preg_match('/^([0-9a-f]{1,8})[ \t]*(;|$)/i', substr($received, $at, $end - $at), $found) !== 1) {
                throw $broken;
            }
            $size = hexdec($found[1]);
            if ($size === 0) {
                return strpos($received, "\r\n\r\n", $at) === false ? null : $body;
            }
            if (strlen($received) < $end + 2 + $size + 2) {
                return null;
            }
            $body .= substr($received, $end + 2, $size);
            $at = $end + 2 + $size + 2;
        }
        return $coding === 'chunked' ? null : throw $broken;
    }
}
