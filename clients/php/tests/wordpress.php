<?php

// Installs Debian's WordPress, with a MariaDB of its own, and logs in by the form, XML-RPC and the REST API.

declare(strict_types=1);

require __DIR__ . '/support.php';

const LOGINS = '/wp-login.php';

$folder = sys_get_temp_dir() . '/stint-wordpress-' . bin2hex(random_bytes(6));
$children = [];
register_shutdown_function(static function () use ($folder, &$children): void {
    foreach (array_reverse($children) as $child) {
        proc_terminate($child);
        while (proc_get_status($child)['running']) {
            usleep(10_000);
        }
    }
    exec('rm -rf ' . escapeshellarg($folder));
});

function must(string $command): void
{
    exec("$command 2>&1", $lines, $code);
    if ($code !== 0) {
        throw new RuntimeException("$command: " . implode("\n", $lines));
    }
}

function wait(callable $done, string $what): void
{
    for ($end = microtime(true) + 60; !$done(); usleep(50_000)) {
        if (microtime(true) > $end) {
            throw new RuntimeException("$what did not happen");
        }
    }
}

/** @return resource */
function begin(array $command, string $log, ?string $folder = null)
{
    return proc_open($command, [['file', '/dev/null', 'r'], ['file', $log, 'w'], ['file', $log, 'w']], $pipes, $folder);
}

function install(string $folder, array &$children): string
{
    $source = (getenv('STINT_WORDPRESS') ?: (getenv('XDG_CACHE_HOME') ?: getenv('HOME') . '/.cache') . '/stint-wordpress') . '/usr/share/wordpress';
    if (!is_dir($source)) {
        throw new RuntimeException("$source: scripts/setup-tests.sh unpacks it");
    }
    mkdir($folder);
    must('cp -r ' . escapeshellarg($source) . " $folder/site");
    must("rm -rf $folder/site/wp-content && mkdir -p $folder/site/wp-content/mu-plugins $folder/site/wp-content/themes/plain");
    file_put_contents("$folder/site/wp-content/themes/plain/style.css", "/*\nTheme Name: plain\n*/");
    file_put_contents("$folder/site/wp-content/themes/plain/index.php", 'Hello');
    copy(__DIR__ . '/../wordpress/stint.php', "$folder/site/wp-content/mu-plugins/stint.php");
    $user = posix_getpwuid(posix_geteuid())['name'];
    must("mariadb-install-db --no-defaults --datadir=$folder/data --auth-root-authentication-method=normal --skip-test-db --user=$user");
    $server = trim((string) shell_exec('PATH="$PATH:/usr/sbin" command -v mariadbd'));
    $children[] = begin([$server, '--no-defaults', "--datadir=$folder/data", "--socket=$folder/socket", '--skip-networking', "--user=$user", '--innodb-flush-log-at-trx-commit=0'], "$folder/mariadb.log");
    mysqli_report(MYSQLI_REPORT_OFF);
    $connection = mysqli_init();
    wait(static fn () => @$connection->real_connect('localhost', 'root', '', '', 0, "$folder/socket"), 'the start of MariaDB');
    $connection->query('CREATE DATABASE wordpress');
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    $at = stream_socket_get_name($listener, false);
    fclose($listener);
    $constants = '';
    foreach ([
        'DB_NAME' => 'wordpress', 'DB_USER' => 'root', 'DB_PASSWORD' => '', 'DB_HOST' => "localhost:$folder/socket", 'DB_CHARSET' => 'utf8mb4', 'DB_COLLATE' => '',
        'WP_HOME' => "http://$at", 'WP_SITEURL' => "http://$at", 'DISABLE_WP_CRON' => true, 'WP_HTTP_BLOCK_EXTERNAL' => true, 'WP_DEFAULT_THEME' => 'plain',
        'WP_ENVIRONMENT_TYPE' => 'local', 'WP_DEBUG_DISPLAY' => false,
        'STINT_URL' => getenv('STINT_CHECK_URL'), 'STINT_ON_OUTAGE' => 'closed', 'STINT_TIMEOUT' => TIMEOUT, 'STINT_TRUSTED_PROXIES' => ['127.0.0.1'],
        'STINT_CHECK_REQUESTS' => true, 'STINT_REPORT_NOT_FOUND' => true,
    ] as $name => $value) {
        $constants .= "define('$name', " . var_export($value, true) . ");\n";
    }
    $constants .= "define('STINT_REPORT_STATUS', isset(\$_SERVER['HTTP_X_STATUS']));\n";
    file_put_contents("$folder/site/wp-config.php", "<?php\n$constants\$table_prefix = 'wp_';\nif (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');\nrequire ABSPATH . 'wp-settings.php';\n");
    file_put_contents("$folder/install.php", <<<'PHP'
        <?php
        define('WP_INSTALLING', true);
        $_SERVER['HTTP_HOST'] = '127.0.0.1';
        require $argv[1] . '/wp-load.php';
        require ABSPATH . 'wp-admin/includes/upgrade.php';
        add_filter('pre_wp_mail', '__return_true');
        wp_install('Test', 'owner', 'owner@site.example', true, '', 'right');
        update_option('permalink_structure', '/%postname%/');
        [$password] = WP_Application_Passwords::create_new_application_password(1, ['name' => 'test']);
        file_put_contents($argv[2], $password);
        PHP);
    must("php $folder/install.php $folder/site $folder/password");
    $children[] = begin(['php', '-d', "error_log=$folder/errors", '-S', $at, '-t', "$folder/site"], "$folder/php.log", "$folder/site");
    wait(static fn () => @stream_socket_client("tcp://$at") !== false, 'the start of PHP');
    return "http://$at";
}

