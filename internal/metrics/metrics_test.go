package metrics

import (
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/identity"
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

func TestMetricsCountByPolicyAndNeverByKey(t *testing.T) {
	m := newMetrics()
	k, err := keys.Parser{}.Key("token:attacker")
	if err != nil {
		t.Fatal(err)
	}
	p, trial := &rules.Policy{Name: "default"}, &rules.Policy{Name: "trial"}
	for _, d := range []gate.Decision{
		{Outcome: gate.Allowed, Policy: p}, {Outcome: gate.Limited, Policy: p}, {Outcome: gate.Limited, Policy: p},
		{Outcome: gate.Blocked}, {Outcome: gate.Unavailable, Policy: p, Degraded: "why"},
		{Outcome: gate.Challenged, Policy: p},
		{Outcome: gate.Allowed, Policy: p, Answer: gate.Answer{ReservedAt: time.Now()}},
		{Outcome: gate.Allowed, Policy: p, Answer: gate.Answer{ReservedAt: time.Now(), Replayed: true}},
		{Outcome: gate.Allowed, Policy: p, Shadow: &gate.Shadow{Policy: trial, Outcome: gate.Limited}},
		{Outcome: gate.Allowed, IsAdditional: true, Shadow: &gate.Shadow{Policy: trial, Outcome: gate.Unavailable}},
		{Outcome: gate.Allowed, Policy: p, IsAdditional: true}, {Outcome: gate.Limited, Policy: p, IsAdditional: true, Degraded: "why"},
		{Outcome: gate.Allowed, Policy: p, IsAdditional: true, Reported: "login_failed"},
		{Outcome: gate.Limited, Policy: p, IsAdditional: true, Reported: "login_failed"},
		{Outcome: gate.Allowed, IsAdditional: true, Reported: "login_failed", Shadow: &gate.Shadow{Policy: trial, Outcome: gate.Limited}},
	} {
		d.Check.Key = k
		m.Record(&d)
	}
	m.Request("admin", 429, time.Millisecond)
	m.Check(&CheckAnswer{Door: "check", Outcome: gate.Limited, Took: 30 * time.Microsecond, At: time.Now(), IDs: IDs{Request: []byte("request-1")}})
	m.Check(&CheckAnswer{Door: "check", Status: 401, Took: time.Millisecond})
	m.Check(&CheckAnswer{Door: "batch", Status: 200, Took: time.Millisecond})
	m.Check(&CheckAnswer{Door: "batch", Status: 500, Took: time.Millisecond})
	m.RedisCall(true, time.Millisecond, nil)
	m.DatabaseCall("read", time.Millisecond, errors.New("away"))
	m.JobRun("daily-report", time.Unix(1_700_000_000, 0), true)
	m.JobRun("daily-report", time.Now(), false)
	m.CountLogin(identity.ByPassword, identity.LoginRefused)
	m.CountLogin(identity.ByToken, identity.LoginThrottled)
	m.CountChallenge(challenge.Solved)
	text := scrape(t, m)
	for _, want := range []string{
		`stint_checks_total{additional="false",decision="allowed",policy="default"} 4`,
		`stint_checks_total{additional="false",decision="limited",policy="default"} 2`,
		`stint_checks_total{additional="true",decision="allowed",policy="default"} 1`,
		`stint_checks_total{additional="true",decision="limited",policy="default"} 1`,
		`stint_checks_total{additional="false",decision="blocked",policy="_none"} 1`, `stint_checks_total{additional="false",decision="challenged",policy="default"} 1`,
		`stint_checks_total{additional="false",decision="unavailable",policy="default"} 1`,
		`stint_shadow_checks_total{decision="limited",policy="trial"} 1`, `stint_shadow_checks_total{decision="unavailable",policy="trial"} 1`,
		`stint_reservations_total{policy="default"} 1`,
		`stint_degraded_checks_total 1`,
		`stint_reports_total{policy="default",result="charged"} 1`, `stint_reports_total{policy="default",result="full"} 1`,
		`stint_reports_total{policy="trial",result="full"} 1`,
		`stint_log_outage 1`, `stint_database_outage 0`, `stint_catalog_revision 42`,
		`stint_blocks 3`, `stint_exemptions 2`, `stint_local_logs 1`,
		`stint_build_info{goversion="go1.26",node="a",revision="abc",version="v1"} 1`,
		`stint_http_request_duration_seconds_count{code="4xx",listener="admin"} 1`,
		`stint_check_duration_seconds_bucket{door="check",outcome="limited",le="2.5e-05"} 0`,
		`stint_check_duration_seconds_bucket{door="check",outcome="limited",le="5e-05"} 1`,
		`stint_check_duration_seconds_count{door="check",outcome="limited"} 1`,
		`stint_check_duration_seconds_count{door="check",outcome="invalid"} 1`,
		`stint_check_duration_seconds_count{door="batch",outcome="answered"} 1`,
		`stint_check_duration_seconds_count{door="batch",outcome="failed"} 1`,
		`stint_redis_call_duration_seconds_count{command="decide",result="ok"} 1`,
		`stint_database_transaction_duration_seconds_count{kind="read",result="error"} 1`,
		`stint_job_last_success_timestamp_seconds{task="daily-report"} 1.7e+09`,
		`stint_job_runs_total{result="failed",task="daily-report"} 1`,
		`stint_logins_total{method="password",outcome="refused"} 1`, `stint_logins_total{method="token",outcome="throttled"} 1`,
		`stint_challenges_total{outcome="solved"} 1`, `stint_challenges_total{outcome="failed"} 0`,
		`stint_logins_total{method="openid",outcome="failed"} 0`, `stint_logins_total{method="password",outcome="pending"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics have no line %s", want)
		}
	}
	if strings.Contains(text, "attacker") {
		t.Error("the metrics contain a key")
	}
}

func TestPolicyMetricsAreBoundedAndRemoved(t *testing.T) {
	m := newMetrics()
	for i := range maxPolicies + 10 {
		m.Record(&gate.Decision{Outcome: gate.Allowed, Policy: &rules.Policy{Name: fmt.Sprint("p", i)}})
	}
	if text := scrape(t, m); !strings.Contains(text, `stint_checks_total{additional="false",decision="allowed",policy="_other"} 10`) || strings.Contains(text, `policy="p1005"`) {
		t.Error("the number of policies is not bounded")
	}
	m.Record(&gate.Decision{Outcome: gate.Allowed, Policy: &rules.Policy{Name: "p8"}, IsAdditional: true})
	m.KeepPolicies(func(name string) bool { return name == "p7" })
	text := scrape(t, m)
	if !strings.Contains(text, `stint_checks_total{additional="false",decision="allowed",policy="p7"} 1`) || strings.Contains(text, `policy="p8"`) {
		t.Error("a removed policy still has metrics")
	}
	m.Record(&gate.Decision{Outcome: gate.Allowed, Policy: &rules.Policy{Name: "p8"}})
	m.Record(&gate.Decision{Outcome: gate.Allowed, Policy: &rules.Policy{Name: "p8"}, IsAdditional: true})
	if text := scrape(t, m); !strings.Contains(text, `stint_checks_total{additional="false",decision="allowed",policy="p8"} 1`) ||
		!strings.Contains(text, `stint_checks_total{additional="true",decision="allowed",policy="p8"} 1`) {
		t.Error("a policy that exists again is not counted")
	}
}

func TestHandlerSendsExemplarsAndNativeHistograms(t *testing.T) {
	m := newMetrics()
	m.Check(&CheckAnswer{Door: "check", Outcome: gate.Limited, Took: 30 * time.Microsecond, At: time.Unix(1_700_000_000, 0), IDs: IDs{Request: []byte("request-1")}})
	ask := func(accept string) string {
		answer, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Accept", accept)
		m.Handler().ServeHTTP(answer, r)
		return answer.Body.String()
	}
	if text := ask("application/openmetrics-text; version=1.0.0"); !strings.Contains(text, `le="5e-05"} 1 # {request_id="request-1"} 3e-05 `) {
		t.Errorf("no exemplar in\n%s", text)
	}
	decoder := expfmt.NewDecoder(strings.NewReader(ask("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited")), expfmt.NewFormat(expfmt.TypeProtoDelim))
	for {
		var family dto.MetricFamily
		if err := decoder.Decode(&family); err != nil {
			t.Fatalf("no histogram: %v", err)
		}
		if family.GetName() != "stint_check_duration_seconds" {
			continue
		}
		h := family.Metric[0].Histogram
		if h.GetSchema() != 3 || len(h.PositiveSpan) != 1 || len(h.Exemplars) != 1 || len(h.Bucket) != len(classic) {
			t.Errorf("got %v", h)
		}
		return
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

func TestPanickingGaugeIsCountedAndHidesNoOthers(t *testing.T) {
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
