<?php

// A test is a function whose name begins with "test". The node is started by go test ./test/clients, which says where it is.

declare(strict_types=1);

error_reporting(E_ALL);
set_error_handler(static function (int $level, string $message, string $file, int $line): bool {
    if (!(error_reporting() & $level)) {
        return false; // by @
    }
    throw new ErrorException($message, 0, $level, $file, $line);
});

require __DIR__ . '/../src/Client.php';
require __DIR__ . '/../src/Refusal.php';

const NOBODY = 'http://127.0.0.1:1'; // where no server listens
const TIMEOUT = 60.0; // a busy machine must not look like an outage

function node(string $onOutage = 'raise', array $more = []): Stint\Client
{
    return new Stint\Client(getenv('STINT_CHECK_URL'), $onOutage, ...$more + ['timeout' => TIMEOUT]);
}

function admin(string $method, string $path, array $body): mixed
{
    $headers = "Content-Type: application/json\r\nAuthorization: Bearer " . getenv('STINT_ADMIN_TOKEN');
    $context = stream_context_create(['http' => ['method' => $method, 'header' => $headers, 'content' => json_encode($body), 'ignore_errors' => true]]);
    $text = file_get_contents(getenv('STINT_ADMIN_URL') . $path, false, $context);
    if (!preg_match('~ 20\d ~', $http_response_header[0])) {
        throw new RuntimeException("$method $path: $text");
    }
    return json_decode($text, true);
}

function policy(string $match, array $rules, array $more = []): void
{
    $name = 'p' . bin2hex(random_bytes(6));
    admin('PUT', "/v1/policies/$name?confirm=$name", ['match' => [$match], 'rules' => $rules] + $more);
}

function fresh(string $kind): string
{
    return "$kind:" . bin2hex(random_bytes(12));
}

function same(mixed $want, mixed $got, string $what = ''): void
{
    if ($want !== $got) {
        throw new RuntimeException("$what: got " . var_export($got, true) . ', want ' . var_export($want, true));
    }
}

/** @param class-string $class */
function throws(string $class, callable $call): Throwable
{
    try {
        $call();
    } catch (Throwable $error) {
        if ($error instanceof $class) {
            return $error;
        }
        throw $error;
    }
    throw new RuntimeException("no $class was thrown");
}

/** Runs the tests of a file. */
function run(): never
{
    $failed = $passed = 0;
    foreach (get_defined_functions()['user'] as $name) {
        if (!str_starts_with($name, 'test')) {
            continue;
        }
        try {
            $name();
            $passed++;
        } catch (Throwable $error) {
            $failed++;
            echo "$name: " . get_class($error) . ": {$error->getMessage()}\n{$error->getTraceAsString()}\n";
        }
    }
    echo "$passed passed, $failed failed\n";
    exit($failed === 0 && $passed > 0 ? 0 : 1);
}
