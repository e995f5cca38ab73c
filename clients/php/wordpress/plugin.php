<?php

declare(strict_types=1);

namespace Stint\WordPress;

use Stint\Client;
use Stint\Refusal;
use Stint\StintError;
use Stint\StintOutage;

/** Asks about logins and requests, and reports what came of them. */
final class Plugin
{
    private const REFUSED = 'stint_refused';

    private bool $isInLogin = false;
    private bool $isRefused = false;

    /** @param list<string> $trusted */
    private function __construct(private readonly Client $stint, private readonly array $trusted)
    {
    }

    public static function start(): void
    {
        if (!defined('STINT_URL') || !defined('STINT_ON_OUTAGE') || !in_array(STINT_ON_OUTAGE, ['open', 'closed'], true)) {
            self::complain('Stint protects nothing yet: define STINT_URL and STINT_ON_OUTAGE, "open" or "closed", in wp-config.php.');
            return;
        }
        try {
            $client = new Client(STINT_URL, STINT_ON_OUTAGE, defined('STINT_TOKEN') ? STINT_TOKEN : null, (float) (defined('STINT_TIMEOUT') ? STINT_TIMEOUT : 0.1));
        } catch (\Throwable $error) {
            self::complain('Stint protects nothing: ' . $error->getMessage());
            return;
        }
        $plugin = new self($client, (array) (defined('STINT_TRUSTED_PROXIES') ? STINT_TRUSTED_PROXIES : []));
        add_filter('authenticate', $plugin->ask(...), 0, 3);
        add_filter('wp_authenticate_user', $plugin->refuse(...), 1);
        add_filter('authenticate', $plugin->decide(...), PHP_INT_MAX, 2);
        add_action('wp_login_failed', $plugin->failed(...), 10, 2);
        add_filter('xmlrpc_login_error', $plugin->refuseCall(...), 10, 2);
        add_action('application_password_failed_authentication', $plugin->applicationFailed(...));
        add_action('wp_authenticate_application_password_errors', $plugin->refuseApplication(...), 10, 2);
        $isOfClient = PHP_SAPI !== 'cli' && !(defined('DOING_CRON') && DOING_CRON);
        if (defined('STINT_CHECK_REQUESTS') && STINT_CHECK_REQUESTS && $isOfClient) {
            $plugin->checkRequest();
        }
        if (defined('STINT_REPORT_STATUS') && STINT_REPORT_STATUS) {
            if ($isOfClient) {
                add_action('shutdown', $plugin->reportStatus(...), PHP_INT_MAX);
            }
        } elseif (defined('STINT_REPORT_NOT_FOUND') && STINT_REPORT_NOT_FOUND) {
            add_action('template_redirect', $plugin->notFound(...), PHP_INT_MAX); // after core's redirects
        }
    }

    /** Asks about a login before core looks at it. */
    public function ask(mixed $user, mixed $name, mixed $password): mixed
    {
        $this->isInLogin = is_string($name) && $name !== '' && is_string($password) && $password !== '';
        $this->isRefused = $this->isInLogin && $this->isLoginRefused(self::account($name));
        return $user;
    }

    /** Refuses a login before its password is checked, which costs time. */
    public function refuse(mixed $user): mixed
    {
        return $this->isInLogin && $this->isRefused ? $this->error() : $user;
    }

    /** Has the last word about a login: core overwrites errors from before it. */
    public function decide(mixed $user, mixed $name): mixed
    {
        if (!$this->isInLogin) {
            return $user;
        }
        if ($this->isRefused) {
            return $this->error();
        }
        if ($user instanceof \WP_User) {
            $this->isInLogin = false;
            $this->report('login_ok', $user->user_login);
        }
        return $user;
    }

    /** Reports a failed login, by the form or by XML-RPC. */
    public function failed(mixed $name, mixed $error = null): void
    {
        $this->isInLogin = false;
        if (is_string($name) && !($error instanceof \WP_Error && in_array(self::REFUSED, $error->get_error_codes(), true))) {
            $this->report('login_failed', self::account($name));
        }
    }

    /** Reports an application password that failed in the REST API; of XML-RPC, wp_login_failed follows. */
    public function applicationFailed(\WP_Error $error): void
    {
        if (!$this->isInLogin && !in_array(self::REFUSED, $error->get_error_codes(), true)) {
            $this->report('login_failed', self::account((string) ($_SERVER['PHP_AUTH_USER'] ?? '')));
        }
    }

