package detection

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/backtest"
)

//go:embed jails.py
var files embed.FS

// errNotInstalled is matched by the error of a system that this machine does not have.
var errNotInstalled = errors.New("it is not installed here")

// isFailed reports whether a request is a login that fails.
func (r Request) isFailed() bool { return r.Account != "" && r.Status == 401 }

// clean keeps what a log line could not hold out of a text.
func clean(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == '"' || c == '\\' || c == 0x7f {
			return '.'
		}
		return c
	}, text)
}

// fail2ban has the filters and the failure counts of the installed fail2ban decide.
func fail2ban(ctx context.Context, t *Traffic) ([]bool, *backtest.Score, error) { return jails(ctx, t) }

// fail2banSSH has the jail sshd decide, with the path of each request as the line of the log.
func fail2banSSH(ctx context.Context, t *Traffic) ([]bool, *backtest.Score, error) {
	return jails(ctx, t, "sshd")
}

func jails(ctx context.Context, t *Traffic, names ...string) ([]bool, *backtest.Score, error) {
	const python = "/usr/bin/python3"
	if err := exec.CommandContext(ctx, python, "-c", "import fail2ban").Run(); err != nil {
		return nil, nil, fmt.Errorf("fail2ban: %w", errNotInstalled)
	}
	script, err := files.ReadFile("jails.py")
	if err != nil {
		return nil, nil, err
	}
	var in, out, errorOutput bytes.Buffer
	for _, r := range t.Requests {
		failed := "0"
		if r.isFailed() {
			failed = "1"
		}
		fmt.Fprintf(&in, "%d.%03d\t%s\t%s\t%s\t%d\t%s\t%s\n", r.At.Unix(), r.At.UnixMilli()%1000, r.Address, clean(r.Method), clean(r.Path), r.Status, clean(r.Agent), failed)
	}
	command := exec.CommandContext(ctx, python, append([]string{"-c", string(script)}, names...)...)
	command.Stdin, command.Stdout, command.Stderr = &in, &out, &errorOutput
	if err := command.Run(); err != nil {
		return nil, nil, fmt.Errorf("fail2ban: %w: %s", err, errorOutput.String())
	}
	lines := strings.Fields(out.String())
	if len(lines) != len(t.Requests) {
		return nil, nil, fmt.Errorf("fail2ban decided %d of %d requests: %s", len(lines), len(t.Requests), errorOutput.String())
	}
	refused := make([]bool, len(lines))
	for i, l := range lines {
		refused[i] = l == "1"
	}
	return refused, nil, nil
}

// crowdSecBan is how long CrowdSec's own profile bans.
const crowdSecBan = 4 * time.Hour

// crowdSecParsers and crowdSecScenarios are those of the collections crowdsecurity/nginx and
// crowdsecurity/base-http-scenarios.
var (
	crowdSecParsers   = []string{"s00-raw/crowdsecurity/syslog-logs", "s01-parse/crowdsecurity/nginx-logs", "s02-enrich/crowdsecurity/dateparse-enrich", "s02-enrich/crowdsecurity/http-logs"}
	crowdSecScenarios = []string{
		"crowdsecurity/http-crawl-non_statics", "crowdsecurity/http-probing", "crowdsecurity/http-bad-user-agent", "crowdsecurity/http-path-traversal-probing",
		"crowdsecurity/http-sensitive-files", "crowdsecurity/http-sqli-probing", "crowdsecurity/http-xss-probing", "crowdsecurity/http-backdoors-attempts",
		"ltsich/http-w00tw00t", "crowdsecurity/http-generic-bf", "crowdsecurity/http-open-proxy", "crowdsecurity/nginx-req-limit-exceeded",
	}
)

