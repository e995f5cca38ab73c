package docs

import (
	"maps"
	"regexp"
	"strings"
	"testing"
)

var (
	// alertRule is an alert of the rules and its severity.
	alertRule = regexp.MustCompile(`(?s)- alert: (\w+)\n.*?severity: (\w+)\}`)
	// alertRow is a row of the table of alerts: the names and the severity.
	alertRow  = regexp.MustCompile("(?m)^\\| (`Stint[^|]*) \\| (\\w+) \\|")
	alertName = regexp.MustCompile("`(\\w+)`")
)

// TestEveryAlertIsDocumented compares the table of docs/OBSERVABILITY.md with the alerts of the
// rules and their severities.
func TestEveryAlertIsDocumented(t *testing.T) {
	rules := map[string]string{}
	for _, found := range alertRule.FindAllStringSubmatch(repositoryFile(t, "deploy/prometheus/stint.rules.yaml"), -1) {
		rules[found[1]] = found[2]
	}
	documented := map[string]string{}
	for _, row := range alertRow.FindAllStringSubmatch(repositoryFile(t, "docs/OBSERVABILITY.md"), -1) {
		for _, name := range alertName.FindAllStringSubmatch(row[1], -1) {
			documented[name[1]] = row[2]
		}
	}
	if len(rules) < 20 || !maps.Equal(rules, documented) {
		t.Errorf("the rules have the alerts\n%v\nand the table of docs/OBSERVABILITY.md\n%v", rules, documented)
	}
}

// TestDashboardAndRulesNameDocumentedMetrics looks up the metrics of the dashboard and of the
// rules in docs/OPERATORS.md, which has those that there are.
func TestDashboardAndRulesNameDocumentedMetrics(t *testing.T) {
	text := repositoryFile(t, "docs/OPERATORS.md")
	seen := map[string]bool{}
	for _, file := range []string{"deploy/grafana/stint.json", "deploy/prometheus/stint.rules.yaml"} {
		for _, found := range regexp.MustCompile(`(?:^|[^:\w])(stint_[a-z_]+[a-z])[^:\w]`).FindAllStringSubmatch(repositoryFile(t, file), -1) {
			name := found[1]
			for _, part := range []string{"_bucket", "_count", "_sum"} {
				name = strings.TrimSuffix(name, part)
			}
			seen[name] = true
			if !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, "`"+name+"{") {
				t.Errorf("%s names the metric %s, which docs/OPERATORS.md does not have", file, name)
			}
		}
	}
	if len(seen) < 25 {
		t.Errorf("found %d metrics, want at least 25: %v", len(seen), seen)
	}
}