    /** Says in XML-RPC, too, that a login was refused; core says that its password is wrong. */
    public function refuseCall(mixed $fault, mixed $error): mixed
    {
        $isRefused = $error instanceof \WP_Error && in_array(self::REFUSED, $error->get_error_codes(), true);
        return $isRefused ? new \IXR_Error(429, $this->error()->get_error_message()) : $fault;
    }

    public function refuseApplication(\WP_Error $error, \WP_User $user): void
    {
        if (!$this->isInLogin && $this->isLoginRefused($user->user_login)) {
            $error->add(self::REFUSED, $this->error()->get_error_message(), ['status' => 429]);
        }
    }

    /** Reports a request for a page that does not exist. */
    public function notFound(): void
    {
        if (is_404()) {
            $this->send([['key' => 'ip:' . $this->address(), 'outcome' => 'not_found']]);
        }
    }

    /** Reports the status of the response, also of a redirect and of a fatal error. */
    public function reportStatus(): void
    {
        $this->stint->reportSoon(['key' => 'ip:' . $this->address(), 'status' => (int) http_response_code(), 'request' => self::attributes(), 'source' => 'wordpress']);
    }

    private function checkRequest(): void
    {
        try {
            $decision = $this->stint->check('ip:' . $this->address(), ['request' => self::attributes(), 'source' => 'wordpress']);
            if ($decision->outage !== null) {
                self::log($decision->outage);
            }
            if ($decision->allowed) {
                return;
            }
            $refusal = Refusal::of($decision);
        } catch (StintError $error) {
            self::log($error);
            $refusal = Refusal::unavailable();
        }
        http_response_code($refusal->status);
        foreach ($refusal->headers as $name => $value) {
            header("$name: $value");
        }
        echo $refusal->body;
        exit;
    }

    private function isLoginRefused(string $account): bool
    {
        $keys = Client::loginKeys($this->address(), $account);
        if ($keys === []) {
            return false;
        }
        try {
            $decision = $this->stint->check($keys, ['request' => self::attributes(), 'source' => 'wordpress']);
        } catch (StintError $error) {
            self::log($error);
            return true;
        }
        if ($decision->outage !== null) {
            self::log($decision->outage);
        }
        return !$decision->allowed;
    }

    private function report(string $outcome, string $account): void
    {
        $reports = [];
        foreach (Client::loginKeys($this->address(), $account) as $key) {
            $reports[] = ['key' => $key, 'outcome' => $outcome, 'values' => ['account' => $account]];
        }
        $this->send($reports);
    }

    /** @param list<array<string, mixed>> $reports */
    private function send(array $reports): void
    {
        if ($reports === []) {
            return;
        }
        try {
            $results = $this->stint->reportMany(array_map(static fn ($report) => $report + ['request' => self::attributes(), 'source' => 'wordpress'], $reports));
            array_map(self::log(...), array_filter($results, static fn ($result) => $result instanceof StintError));
        } catch (StintError | StintOutage $error) {
            self::log($error);
        }
    }

    /** Returns the name as WordPress stores it, so that no spelling has limits of its own. */
    private static function account(string $name): string
    {
        $name = trim(wp_unslash($name));
        $user = get_user_by('login', $name) ?: get_user_by('email', $name);
        return $user instanceof \WP_User ? $user->user_login : strtolower(sanitize_user($name));
    }

    private function address(): string
    {
        return Client::addressBehind($this->trusted, (string) ($_SERVER['REMOTE_ADDR'] ?? ''), (string) ($_SERVER['HTTP_X_FORWARDED_FOR'] ?? ''));
    }

    /** @return array<string, string> */
    private static function attributes(): array
    {
        $of = static fn (string $name): string => (string) ($_SERVER[$name] ?? '');
        return ['path' => $of('REQUEST_URI'), 'method' => $of('REQUEST_METHOD'), 'agent' => $of('HTTP_USER_AGENT'), 'host' => $of('HTTP_HOST')];
    }

    private function error(): \WP_Error
    {
        return new \WP_Error(self::REFUSED, 'Too many failed logins. Try again later.');
    }

    private static function log(\Throwable $error): void
    {
        error_log('stint: ' . $error->getMessage());
    }

    private static function complain(string $text): void
    {
        add_action('admin_notices', static function () use ($text): void {
            echo '<div class="notice notice-error"><p>' . esc_html($text) . '</p></div>';
        });
    }
}

if (defined('ABSPATH')) {
    Plugin::start();
}