// crowdSec has the installed CrowdSec replay the requests as a log, and refuses what its
// decisions would have. CrowdSec reads what it would have refused too: an alert about
// requests within a ban begins no other.
func crowdSec(ctx context.Context, t *Traffic) (refused []bool, _ *backtest.Score, err error) {
	root := os.Getenv("STINT_CROWDSEC")
	if root == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, nil, err
		}
		root = filepath.Join(cache, "stint-crowdsec")
	}
	program := filepath.Join(root, "usr/bin/crowdsec")
	if _, err := os.Stat(program); err != nil {
		return nil, nil, fmt.Errorf("CrowdSec: %w", errNotInstalled)
	}
	dir, err := os.MkdirTemp("", "stint-detection-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	if err := configureCrowdSec(root, dir); err != nil {
		return nil, nil, err
	}
	if err := writeLog(filepath.Join(dir, "access.log"), t); err != nil {
		return nil, nil, err
	}
	config := filepath.Join(dir, "config.yaml")
	cscli := func(args ...string) ([]byte, error) {
		out, err := exec.CommandContext(ctx, filepath.Join(root, "usr/bin/cscli"), append([]string{"-c", config}, args...)...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("cscli %v: %w: %s", args, err, out)
		}
		return out, nil
	}
	if _, err := cscli("machines", "add", "test", "--auto", "--force", "-f", filepath.Join(dir, "credentials.yaml")); err != nil {
		return nil, nil, err
	}
	server := exec.CommandContext(ctx, program, "-c", config, "-no-cs")
	server.Dir = dir
	if err := server.Start(); err != nil {
		return nil, nil, err
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	if err := awaitFile(ctx, config); err != nil {
		return nil, nil, err
	}
	replay := exec.CommandContext(ctx, program, "-c", config, "-no-api", "-type", "nginx", "-dsn", "file://"+filepath.Join(dir, "access.log"))
	replay.Dir = dir
	if err := replay.Run(); err != nil {
		return nil, nil, fmt.Errorf("crowdsec: %w", err)
	}
	out, err := cscli("alerts", "list", "-o", "json", "-l", "0")
	if err != nil {
		return nil, nil, err
	}
	refused, err = banned(t, out)
	return refused, nil, err
}

// configureCrowdSec writes a configuration with the hub that the packages have.
func configureCrowdSec(root, dir string) error {
	hub := filepath.Join(root, "usr/share/crowdsec/hub")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	listen := listener.Addr().String()
	listener.Close()
	copies := map[string]string{
		filepath.Join(hub, ".index.json"): "index.json", filepath.Join(root, "etc/crowdsec/patterns"): "patterns",
		filepath.Join(root, "usr/share/crowdsec/data"): "data", filepath.Join(root, "etc/crowdsec/profiles.yaml"): "profiles.yaml",
	}
	for _, p := range crowdSecParsers {
		stage, _, _ := strings.Cut(p, "/")
		copies[filepath.Join(hub, "parsers", p+".yaml")] = filepath.Join("parsers", stage, filepath.Base(p)+".yaml")
	}
	for _, s := range crowdSecScenarios {
		copies[filepath.Join(hub, "scenarios", s+".yaml")] = filepath.Join("scenarios", filepath.Base(s)+".yaml")
	}
	// The scenario asks for a file by another name than the package gives it.
	copies[filepath.Join(root, "usr/share/crowdsec/data/path_traversal.txt")] = "data/http_path_traversal.txt"
	for from, to := range copies {
		if err := copyTo(from, filepath.Join(dir, to)); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"simulation.yaml": "simulation: false\n", "acquis.yaml": "", "config.yaml": fmt.Sprintf(`
common: {daemonize: false, log_media: stdout, log_level: warning, working_dir: %[1]s}
config_paths: {config_dir: %[1]s, data_dir: %[1]s/data, hub_dir: %[3]s, index_path: %[1]s/index.json, simulation_path: %[1]s/simulation.yaml,
  notification_dir: %[1]s/notifications, plugin_dir: %[1]s/plugins}
crowdsec_service: {acquisition_path: %[1]s/acquis.yaml, parser_routines: 1, buckets_routines: 1, output_routines: 1}
cscli: {output: human}
db_config: {type: sqlite, use_wal: true, db_path: %[1]s/crowdsec.db, flush: {max_items: 500000, max_age: 36500d}}
plugin_config: {user: root, group: root}
api:
  client: {credentials_path: %[1]s/credentials.yaml}
  server: {listen_uri: %[2]s, profiles_path: %[1]s/profiles.yaml}
prometheus: {enabled: false}
`, dir, listen, hub),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "listen"), []byte(listen), 0o600)
}

