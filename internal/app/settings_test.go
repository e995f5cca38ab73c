package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
)

func TestLoadPrefersFlagThenEnvironmentThenFile(t *testing.T) {
	path := writeFile(t, "listen: 127.0.0.1:1\nadmin-listen: 127.0.0.1:2\nlog-level: warn\n")
	s, err := Load(
		[]string{"--config", path, "--listen", "127.0.0.1:11"},
		[]string{"STINT_LISTEN=127.0.0.1:21", "STINT_ADMIN_LISTEN=127.0.0.1:22", "OTHER=1"},
	)
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string][2]string{
		"a flag overrides the rest":       {s.Listen, "127.0.0.1:11"},
		"a variable overrides the file":   {s.AdminListen, "127.0.0.1:22"},
		"the file overrides the default":  {s.LogLevel, "warn"},
		"an unset setting is the default": {s.DataDir, "./data"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: got %q, want %q", what, got[0], got[1])
		}
	}
	if s.CheckDeadline != 100*time.Millisecond || !s.Embedded() {
		t.Errorf("got the deadline %s, embedded %v; want 100ms, true", s.CheckDeadline, s.Embedded())
	}
}

func TestLoadRejectsWrongSettingsInOneLine(t *testing.T) {
	secret := "postgres://u:hunter2hunter2@h/db"
	tests := []struct {
		name    string
		args    []string
		environ []string
		want    string
	}{
		{"Redis without a database", []string{"--redis-url", "redis://h"}, nil, "without --database-url"},
		{"a database without Redis", []string{"--database-url", secret}, nil, "without --redis-url"},
		{"a database that is not Postgres", []string{"--redis-url", "redis://h", "--database-url", "mysql://h"}, nil, "write postgres://"},
		{"a Redis URL of another scheme", []string{"--redis-url", "http://h", "--database-url", secret}, nil, "write redis://"},
		{"no port", []string{"--listen", "127.0.0.1"}, nil, "write host:port"},
		{"a port out of range", []string{"--listen", "127.0.0.1:65536"}, nil, "must be 0 to 65535"},
		{"memory without a unit", []string{"--max-memory", "4096"}, nil, "512MiB or 4GiB"},
		{"too little memory", []string{"--max-memory", "15MiB"}, nil, "from 16MiB"},
		{"memory that overflows", []string{"--max-memory", "9223372036854775807TiB"}, nil, "from 16MiB"},
		{"one address twice", []string{"--listen", "127.0.0.1:9", "--admin-listen", "127.0.0.1:9"}, nil, "each its own port"},
		{"a public check listener without check-auth", []string{"--listen", "0.0.0.0:8080"}, nil, "--check-auth must say"},
		{"a public gRPC listener without check-auth", []string{"--grpc-listen", "0.0.0.0:8082"}, nil, "--check-auth must say"},
		{"gRPC on the address of checks", []string{"--listen", "127.0.0.1:9", "--grpc-listen", "127.0.0.1:9"}, nil, "its own port"},
		{"gRPC without a port", []string{"--grpc-listen", "127.0.0.1"}, nil, "write host:port"},
		{"an unknown check-auth", []string{"--check-auth", "maybe"}, nil, "off or token"},
		{"a captcha of nobody", []string{"--challenge-captcha", "recaptcha"}, nil, "must be off, altcha, turnstile or hcaptcha"},
		{"a captcha without a secret", []string{"--challenge-captcha", "turnstile", "--challenge-captcha-site-key", "k"}, nil, "STINT_CHALLENGE_CAPTCHA_SECRET"},
		{"a captcha without hosts", []string{"--challenge-captcha", "hcaptcha", "--challenge-captcha-site-key", "k"}, []string{"STINT_CHALLENGE_CAPTCHA_SECRET=hunter2"}, "needs --site-hosts"},
		{"a captcha for a host with a port", []string{"--site-hosts", "shop.example:443"}, nil, "is not the name of a host"},
		{"a captcha that is verified nowhere", []string{"--challenge-captcha-verify-url", "shop.example"}, nil, "not a URL"},
		{"a captcha that lets pass", []string{"--challenge-captcha-outage", "allow"}, nil, "must be work or refuse"},
		{"a certificate without a key", []string{"--tls-cert", "c"}, nil, "belong together"},
		{"trusting every proxy", []string{"--trusted-proxies", "0.0.0.0/0"}, nil, "choose their own address"},
		{"trusting every IPv6 proxy", []string{"--trusted-proxies", "::/0"}, nil, "choose their own address"},
		{"a proxy that is no address", []string{"--trusted-proxies", "proxy.local"}, nil, "neither an address nor a network"},
		{"a deadline without a unit", []string{"--check-deadline", "100"}, nil, "must be a duration"},
		{"a deadline of 0", []string{"--check-deadline", "0s"}, nil, "must be a duration"},
		{"a safety limit without a unit", []string{"--escalation-safety-limit", "0.2"}, nil, "a share such as 20%"},
		{"a retention of 0", []string{"--keep-minutes", "0d"}, nil, "a minute or more"},
		{"a schedule without a name", []string{"--schedules", "@daily"}, nil, "name=schedule"},
		{"a webhook that is no URL", nil, []string{"STINT_NOTIFY_WEBHOOK_URL=hunter2"}, "not a URL"},
		{"a password for traces", []string{"--trace-endpoint", "https://u:hunter2@h/v1/traces"}, nil, "without user, query and fragment"},
		{"a key for traces", []string{"--trace-endpoint", "https://h/v1/traces?key=hunter2"}, nil, "OTEL_EXPORTER_OTLP_HEADERS"},
		{"a password for the pages", nil, []string{"STINT_NOTIFY_PAGES_URL=https://u:hunter2@h/"}, "without user, query and fragment"},
		{"pages below a query", []string{"--notify-pages-url", "https://h/?"}, nil, "without user, query and fragment"},
		{"a proposal of one address", []string{"--proposal-min-addresses", "1"}, nil, "from 2 to 256"},
		{"an unknown level", nil, []string{"STINT_LOG_LEVEL=loud"}, "debug, info"},
		{"a short admin token", nil, []string{"STINT_ADMIN_TOKEN=1234"}, "openssl rand -hex 32"},
		{"an admin token of words", nil, []string{"STINT_ADMIN_TOKEN=hunter2-hunter2-hunter2"}, "must have 128"},
		{"an admin token with a space", nil, []string{"STINT_ADMIN_TOKEN=9f5c1b7d2830694ef1a5c3d7 9f5c1b7d2830694ef1a5c3d8"}, "ASCII"},
		{"a public admin listener without TLS", []string{"--admin-listen", "0.0.0.0:8081"}, nil, "--admin-insecure"},
		{"a public admin listener without a host", []string{"--admin-listen", ":8081"}, nil, "--admin-tls-cert"},
		{"an admin listener for a network", []string{"--admin-listen", "[2001:db8::1]:8081"}, nil, "--admin-insecure"},
		{"an admin listener by a name", []string{"--admin-listen", "stint.example.com:8081"}, nil, "--admin-insecure"},
		{"an invalid admin-insecure", []string{"--admin-insecure", "maybe"}, nil, "true or false"},
		{"an allowed host with a port", []string{"--allowed-hosts", "stint.example.com:80"}, nil, "without ports"},
		{"two address headers", []string{"--client-address-header", "X-Forwarded-For,Forwarded"}, nil, "name one header"},
		{"a short admin password", nil, []string{"STINT_ADMIN_PASSWORD=hunter2"}, "too short"},
		{"a prefix with a hash tag", []string{"--redis-url", "redis://h", "--database-url", secret, "--redis-prefix", "a{b}"}, nil, "without braces"},
		{"an argument that is no flag", []string{"serve"}, nil, "not a setting"},
		{"an unknown flag", []string{"--liste", "x"}, nil, "liste"},
		{"a missing file", []string{"--config", "/nonexistent.yaml"}, nil, "settings file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Load(test.args, test.environ)
			if err == nil {
				t.Fatal("accepted")
			}
			text := err.Error()
			if !strings.Contains(text, test.want) || strings.Contains(text, "\n") || strings.Contains(text, "hunter2") {
				t.Errorf("got %q, want one line with %q and no secret", text, test.want)
			}
		})
	}
}

