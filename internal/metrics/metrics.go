// Package metrics holds what Prometheus reads. No key, reason or address is
// ever a label: they come from attackers and have no bound. Policies' names
// are the operators' own and few.
package metrics

import (
	"math"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/supervise"
)

// Metrics are one node's. They are a gate.Recorder.
type Metrics struct {
	registry     *prometheus.Registry
	checks       *prometheus.CounterVec
	shadow       *prometheus.CounterVec
	reservations *prometheus.CounterVec
	reports      *prometheus.CounterVec
	degraded     prometheus.Counter
	requests     *prometheus.HistogramVec

	// byPolicy keeps the counters of each policy by name, so that counting a
	// check builds no label.
	byPolicy known[counters]
	// byListener does so for the timings of answers.
	byListener known[timings]
}

// counters are those of one policy.
type counters struct {
	allowed, limited, blocked, unavailable prometheus.Counter
	shadowAllowed, shadowLimited           prometheus.Counter
	reservations                           prometheus.Counter
	charged, full                          prometheus.Counter // reports
}

// Gauges are read when Prometheus asks.
type Gauges struct {
	Outage     func() bool // the log is unreachable
	Failing    func() bool // the database is unreachable
	Revision   func() int64
	Blocks     func() int
	Exemptions func() int
	LocalKeys  func() int // logs held in this node's memory
}

// New returns metrics with the build's information and Go's own.
func New(build buildinfo.Info, node string, g Gauges) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stint_checks_total", Help: "Checks answered, peeks left out.",
		}, []string{"policy", "decision"}),
		shadow: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stint_shadow_checks_total", Help: "Checks that a shadow policy watched.",
		}, []string{"policy", "decision"}),
		reservations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stint_reservations_total", Help: "Reservations ahead that were reserved for checks that wait, those cancelled included.",
		}, []string{"policy"}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stint_reports_total", Help: "Reports of outcomes that a policy of any mode counted: charged, or full where it had no room.",
		}, []string{"policy", "result"}),
		degraded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stint_degraded_checks_total", Help: "Checks answered under an outage of the log.",
		}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stint_http_request_duration_seconds", Help: "Time to answer a request, by listener (checks, grpc, admin; bouncers for what they fetch on the listener of checks) and status class.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1},
		}, []string{"listener", "code"}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "stint_build_info", Help: "1, with the build and the node as labels.",
		ConstLabels: prometheus.Labels{"version": build.Version, "revision": build.Commit, "goversion": build.Go, "node": node},
	})
	info.Set(1)
	m.registry.MustRegister(m.checks, m.shadow, m.reservations, m.reports, m.degraded, m.requests, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(panics{})
	m.gauge("stint_log_outage", "1 while the timestamp log is unreachable.", boolean(g.Outage))
	m.gauge("stint_database_outage", "1 while the database is unreachable.", boolean(g.Failing))
	m.gauge("stint_catalog_revision", "The newest change that governs this node.", func() float64 { return float64(g.Revision()) })
	m.gauge("stint_blocks", "Blocks held by this node.", func() float64 { return float64(g.Blocks()) })
	m.gauge("stint_exemptions", "Exemptions held by this node.", func() float64 { return float64(g.Exemptions()) })
	m.gauge("stint_local_logs", "Logs held in this node's memory.", func() float64 { return float64(g.LocalKeys()) })
	return m
}

func (m *Metrics) gauge(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		value := math.NaN()
		supervise.Do("metrics", func() { value = read() })
		return value
	}))
}

func boolean(read func() bool) func() float64 {
	return func() float64 {
		if read() {
			return 1
		}
		return 0
	}
}

// panics collects how often goroutines of this process panicked.
type panics struct{}

var panicsDesc = prometheus.NewDesc("stint_goroutine_panics_total",
	"Panics outside a request, by goroutine. Each was logged, and the process went on.", []string{"goroutine"}, nil)

func (panics) Describe(to chan<- *prometheus.Desc) { to <- panicsDesc }

func (panics) Collect(to chan<- prometheus.Metric) {
	for name, count := range supervise.Panics() {
		to <- prometheus.MustNewConstMetric(panicsDesc, prometheus.CounterValue, float64(count), name)
	}
}

// Registry is where other parts register theirs.
func (m *Metrics) Registry() prometheus.Registerer { return m.registry }

// Handler answers Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Record counts a decision.
func (m *Metrics) Record(d *gate.Decision) {
	if d.Reported != "" {
		m.recordReport(d)
		return
	}
	if d.Policy != nil || !d.IsAdditional {
		m.recordOutcome(d)
	}
	if d.Shadow == nil {
		return
	}
	if c := m.of(d.Shadow.Policy.Name); d.Shadow.Outcome == gate.Allowed {
		c.shadowAllowed.Inc()
	} else {
		c.shadowLimited.Inc()
	}
}

func (m *Metrics) recordReport(d *gate.Decision) {
	p, outcome := d.Policy, d.Outcome
	if d.Shadow != nil {
		p, outcome = d.Shadow.Policy, d.Shadow.Outcome
	}
	if c := m.of(p.Name); outcome == gate.Allowed {
		c.charged.Inc()
	} else {
		c.full.Inc()
	}
}

func (m *Metrics) recordOutcome(d *gate.Decision) {
	name := "none"
	if d.Policy != nil {
		name = d.Policy.Name
	}
	c := m.of(name)
	switch d.Outcome {
	case gate.Allowed:
		c.allowed.Inc()
	case gate.Limited:
		c.limited.Inc()
	case gate.Blocked:
		c.blocked.Inc()
	case gate.Unavailable:
		c.unavailable.Inc()
	}
	if d.Degraded != "" {
		m.degraded.Inc()
	}
	if !d.ReservedAt.IsZero() && !d.Replayed {
		c.reservations.Inc()
	}
}

func (m *Metrics) of(policy string) *counters {
	return m.byPolicy.get(policy, m.makeCounters)
}

func (m *Metrics) makeCounters(policy string) *counters {
	count := func(o gate.Outcome) prometheus.Counter { return m.checks.WithLabelValues(policy, string(o)) }
	return &counters{
		allowed: count(gate.Allowed), limited: count(gate.Limited),
		blocked: count(gate.Blocked), unavailable: count(gate.Unavailable),
		shadowAllowed: m.shadow.WithLabelValues(policy, string(gate.Allowed)),
		shadowLimited: m.shadow.WithLabelValues(policy, string(gate.Limited)),
		reservations:  m.reservations.WithLabelValues(policy),
		charged:       m.reports.WithLabelValues(policy, string(gate.Charged)), full: m.reports.WithLabelValues(policy, string(gate.Full)),
	}
}

var classes = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}

// timings are the histograms of one listener by status class, kept so that
// noting an answer builds no label.
type timings [len(classes)]prometheus.Observer

// Request notes how long an answer took.
func (m *Metrics) Request(listener string, status int, took time.Duration) {
	class := status/100 - 1
	if class < 0 || class >= len(classes) {
		class = len(classes) - 1
	}
	m.byListener.get(listener, m.makeTimings)[class].Observe(took.Seconds())
}

func (m *Metrics) makeTimings(listener string) *timings {
	var t timings
	for i, class := range classes {
		t[i] = m.requests.WithLabelValues(listener, class)
	}
	return &t
}
