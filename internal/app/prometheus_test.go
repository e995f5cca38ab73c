package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/servers"
)

// prometheusProgram returns the path of one of Prometheus's programs: from PATH, or as
// scripts/setup-tests.sh unpacked it.
func prometheusProgram(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	folder := os.Getenv("STINT_PROMETHEUS")
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		folder = filepath.Join(cache, "stint-prometheus")
	}
	path := filepath.Join(folder, "usr", "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is missing: run scripts/setup-tests.sh, or install prometheus", name)
	}
	return path
}

const rulesFolder = "../../deploy/prometheus"

func TestPrometheusRulesPassTheirTests(t *testing.T) {
	promtool := prometheusProgram(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "stint.rules.yaml"}, {"test", "rules", "stint.rules.test.yaml"}} {
		check := exec.CommandContext(t.Context(), promtool, args...)
		check.Dir = rulesFolder
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// Somebody who is woken by an alert opens its page: each has a section that says what to do.
func TestEveryAlertHasItsSectionOfTheRunbook(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join(rulesFolder, "stint.rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	book, err := os.ReadFile("../../docs/RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	alerts := strings.Split(string(rules), "- alert: ")[1:]
	if sections := strings.Count(string(book), "\n## "); len(alerts) < 20 || sections != len(alerts) {
		t.Errorf("there are %d alerts and %d sections", len(alerts), sections)
	}
	for _, alert := range alerts {
		name, rest, _ := strings.Cut(alert, "\n")
		if !strings.Contains(rest, "/docs/RUNBOOK.md#"+strings.ToLower(name)+"\"\n") {
			t.Errorf("%s has no runbook_url with its name", name)
		}
		if !strings.Contains(string(book), "\n## "+name+"\n\n") {
			t.Errorf("the runbook has no section %s", name)
		}
	}
}

// dashboard is the part of the dashboard that the test reads.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Definition string }
	}
	Annotations struct {
		List []struct{ Expr string }
	}
}

// withoutData are panels that are empty for a healthy node.
var withoutData = map[string]bool{
	"Shadow policies": true, "Panics": true, "Errors": true, "Reservations and reports": true, "Answers without a decision": true,
	"Firewall and follow": true, // which other processes serve
}

func TestDashboardQueriesReturnData(t *testing.T) {
	n := startNode(t, servers.Redis(t), servers.Postgres(t).URL, filepath.Join(t.TempDir(), "data"))
	prometheus := startPrometheus(t, n.AdminAddr().String(), "exemplar-storage")
	native := startPrometheus(t, n.AdminAddr().String(), "native-histograms")
	for i := range 50 { // while it scrapes
		n.check(t, fmt.Sprint("user:", i%2))
	}
	servers.Await(t, "a change of the counters was scraped", func() bool {
		n.check(t, "user:0")
		return len(query(t, prometheus, `sum(rate(stint_checks_total[10s])) > 0 and on () rate(stint_http_request_duration_seconds_count[10s])`)) > 0 &&
			len(query(t, prometheus, `job_policy_decision:stint_checks:rate5m`)) > 0
	})
	servers.Await(t, "a native histogram was scraped", func() bool {
		return len(query(t, native, `histogram_count(stint_check_duration_seconds{door="check"}) > 0`)) > 0
	})
	text, err := os.ReadFile("../../deploy/grafana/stint.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries++
			if found := query(t, prometheus, filledIn(target.Expr)); len(found) == 0 && !withoutData[p.Title] {
				t.Errorf("%s: no data for %s", p.Title, target.Expr)
			}
		}
	}
	if queries < 30 {
		t.Errorf("the dashboard has %d queries, want at least 30", queries)
	}
	values := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range d.Templating.List {
		if v.Definition == "" {
			continue
		}
		parts := values.FindStringSubmatch(v.Definition)
		if parts == nil || len(query(t, prometheus, "count by ("+parts[2]+") ("+filledIn(parts[1])+")")) == 0 {
			t.Errorf("no values for the variable %s", v.Definition)
		}
	}
	for _, a := range d.Annotations.List {
		query(t, prometheus, a.Expr)
	}
	if firing := query(t, prometheus, `ALERTS{alertstate="firing", severity="critical"}`); len(firing) > 0 {
		t.Errorf("a healthy node has the alerts %s", firing)
	}
}

// filledIn returns an expression with Grafana's variables as the whole selection has them.
func filledIn(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*", "$policy", ".*").Replace(expr)
}

// startPrometheus returns the base URL of a Prometheus that scrapes an address, with our rules.
// With the feature native-histograms it stores no other histograms.
func startPrometheus(t *testing.T, address, feature string) string {
	t.Helper()
	folder := t.TempDir()
	rules, err := filepath.Abs(filepath.Join(rulesFolder, "stint.rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs:
  - job_name: stint
    authorization: {credentials: %s}
    static_configs: [{targets: [%q]}]
`, rules, testToken, address)
	file := filepath.Join(folder, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	listen := servers.FreeAddress(t)
	var log bytes.Buffer
	run := exec.Command(prometheusProgram(t, "prometheus"), "--config.file", file, "--storage.tsdb.path", filepath.Join(folder, "data"),
		"--web.listen-address", listen, "--enable-feature="+feature)
	run.Stdout, run.Stderr = &log, &log
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
		if t.Failed() {
			t.Logf("Prometheus: %s", log.String())
		}
	})
	base := "http://" + listen
	servers.Await(t, "Prometheus answers", func() bool {
		answer, err := http.Get(base + "/-/ready")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return base
}

// query returns Prometheus's present result of an expression.
func query(t *testing.T, base, expr string) []json.RawMessage {
	t.Helper()
	answer, err := http.Get(base + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Status string
		Data   struct{ Result []json.RawMessage }
	}
	if err := json.Unmarshal(text, &found); err != nil || found.Status != "success" {
		t.Fatalf("%s: %s %v", expr, text, err)
	}
	return found.Data.Result
}