func TestLoadAcceptsSafeAdminListeners(t *testing.T) {
	for _, args := range [][]string{
		{"--admin-listen", "0.0.0.0:8081", "--admin-insecure", "true"},
		{"--admin-listen", "0.0.0.0:8081", "--admin-tls-cert", "c", "--admin-tls-key", "k"},
		{"--admin-listen", "localhost:8081"}, {"--admin-listen", "[::1]:8081"}, {"--admin-listen", "127.0.0.5:8081"},
	} {
		if _, err := Load(args, nil); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestLoadReturnsErrHelpForVersionFlag(t *testing.T) {
	if _, err := Load([]string{"--version"}, nil); !errors.Is(err, ErrHelp) {
		t.Errorf("got %v", err)
	}
}

func TestLoadNamesUnknownSettingInFile(t *testing.T) {
	_, err := Load([]string{"--config", writeFile(t, "lisetn: 127.0.0.1:1\n")}, nil)
	if err == nil || !strings.Contains(err.Error(), `"lisetn"`) {
		t.Errorf("got %v", err)
	}
}

func TestShownSettingsHideSecrets(t *testing.T) {
	s, err := Load([]string{
		"--redis-url", "redis://u:hunter2@h:1/0", "--database-url", "postgres://u@h/db?password=hunter2",
	}, []string{"STINT_ADMIN_TOKEN=hunter2+9f5c1b7D2830694ef1a5c3d7e2b4a8", "STINT_ADMIN_PASSWORD=hunter2hunter2", "STINT_CHALLENGE_CAPTCHA_SECRET=hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range s.Shown() {
		if strings.Contains(setting.Value, "hunter2") {
			t.Errorf("%s contains its secret: %s", setting.Name, setting.Value)
		}
	}
}

// The shown value of a setting that is not a secret can be set again, with the same result.
func TestShownSettingValuesCanBeSetAgain(t *testing.T) {
	s, err := Load([]string{
		"--trusted-proxies", "10.0.0.0/8,192.0.2.1", "--allowed-hosts", "*.example.com,stint.example.com", "--check-deadline", "250ms",
		"--notify-email-to", "a@example.com,b@example.com", "--schedules", "weekly-report=off;daily-report=0 6 * * *",
		"--escalation-safety-limit", "12.5%", "--proposal-min-addresses", "9", "--keep-days", "2d", "--max-memory", "1536MiB", "--allow-redis-eviction", "true",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var again Settings
	options := again.options()
	for i, shown := range s.Shown() {
		if options[i].secret {
			continue
		}
		if err := options[i].value.set(shown.Value); err != nil {
			t.Errorf("setting %s to %q: %v", shown.Name, shown.Value, err)
		}
	}
	if got, want := fmt.Sprint(again.Shown()), fmt.Sprint(s.Shown()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestLoadAcceptsCommonFormsOfSettingsFiles(t *testing.T) {
	s, err := Load([]string{"--config", writeFile(t, "log_level: warn\ntrusted-proxies: [10.0.0.0/8, 192.0.2.1]\ncheck-deadline:\n")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.LogLevel != "warn" || s.TrustedProxies.String() != "10.0.0.0/8, 192.0.2.1/32" || s.CheckDeadline != 100*time.Millisecond {
		t.Errorf("got %+v", s)
	}
	if len(s.Hints) != 1 || !strings.Contains(s.Hints[0], "log_level is accepted; it is written log-level") {
		t.Errorf("got the hints %q, want one about log_level", s.Hints)
	}
	for text, want := range map[string]string{
		"tls:\n  cert: a\n":                    `there is no setting "tls.cert", since settings are not nested; write tls-cert`,
		"schedules:\n  daily-report: off\n":    `there is no setting "schedules.daily-report", since settings are not nested`,
		"log_level: warn\nlog-level: info\n":   "log-level is given twice",
		"admin-token-fil: /x\n":                `there is no setting "admin-token-fil"`,
		"admin-token-file: /x\nadmin-token: y": "are both given",
	} {
		if _, err := Load([]string{"--config", writeFile(t, text)}, nil); err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\x00\n") {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestSettingsPageIsUpToDate(t *testing.T) {
	page, err := os.ReadFile("../../docs/SETTINGS.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != SettingsPage() {
		t.Error("docs/SETTINGS.md is out of date: go run ./cmd/server config reference > docs/SETTINGS.md")
	}
}

func TestExampleFileHasEverySettingWithItsDefault(t *testing.T) {
	example, err := os.ReadFile("../../deploy/stint.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(example) != ExampleFile() {
		t.Error("deploy/stint.example.yaml is out of date: go run ./cmd/server config example > deploy/stint.example.yaml")
	}
	// A comment begins with a capital, which no value may be given.
	for _, found := range regexp.MustCompile(`(?m)^\n# (\S+://|\S+,|\S+ or )`).FindAllString(string(example), -1) {
		t.Errorf("a comment begins with a value: %q", found)
	}
	var set []string // every setting as a line of its own
	for line := range strings.Lines(string(example)) {
		if strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "# ") {
			set = append(set, line[1:])
		}
	}
	got, err := Load([]string{"--config", writeFile(t, strings.Join(set, ""))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(set) != len(want.Shown()) || fmt.Sprint(got.Shown()) != fmt.Sprint(want.Shown()) {
		t.Errorf("%d settings: got  %s\nwant %s", len(set), got.Shown(), want.Shown())
	}
}

func TestConfigCheckReportsAllErrors(t *testing.T) {
	check := func(text string, environ ...string) (code int, out, wrong string) {
		var o, e strings.Builder
		path := writeFile(t, text)
		code = Main(Process{Args: []string{"config", "check", path}, Environ: environ, Out: &o, Logs: &e})
		return code, o.String(), e.String()
	}
	if code, out, wrong := check("log_level: warn\n"); code != 0 || !strings.Contains(out, "is written log-level") || !strings.Contains(out, "is valid") || wrong != "" {
		t.Errorf("got the exit code %d: %s%s", code, out, wrong)
	}
	if code, out, wrong := check("log-level: loud\ncheck-deadline: 100\nlog_format: text\n"); code != 1 || strings.Count(wrong, "\n") != 2 || !strings.Contains(wrong, "log-level in ") ||
		!strings.Contains(wrong, "check-deadline in ") || !strings.Contains(out, "log-format") {
		t.Errorf("got the exit code %d: %s%s", code, out, wrong)
	}
	if code, _, wrong := check("tls-cert: /nonexistent\ntls-key: /nonexistent\n"); code != 1 || !strings.Contains(wrong, ": open /nonexistent") {
		t.Errorf("got the exit code %d: %s", code, wrong)
	}
	if code, _, wrong := check("log-level: info\n", "STINT_REDIS_URL=redis://h"); code != 1 || !strings.Contains(wrong, "without --database-url") {
		t.Errorf("got the exit code %d: %s", code, wrong)
	}
	for _, args := range [][]string{{"config", "--help"}, {"config", "check", "--help"}, {"config", "check", "-h"}, {"config", "example", "--help"}} {
		var out, wrong strings.Builder
		if code := Main(Process{Args: args, Out: &out, Logs: &wrong}); code != 0 || wrong.String() != "" || !strings.Contains(out.String(), "config check FILE") {
			t.Errorf("%v: got the exit code %d: %s%s", args, code, out.String(), wrong.String())
		}
	}
	closed, err := os.Open(os.DevNull) // for reading only
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	if code := Main(Process{Args: []string{"config", "example"}, Out: closed, Logs: io.Discard}); code != 1 {
		t.Errorf("an output that cannot be written: got the exit code %d, want 1", code)
	}
	var wrong strings.Builder
	if code := Main(Process{Args: []string{"config", "chek"}, Out: &wrong, Logs: &wrong}); code != 2 || !strings.Contains(wrong.String(), "config check FILE") {
		t.Errorf("got the exit code %d: %s", code, wrong.String())
	}
}

func TestHealthCommandChecksConfiguredNode(t *testing.T) {
	ask := func(args ...string) (int, string) {
		var wrong strings.Builder
		return Main(Process{Args: append([]string{"health"}, args...), Out: &wrong, Logs: &wrong}), wrong.String()
	}
	a := startApp(t)
	if code, text := ask("--listen", a.CheckAddr().String()); code != 0 {
		t.Errorf("got the exit code %d: %s", code, text)
	}
	if code, text := ask("--help"); code != 0 || text != "" {
		t.Errorf("--help: got the exit code %d: %s", code, text)
	}
	if code, text := ask("--listen", servers.FreeAddress(t)); code != 1 || !strings.Contains(text, "does not answer") {
		t.Errorf("got the exit code %d: %s", code, text)
	}
	a.draining.Store(true)
	if code, text := ask("--listen", a.CheckAddr().String()); code != 1 || !strings.Contains(text, "503") {
		t.Errorf("got the exit code %d: %s", code, text)
	}
}

func TestSystemdUnitIsValidAndHardened(t *testing.T) {
	unit, err := os.ReadFile("../../deploy/systemd/stint.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"User=stint", "ExecReload=/bin/kill -HUP $MAINPID", "StateDirectory=stint", "StateDirectoryMode=0700", "NoNewPrivileges=yes", "ProtectSystem=strict"} {
		if !strings.Contains(string(unit), "\n"+line+"\n") {
			t.Errorf("the unit has no line %s", line)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed: the unit is not verified")
		return
	}
	path := filepath.Join(t.TempDir(), "stint.service")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(unit), "/usr/bin/stint-server", os.Args[0])), 0o600); err != nil {
		t.Fatal(err)
	}
	// Verified together with the socket unit that starts it.
	socket, err := os.ReadFile("../../deploy/systemd/stint.socket")
	if err != nil {
		t.Fatal(err)
	}
	socketPath := filepath.Join(filepath.Dir(path), "stint.socket")
	if err := os.WriteFile(socketPath, socket, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(analyze, "verify", "--man=no", path, socketPath).CombinedOutput(); err != nil || len(text) > 0 {
		t.Errorf("systemd-analyze verify: %v: %s", err, text)
	}
	if text, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", "--no-pager", path).CombinedOutput(); err != nil {
		t.Errorf("the exposure is more than 2.0: %v: %s", err, text)
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stint.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadOpenIDSettings(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the client\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := []string{
		"--oidc-issuer", "https://id.example.com", "--oidc-client-id", "stint", "--oidc-client-secret-file", secret,
		"--notify-pages-url", "https://stint.example.com/", "--oidc-roles", "ops=operator; cn=a,ou=b=admin", "--allowed-hosts", "stint.example.com",
		"--password-login", "admin, jo",
	}
	s, err := Load(good, nil)
	if err != nil || s.OpenID.RedirectURL != "https://stint.example.com/login/oidc/callback" || s.OpenID.ClientSecret != "of the client" ||
		len(s.OpenID.Roles) != 2 || len(s.PasswordUsers) != 2 || len(s.OpenID.Scopes) != 3 {
		t.Fatalf("%+v, %v, %v", s.OpenID, s.PasswordUsers, err)
	}
	for _, shown := range s.Shown() {
		if strings.Contains(shown.Value, "of the client") {
			t.Errorf("%s contains the secret", shown.Name)
		}
	}
	if s, err = Load(nil, nil); err != nil || s.OpenID.Enabled() || s.PasswordUsers != nil {
		t.Errorf("without settings: got %+v, %v, want OpenID Connect disabled", s.OpenID, err)
	}
	for want, args := range map[string][]string{
		"--oidc-roles":      append(slices.Clone(good), "--oidc-roles", "ops=boss"),
		"--oidc-issuer":     append(slices.Clone(good), "--oidc-issuer", "http://id.example.com"),
		"--allowed-hosts":   append(slices.Clone(good), "--allowed-hosts", "other.example.com"),
		"--password-login":  {"--password-login", "admin"},
		"--oidc-client-id":  append(slices.Clone(good), "--oidc-client-id", ""),
		"--oidc-redirect-u": append(slices.Clone(good), "--oidc-redirect-url", "https://stint.example.com/other"),
	} {
		if _, err := Load(args, nil); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one line with %s", err, want)
		}
	}
}

func TestLoadHintsAtMisspeltVariables(t *testing.T) {
	s, err := Load(nil, []string{
		"STINT_LOG_LEVEL=warn", "STINT_ADMIN_TOKEN_FILE=", "STINT_CONFIG=", "STINT_CHECK_URL=http://127.0.0.1:8080", "PATH=/bin", "stint_listen=x",
		"STINT_SERVICE_HOST=10.0.0.1", "STINT_SERVICE_PORT_HTTP=80", "STINT_PORT=tcp://10.0.0.1:80", "STINT_ADMIN_PORT_8081_TCP_ADDR=10.0.0.1",
		"STINT_REDISURL=redis://h", "STINT_TRUSTED_PROXY=10.0.0.0/8", "STINT_LISTEN_FILE=x", "STINT_POSTGRES=hunter2", "STINT_A\nB=x",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`the environment variable "STINT_A\nB" is not a setting`,
		`the environment variable "STINT_LISTEN_FILE" is not a setting`,
		`the environment variable "STINT_POSTGRES" is not a setting`,
		`the environment variable "STINT_REDISURL" is not a setting; did you mean STINT_REDIS_URL?`,
		`the environment variable "STINT_TRUSTED_PROXY" is not a setting; did you mean STINT_TRUSTED_PROXIES?`,
	}
	if !slices.Equal(s.Hints, want) {
		t.Errorf("got %q, want %q", s.Hints, want)
	}
}

// TestErrorsNameWhereASettingIsGiven gives the same wrong values at each place.
func TestErrorsNameWhereASettingIsGiven(t *testing.T) {
	folder := t.TempDir()
	bad := writeFile(t, "no certificate")
	for _, c := range []struct{ name, value, want string }{
		{"log-level", "loud", ": must be debug, info, warn or error"},
		{"listen", "nowhere", `: got "nowhere"; write host:port`},
		{"listen", "0.0.0.0:8080", " 0.0.0.0:8080 is reached from other machines, so --check-auth must say"},
		{"redis-url", "redis://h", " is given without --database-url"},
		{"schedules", "never=1", ": "},
		{"tls-cert", bad, " and --tls-key belong together"},
	} {
		variable := variableOf(c.name)
		file := writeFile(t, c.name+": "+c.value+"\n")
		if err := os.WriteFile(filepath.Join(folder, c.name), []byte(c.value), 0o600); err != nil {
			t.Fatal(err)
		}
		for source, given := range map[string]struct{ args, environ []string }{
			"--" + c.name:              {args: []string{"--" + c.name, c.value}},
			variable:                   {environ: []string{variable + "=" + c.value}},
			c.name + " in " + file:     {args: []string{"--config", file}},
			"the credential " + c.name: {environ: []string{"CREDENTIALS_DIRECTORY=" + folder}},
		} {
			_, err := Load(given.args, given.environ)
			if err == nil || !strings.HasPrefix(err.Error(), source+c.want) {
				t.Errorf("%s: got %v", source, err)
			}
		}
		os.Remove(filepath.Join(folder, c.name))
	}
	var stored Settings
	stored.sources = map[string]string{"admin-token": "admin-token-file in stint.yaml"}
	if err := stored.bySource(errors.New("STINT_ADMIN_TOKEN cannot be used, --listen")); err.Error() != "admin-token-file in stint.yaml cannot be used, --listen" {
		t.Error(err)
	}
}

// TestMisspeltNamesGetASuggestion misspells settings in each way of giving them.
func TestMisspeltNamesGetASuggestion(t *testing.T) {
	for written, meant := range map[string]string{"redis": "redis-url", "redis-ur": "redis-url", "listne": "listen", "admin-lisen": "admin-listen", "databse-url": "database-url", "notify-smpt-url-file": "notify-smtp-url-file", "zzz": "", "log-leve": "log-level", "redis-u": "redis-url", "geoip": "geoip-dir"} {
		_, err := Load([]string{"--" + written, "x"}, nil)
		if err == nil || strings.Contains(err.Error(), "did you mean") != (meant != "") || !strings.Contains(err.Error(), meant) {
			t.Errorf("--%s: got %v, want --%s", written, err, meant)
		}
		_, err = Load([]string{"--config", writeFile(t, written+": x\n")}, nil)
		if err == nil || strings.Contains(err.Error(), "did you mean") != (meant != "") || !strings.Contains(err.Error(), meant) {
			t.Errorf("%s in a file: got %v, want %s", written, err, meant)
		}
	}
	s, err := Load(nil, []string{"STINT_LISTNE=x"})
	if err != nil || len(s.Hints) != 1 || !strings.HasSuffix(s.Hints[0], "did you mean STINT_LISTEN?") {
		t.Errorf("got %q, %v", s.Hints, err)
	}
}

// TestCertificateErrorsNameTheFile damages one file after the other.
func TestCertificateErrorsNameTheFile(t *testing.T) {
	dir := t.TempDir()
	files := TLSFiles{filepath.Join(dir, "good.crt"), filepath.Join(dir, "good.key")}
	writeCertificate(t, files, 1)
	bad := writeFile(t, "no certificate")
	for _, c := range []struct {
		files TLSFiles
		want  string
	}{
		{TLSFiles{bad, files.Key}, "STINT_TLS_CERT " + bad + " with --tls-key " + files.Key + ": "},
		{TLSFiles{files.Cert, bad}, "STINT_TLS_CERT " + files.Cert + " with --tls-key " + bad + ": "},
		{TLSFiles{files.Cert, "/nonexistent"}, "--tls-key: open /nonexistent"},
		{TLSFiles{"/nonexistent", files.Key}, "STINT_TLS_CERT: open /nonexistent"},
	} {
		s := Settings{TLS: c.files, sources: map[string]string{"tls-cert": "STINT_TLS_CERT"}}
		_, err := newCertificate("listen", s.TLS)
		if err = s.bySource(err); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// Each setting is about a subject, and those of one subject are together.
func TestSettingsAreGroupedBySubject(t *testing.T) {
	seen := map[string]bool{}
	last := ""
	for _, s := range (Settings{}).Shown() {
		if s.Subject != last {
			if s.Subject == "" || seen[s.Subject] {
				t.Errorf("--%s is about %q, apart from others of that subject", s.Name, s.Subject)
			}
			seen[s.Subject], last = true, s.Subject
		}
	}
	if len(seen) < 5 {
		t.Errorf("%d subjects: %v", len(seen), seen)
	}
}
