// Package compose checks deploy/compose without containers. It is a module of its own,
// because the parser of compose files brings many others.
package compose

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const folder = "../../deploy/compose"

// project reads the compose file like Docker Compose, by its schema, from a copy of
// deploy that has the secrets.
func project(t *testing.T) *types.Project {
	t.Helper()
	deploy := filepath.Join(t.TempDir(), "deploy")
	if err := os.CopyFS(deploy, os.DirFS("../../deploy")); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(deploy, "compose")
	if output, err := exec.Command("sh", filepath.Join(dir, "setup")).CombinedOutput(); err != nil {
		t.Fatalf("setup: %v\n%s", err, output)
	}
	options, err := cli.NewProjectOptions([]string{filepath.Join(dir, "compose.yaml")}, cli.WithWorkingDirectory(dir))
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComposeFileIsValidAndNamesFilesAndSettingsThatExist(t *testing.T) {
	p := project(t)
	for _, name := range []string{"redis", "postgres", "stint-1", "stint-2", "nginx", "prometheus", "grafana"} {
		if _, exists := p.Services[name]; !exists {
			t.Errorf("there is no service %s", name)
		}
	}
	example, err := os.ReadFile("../../deploy/stint.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s mounts a missing file: %v", name, err)
			}
			if !v.ReadOnly {
				t.Errorf("%s may write to %s", name, v.Source)
			}
		}
		for variable := range s.Environment {
			setting, isOurs := strings.CutPrefix(variable, "STINT_")
			if !isOurs {
				continue
			}
			setting = strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(setting, "_FILE"), "_", "-"))
			if !regexp.MustCompile(`(?m)^#?`+regexp.QuoteMeta(setting)+`:`).Match(example) && !strings.Contains(string(readme), "`STINT_"+strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))+"`") {
				t.Errorf("%s sets %s, which is not a setting", name, variable)
			}
		}
		for variable, value := range s.Environment {
			secret, isSecret := strings.CutPrefix(*value, "/run/secrets/")
			if isSecret && !slices.ContainsFunc(s.Secrets, func(c types.ServiceSecretConfig) bool { return c.Source == secret }) {
				t.Errorf("%s sets %s to a secret that it does not have", name, variable)
			}
		}
		if strings.HasPrefix(name, "stint-") && s.Environment["STINT_ADMIN_PASSWORD_FILE"] == nil {
			t.Errorf("only the log of %s has the password of the pages", name)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" && name != "nginx" {
				t.Errorf("%s publishes %s to other machines", name, port.Published)
			}
		}
		if strings.HasPrefix(name, "stint-") && (!s.ReadOnly || len(s.CapDrop) == 0) {
			t.Errorf("%s may write to its root or has capabilities", name)
		}
	}
	for name, s := range p.Secrets {
		if info, err := os.Stat(s.File); err != nil || info.Size() == 0 {
			t.Errorf("the secret %s: %v", name, err)
		}
	}
}

func TestNginxAndPrometheusAcceptTheirFiles(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, "nginx.conf"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// The names of containers are known in their network only.
	config := "error_log stderr; pid " + dir + "/nginx.pid;\n" + regexp.MustCompile(`server stint-\d:`).ReplaceAllString(string(text), "server 127.0.0.1:")
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, program(t, "nginx", "/usr/sbin/nginx"), "-t", "-p", dir, "-c", path)

	for from, to := range map[string]string{folder + "/prometheus.yaml": "prometheus.yaml", "../../deploy/prometheus/stint.rules.yaml": "stint.rules.yaml"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		token := filepath.Join(dir, "token")
		text = []byte(strings.ReplaceAll(string(text), "/run/secrets/prometheus-token", token))
		for path, content := range map[string][]byte{filepath.Join(dir, to): text, token: []byte("none")} {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	cache := os.Getenv("STINT_PROMETHEUS")
	if cache == "" {
		user, _ := os.UserCacheDir()
		cache = filepath.Join(user, "stint-prometheus")
	}
	run(t, program(t, "promtool", cache+"/usr/bin/promtool"), "check", "config", filepath.Join(dir, "prometheus.yaml"))
}

// program finds a program that scripts/setup-tests.sh installs.
func program(t *testing.T, name, otherwise string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	if _, err := os.Stat(otherwise); err != nil {
		t.Fatalf("%s is not installed: run bash scripts/setup-tests.sh", name)
	}
	return otherwise
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	if output, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Errorf("%s %v: %v\n%s", program, args, err, output)
	}
}