// copyTo copies a file or a folder.
func copyTo(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		entries, err := os.ReadDir(from)
		for _, e := range entries {
			err = errors.Join(err, copyTo(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
		}
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, text, fs.FileMode(0o600))
}

// awaitFile waits until CrowdSec's API listens where the file beside its configuration says.
func awaitFile(ctx context.Context, config string) error {
	listen, err := os.ReadFile(filepath.Join(filepath.Dir(config), "listen"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", string(listen))
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("CrowdSec does not listen: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// writeLog writes the requests as nginx does, its access log and its error log in one
// file.
func writeLog(path string, t *Traffic) error {
	var b bytes.Buffer
	for _, r := range t.Requests {
		at := r.At.UTC()
		fmt.Fprintf(&b, "%s - - [%s] \"%s %s HTTP/1.1\" %d 512 \"-\" \"%s\"\n", r.Address, at.Format("02/Jan/2006:15:04:05 -0700"), clean(r.Method), clean(r.Path), r.Status, clean(r.Agent))
		if r.isFailed() {
			fmt.Fprintf(&b, "%s [error] 7#7: *1 user \"x\": password mismatch, client: %s, server: site, request: \"%s %s HTTP/1.1\", host: \"site\"\n",
				at.Format("2006/01/02 15:04:05"), r.Address, clean(r.Method), clean(r.Path))
		}
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}

// banned applies the bans that follow from CrowdSec's alerts.
func banned(t *Traffic, alerts []byte) ([]bool, error) {
	var all []struct {
		Start  string `json:"start_at"`
		Stop   string `json:"stop_at"`
		Source struct {
			Value string `json:"value"`
		} `json:"source"`
		Decisions []struct{} `json:"decisions"`
	}
	if err := json.Unmarshal(alerts, &all); err != nil {
		return nil, fmt.Errorf("CrowdSec's alerts: %w", err)
	}
	type span struct{ start, stop time.Time }
	found := map[string][]span{}
	for _, a := range all {
		start, err := alertTime(a.Start)
		stop, stopErr := alertTime(a.Stop)
		if err := errors.Join(err, stopErr); err != nil {
			return nil, fmt.Errorf("CrowdSec's alerts: %w", err)
		}
		if len(a.Decisions) > 0 {
			found[a.Source.Value] = append(found[a.Source.Value], span{start, stop})
		}
	}
	refused := make([]bool, len(t.Requests))
	until := map[string]time.Time{}
	for i, r := range t.Requests {
		address := r.Address.String()
		for _, a := range found[address] {
			// A log has whole seconds: the requests of the second in which the alert ends are
			// served, and what comes later is not.
			begins, ends := a.stop.Truncate(time.Second).Add(time.Second), a.stop.Add(crowdSecBan)
			if a.start.Before(until[address]) || begins.After(r.At) || !ends.After(r.At) {
				continue
			}
			until[address] = ends
		}
		refused[i] = r.At.Before(until[address])
	}
	return refused, nil
}

// alertTime reads a time as CrowdSec's alerts have it: that of a log line as Go prints it,
// and others as in RFC 3339.
func alertTime(text string) (time.Time, error) {
	if at, err := time.Parse("2006-01-02 15:04:05 -0700 MST", text); err == nil {
		return at, nil
	}
	return time.Parse(time.RFC3339, text)
}