/** @return array{int, string} */
function ask(string $path, string $address, ?string $body = null, string $headers = ''): array
{
    $context = stream_context_create(['http' => [
        'method' => $body === null ? 'GET' : 'POST', 'content' => $body ?? '', 'ignore_errors' => true, 'follow_location' => 0,
        'header' => "X-Forwarded-For: $address\r\nContent-Type: " . (str_starts_with($body ?? '', '<') ? 'text/xml' : 'application/x-www-form-urlencoded') . "\r\n$headers",
    ]]);
    $text = file_get_contents(SITE . $path, false, $context);
    return [(int) explode(' ', $http_response_header[0])[1], $text];
}

/** Logs in by the form; a success leads to the pages of the site's owner. */
function enter(string $password, string $address, string $user = 'owner'): string
{
    [$status, $text] = ask(LOGINS, $address, http_build_query(['log' => $user, 'pwd' => $password]));
    return $status === 302 ? 'welcome' : (str_contains($text, 'Too many failed logins') ? 'refused' : 'wrong');
}

function call(string $password, string $address): string
{
    $parameters = implode('', array_map(fn ($value) => "<param><value><string>$value</string></value></param>", ['owner', $password]));
    $text = ask('/xmlrpc.php', $address, "<?xml version=\"1.0\"?><methodCall><methodName>wp.getUsersBlogs</methodName><params>$parameters</params></methodCall>")[1];
    return str_contains($text, '<fault>') ? (str_contains($text, 'Too many failed logins') ? 'refused' : 'wrong') : 'welcome';
}

function request(string $password, string $address): int
{
    return ask('/index.php?rest_route=/wp/v2/users/me', $address, null, 'Authorization: Basic ' . base64_encode("owner:$password"))[0];
}

define('SITE', install($folder, $children));
policy('login:*', ['2/1d'], ['outcome' => 'login_failed']);
policy('login:*', ['1000/1d']);
policy('account:*', ['1000/1d']);
policy('ip:198.51.100.0/24', ['2/1d']);
policy('ip:203.0.113.0/24', ['1000/1d']);

function testFailedLoginsAreRefused(): void
{
    same(['welcome', 'wrong', 'wrong', 'refused', 'refused'], array_map(fn ($password) => enter($password, '203.0.113.1'), ['right', 'a', 'b', 'right', 'c']));
    same('welcome', enter('right', '203.0.113.2'), 'another address');
    same(['wrong', 'wrong', 'refused'], array_map(fn ($user) => enter('a', '203.0.113.3', $user), ['nobody', 'somebody', 'owner']));
}

function testXMLRPCIsGuardedAlike(): void
{
    same(['welcome', 'wrong', 'wrong', 'refused'], array_map(fn ($password) => call($password, '203.0.113.4'), ['right', 'a', 'b', 'right']));
    same('refused', enter('right', '203.0.113.4'), 'and the form with it');
}

function testApplicationPasswordsAreGuardedAlike(): void
{
    global $folder;
    $password = file_get_contents("$folder/password");
    same(200, request($password, '203.0.113.5'));
    same([401, 401], array_map(fn ($wrong) => request($wrong, '203.0.113.5'), ['a', 'b']));
    same(false, request($password, '203.0.113.5') === 200);
    same(200, request($password, '203.0.113.6'));
}

function testEachFailureIsReportedOnceUnderTheNameOfTheAccount(): void
{
    policy('account:*', ['3/1d'], ['outcome' => 'login_failed']);
    same(['wrong', 'wrong', 'wrong', 'refused'], array_map(fn ($n) => enter('a', "203.0.113.2$n", ['OWNER', 'owner@site.example', ' owner', 'owner'][$n]), [0, 1, 2, 3]));
    same('wrong', enter('a', '203.0.113.24', 'other'));
}

function testRequestsAreChecked(): void
{
    $answers = array_map(fn () => ask('/', '198.51.100.1'), [1, 2, 3]);
    same([200, 200, 429], array_column($answers, 0));
    same('limited', json_decode($answers[2][1], true)['code']);
}

function testPagesThatDoNotExistAreReported(): void
{
    policy('ip:203.0.113.0/24', ['2/1d'], ['outcome' => 'not_found']);
    same([404, 404, 429], array_map(fn () => ask('/?p=99999', '203.0.113.9')[0], [1, 2, 3]));
    same([200, 404, 404, 429], array_map(fn ($path) => ask($path, '203.0.113.10', null, 'X-Status: 1')[0], ['/', '/?p=99999', '/?p=99999', '/']), 'by their status');
}

function testThePluginIsMadeOfItsSources(): void
{
    same(shell_exec('php ' . escapeshellarg(__DIR__ . '/../wordpress/build.php') . ' -'), file_get_contents(__DIR__ . '/../wordpress/stint.php'), 'php wordpress/build.php');
}

run();
