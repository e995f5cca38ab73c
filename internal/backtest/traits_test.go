package backtest_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/keys"
)

// Each form of the report says what a refused key asked for, bounded, and safe to show.
func TestReportSaysWhatRefusedKeysAskedFor(t *testing.T) {
	var records []accesslog.Record
	for i := range 100 {
		for _, ip := range []string{"ip:192.0.2.1", "ip:192.0.2.2"} {
			r := at(t, float64(i/10), ip)
			r.Method, r.Path, r.Agent, r.Status = "POST", "/wp-login.php?secret", "evil\xff\x1b[2J<script>", 200
			if ip == "ip:192.0.2.2" || i%3 == 0 {
				r.Path, r.Agent, r.Status = fmt.Sprintf("/%d", i), strings.Repeat("long", 100), 404
			}
			records = append(records, r)
		}
	}
	report := run(t, backtest.Options{Plan: backtest.StackPlan(stack(t, "3/h"))}, records...)
	o := report.Offenders[0]
	if o.Key != "ip:192.0.2.1" || len(o.Paths) != 3 || o.Paths[0] != (backtest.Trait{"POST /wp-login.php", 64}) || o.Statuses[0].Value != "200" || len(o.Agents) != 2 || len(report.Offenders[1].Paths) != 3 {
		t.Errorf("got %+v", report.Offenders)
	}
	var text, html, csv, json bytes.Buffer
	for _, err := range []error{report.WriteText(&text, backtest.TextOptions{Width: 80}), report.WriteHTML(&html, 0), report.WriteCSV(&csv), report.WriteJSON(&json)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, out := range map[string]string{"text": text.String(), "HTML": html.String(), "CSV": csv.String(), "JSON": json.String()} {
		if !strings.Contains(out, "POST /wp-login.php") || strings.Contains(out, "secret") || strings.Contains(out, "\x1b") || name == "HTML" && strings.Contains(out, "<script>") {
			t.Errorf("%s is\n%s", name, out)
		}
	}
	for line := range strings.Lines(text.String()) {
		if line = strings.TrimSuffix(line, "\n"); len([]rune(line)) > 80 || strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Errorf("the line is %q", line)
		}
	}
}

// No row about benign clients has a label of attackers.
func TestBenignRowsHaveNoLabelOfAttackers(t *testing.T) {
	truth, err := backtest.ReadTruth(strings.NewReader("key,label,first_attack\n192.0.2.1,scanner,10\n192.0.2.2,scanner,\n192.0.2.3,visitor,\n"), "truth.csv", keys.Parser{})
	if err != nil {
		t.Fatal(err)
	}
	report := run(t, backtest.Options{Plan: backtest.StackPlan(stack(t, "3/h")), Truth: truth}, at(t, 1, "ip:192.0.2.1"), at(t, 2, "ip:192.0.2.2"), at(t, 3, "ip:192.0.2.3"), at(t, 20, "ip:192.0.2.1"))
	var labels []string
	for _, b := range report.Score.Benign {
		labels = append(labels, b.Label)
	}
	if got := strings.Join(labels, ", "); got != "before an attack, never attacking, visitor" {
		t.Errorf("the labels are %s", got)
	}
}
