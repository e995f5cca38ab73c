package console_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/console"
)

const contexts = `current: production
contexts:
  production: {url: "https://prod:8081", token_file: ~/prod, check_url: "https://prod:8080", check_token_file: ~/prod-check}
  open: {url: "https://open:8081"}
  local: {token_file: ~/local}
`

// home returns a folder with contexts and the files of their tokens.
func home(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".config", "stint"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		".config/stint/contexts.yaml": contexts, "prod": "prod-token\n", "prod-check": "check-token\n", "local": "local-token\n", "other": "other-token\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// with returns the console of a command with flags, "~" being home.
func with(t *testing.T, home, flags string, env map[string]string) *console.Console {
	t.Helper()
	con := &console.Console{System: console.System{Getenv: func(name string) string {
		if name == "HOME" {
			return home
		}
		return env[name]
	}}}
	root := &cobra.Command{}
	con.AddFlags(root)
	if err := root.ParseFlags(strings.Fields(strings.ReplaceAll(flags, "~", home))); err != nil {
		t.Fatal(err)
	}
	return con
}

func TestTokenIsSentOnlyToItsHost(t *testing.T) {
	dir := home(t)
	const refused = "refused"
	for _, c := range []struct{ flags, url, token, context, want string }{
		{"", "", "", "", "https://prod:8081 prod-token"},
		{"--url http://other", "", "", "", "http://other "},
		{"--url https://prod:8081/", "", "", "", "https://prod:8081/ prod-token"},
		{"--url http://other --token-file ~/other", "", "", "", "http://other other-token"},
		{"--token-file ~/other", "", "", "", "https://prod:8081 other-token"},
		{"--url http://other", "", "env", "", "http://other env"},
		{"", "http://other", "", "", "http://other "},
		{"", "http://other", "env", "", "http://other env"},
		{"", "https://prod:8081", "env", "", "https://prod:8081 env"},
		{"", "", "env", "", refused},
		{"--token-file ~/other", "", "env", "", "https://prod:8081 other-token"},
		{"--url http://other --context production", "", "", "", "http://other "},
		{"--context production", "http://other", "env", "", "https://prod:8081 prod-token"},
		{"--context open", "", "", "", "https://open:8081 "},
		{"--context open", "http://other", "env", "", refused},
		{"", "https://open:8081", "env", "open", "https://open:8081 env"},
		{"--context local", "", "", "", "http://127.0.0.1:8081 local-token"},
		{"--context local", "http://other", "", "", "http://other "},
	} {
		con := with(t, dir, c.flags, map[string]string{console.EnvURL: c.url, console.EnvToken: c.token, console.EnvContext: c.context})
		base, token, err := con.AdminListener()
		got := base + " " + token
		if err != nil {
			got = err.Error()
			var exit *console.ExitError
			if errors.As(err, &exit) && exit.Code == console.Usage {
				got = refused
			}
		}
		if got != c.want {
			t.Errorf("%q, %s=%q, %s=%q, context %q: %q, want %q", c.flags, console.EnvURL, c.url, console.EnvToken, c.token, c.context, got, c.want)
		}
	}
	if base, token, err := with(t, dir, "--check-url http://other", nil).CheckListener(); base != "http://other" || token != "" || err != nil {
		t.Errorf("CheckListener: got %q %q, %v", base, token, err)
	}
}

func TestGivenContextMakesPathsAbsolute(t *testing.T) {
	con := with(t, "~", "--token-file near --check-token-file ~/far", nil)
	here, err := filepath.Abs("near")
	if err != nil {
		t.Fatal(err)
	}
	if given, err := con.GivenContext(); err != nil || given.TokenFile != here || given.CheckTokenFile != "~/far" {
		t.Errorf("GivenContext: got %+v, %v", given, err)
	}
}
