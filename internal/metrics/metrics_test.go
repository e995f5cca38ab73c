package metrics

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

func newMetrics() *Metrics {
	return New(buildinfo.Info{Version: "v1", Commit: "abc", Go: "go1.26"}, "a", Gauges{
		Outage: func() bool { return true }, Failing: func() bool { return false },
		Revision: func() int64 { return 42 }, Blocks: func() int { return 3 },
		Exemptions: func() int { return 2 }, LocalKeys: func() int { return 1 },
	})
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDecisionsAreCountedByPolicyAndNeverByKey(t *testing.T) {
	m := newMetrics()
	k, err := keys.Parser{}.Key("token:attacker")
	if err != nil {
		t.Fatal(err)
	}
	p, trial := &rules.Policy{Name: "default"}, &rules.Policy{Name: "trial"}
	for _, d := range []gate.Decision{
		{Outcome: gate.Allowed, Policy: p}, {Outcome: gate.Limited, Policy: p}, {Outcome: gate.Limited, Policy: p},
		{Outcome: gate.Blocked}, {Outcome: gate.Unavailable, Policy: p, Degraded: "why"},
		{Outcome: gate.Allowed, Policy: p, Answer: gate.Answer{ReservedAt: time.Now()}},
		{Outcome: gate.Allowed, Policy: p, Answer: gate.Answer{ReservedAt: time.Now(), Replayed: true}},
		{Outcome: gate.Allowed, Policy: p, Shadow: &gate.Shadow{Policy: trial, Outcome: gate.Limited}},
		{Outcome: gate.Allowed, Policy: p, IsAdditional: true, Reported: "login_failed"},
		{Outcome: gate.Limited, Policy: p, IsAdditional: true, Reported: "login_failed"},
		{Outcome: gate.Allowed, IsAdditional: true, Reported: "login_failed", Shadow: &gate.Shadow{Policy: trial, Outcome: gate.Limited}},
	} {
		d.Check.Key = k
		m.Record(&d)
	}
	m.Request("checks", 429, time.Millisecond)
	text := scrape(t, m)
	for _, want := range []string{
		`stint_checks_total{decision="allowed",policy="default"} 4`,
		`stint_checks_total{decision="limited",policy="default"} 2`,
		`stint_checks_total{decision="blocked",policy="none"} 1`,
		`stint_checks_total{decision="unavailable",policy="default"} 1`,
		`stint_shadow_checks_total{decision="limited",policy="trial"} 1`,
		`stint_reservations_total{policy="default"} 1`,
		`stint_degraded_checks_total 1`,
		`stint_reports_total{policy="default",result="charged"} 1`, `stint_reports_total{policy="default",result="full"} 1`,
		`stint_reports_total{policy="trial",result="full"} 1`,
		`stint_log_outage 1`, `stint_database_outage 0`, `stint_catalog_revision 42`,
		`stint_blocks 3`, `stint_exemptions 2`, `stint_local_logs 1`,
		`stint_build_info{goversion="go1.26",node="a",revision="abc",version="v1"} 1`,
		`stint_http_request_duration_seconds_count{code="4xx",listener="checks"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("missing: %s", want)
		}
	}
	if strings.Contains(text, "attacker") {
		t.Error("the metrics contain a key")
	}
}

func BenchmarkRecord(b *testing.B) {
	m, d := newMetrics(), gate.Decision{Outcome: gate.Limited, Policy: &rules.Policy{Name: "default"}}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Record(&d)
		}
	})
}

func TestAGaugeThatPanicsEndsNothingAndIsCounted(t *testing.T) {
	m := newMetrics()
	m.gauge("stint_broken", "Panics.", func() float64 { panic("a bug") })
	scrape(t, m)
	text := scrape(t, m)
	for _, line := range []string{"stint_broken NaN", `stint_goroutine_panics_total{goroutine="metrics"} `, "stint_blocks 3"} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
}
