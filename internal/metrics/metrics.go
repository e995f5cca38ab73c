// Package metrics holds what Prometheus reads. No key, reason or address is
// ever a label: they come from attackers and have no bound. Policies' names
// are the operators' own and few.
package metrics

import (
	"math"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stint-dev/stint/internal/blocks"
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
	holds        *prometheus.CounterVec
	overrun      *prometheus.CounterVec
	openHolds    holdCounts
	degraded     prometheus.Counter
	requests     durations
	checkTimes   durations
	calls        Calls
	jobs         *prometheus.GaugeVec
	jobRuns      *prometheus.CounterVec
	logins       *prometheus.CounterVec
	challenges   *prometheus.CounterVec
	lists        *prometheus.CounterVec

	// byPolicy keeps the counters of each policy by name, so that counting a
	// check builds no label.
	byPolicy known[counters]
	// additional keeps the counters of additional decisions, for the policies that made some.
	additional known[decisionCounters]
	// byListener and byDoor do so for the timings of answers and of checks.
	byListener known[timings]
	byDoor     known[outcomeTimings]
}

// counters are the counters of one policy.
type counters struct {
	decisionCounters
	name                                            string // of the label
	shadowAllowed, shadowLimited, shadowUnavailable prometheus.Counter
	reservations                                    prometheus.Counter
	charged, full                                   prometheus.Counter // reports
}

// decisionCounters count what one policy decides about checks.
type decisionCounters struct {
	allowed, limited, blocked, challenged, unavailable prometheus.Counter
}

func (c *decisionCounters) inc(o gate.Outcome) {
	switch o {
	case gate.Allowed:
		c.allowed.Inc()
	case gate.Limited:
		c.limited.Inc()
	case gate.Blocked:
		c.blocked.Inc()
	case gate.Challenged:
		c.challenged.Inc()
	case gate.Unavailable:
		c.unavailable.Inc()
	}
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
			Name: "stint_checks_total", Help: "Decisions of policies about checks, without peeks. Each check has one with additional=\"false\", that of the policy that answers it, and one with additional=\"true\" for each further policy and key that decided.",
		}, []string{"policy", "decision", "additional"}),
		shadow: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stint_shadow_checks_total", Help: "Checks that a shadow policy decided on.",
		}, []string{"policy", "decision"}),
		reservations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stint_reservations_total", Help: "Reservations that were made for checks that wait, including cancelled ones.",
		}, []string{"policy"}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stint_reports_total", Help: "Reports of outcomes that a policy of any mode counted, by result: charged, or full if its limit was reached.",
		}, []string{"policy", "result"}),
		holds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stint_holds_total", Help: "Holds of a policy of any mode on this node, by result: held, then settled, released, or expired if they were settled too late; extended; and over if more was used than a limit had left.",
		}, []string{"policy", "result"}),
		overrun: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stint_hold_overrun_total", Help: "How much was used beyond what a limit of a policy had left, in the policy's unit: settlements charge it nevertheless.",
		}, []string{"policy"}),
		degraded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stint_degraded_checks_total", Help: "Checks answered under an outage of the log.",
		}),
		requests: newDurations("stint_http_request_duration_seconds",
			"Time to answer a request that is not a check, by listener (checks, admin; bouncers for what they fetch on the listener of checks) and status class.", "listener", "code"),
		checkTimes: newDurations("stint_check_duration_seconds",
			"Time to answer what a door asks the gate, since the request was read, by door (check, batch, report, reservation, hold, forward, envoy) and outcome: that of the decision, "+
				"answered for what has none, invalid for an error of the caller, failed for an error of this node.", "door", "outcome"),
		calls: newCalls(),
		jobs: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "stint_job_last_success_timestamp_seconds", Help: "When a job last succeeded on this node; absent for jobs that never did.",
		}, []string{"task"}),
		jobRuns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stint_job_runs_total", Help: "Runs of a job on this node, by result: succeeded or failed.",
		}, []string{"task", "result"}),
		logins: newLogins(), challenges: newChallenges(),
		lists: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stint_list_checks_total", Help: "Checks that a row of a list decided, by list and use: block, challenge, exempt, or shadow for what it would have refused.",
		}, []string{"list", "use"}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "stint_build_info", Help: "1, with the build and the node as labels.",
		ConstLabels: prometheus.Labels{"version": build.Version, "revision": build.Commit, "goversion": build.Go, "node": node},
	})
	info.Set(1)
	m.registry.MustRegister(m.checks, m.shadow, m.reservations, m.reports, m.holds, m.overrun, &m.openHolds, m.degraded, m.requests, m.checkTimes, m.calls.redis, m.calls.database, m.jobs, m.jobRuns, m.logins, m.challenges, m.lists, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(panics{})
	m.gauge("stint_log_outage", "1 while the timestamp log is unreachable.", boolean(g.Outage))
	m.gauge("stint_database_outage", "1 while the database is unreachable or accepts no writes.", boolean(g.Failing))
	m.gauge("stint_catalog_revision", "The revision of the newest change that is in effect on this node.", func() float64 { return float64(g.Revision()) })
	m.gauge("stint_blocks", "Active blocks in the memory of this node.", func() float64 { return float64(g.Blocks()) })
	m.gauge("stint_exemptions", "Active exemptions in the memory of this node.", func() float64 { return float64(g.Exemptions()) })
	m.gauge("stint_local_logs", "Logs of keys in the memory of this node.", func() float64 { return float64(g.LocalKeys()) })
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
	if !d.IsAdditional {
		m.recordLists(d)
	}
	m.recordHeld(d)
	if d.Shadow == nil {
		return
	}
	switch c := m.of(d.Shadow.Policy.Name); d.Shadow.Outcome {
	case gate.Allowed:
		c.shadowAllowed.Inc()
	case gate.Unavailable:
		c.shadowUnavailable.Inc()
	default:
		c.shadowLimited.Inc()
	}
}

// recordLists counts a check for the lists that decided it, or would have in shadow mode.
func (m *Metrics) recordLists(d *gate.Decision) {
	use := blocks.AsBlock
	switch {
	case d.Outcome == gate.Challenged:
		use = blocks.AsChallenge
	case d.Block.IsForAttacks():
		use = blocks.AsAttack
	}
	m.countList(d.Block, use)
	m.countList(d.Exemption, blocks.AsExempt)
	m.countList(d.ListShadow, blocks.AsShadow)
}

func (m *Metrics) countList(e *blocks.Entry, use blocks.ListUse) {
	if e == nil {
		return
	}
	if list := e.ListOf(); list != "" {
		m.lists.WithLabelValues(list, string(use)).Inc()
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
	name := noPolicy
	if d.Policy != nil {
		name = d.Policy.Name
	}
	c := m.of(name)
	if d.IsAdditional {
		countersOf(&m.additional, name, m.makeAdditional).inc(d.Outcome)
	} else {
		c.inc(d.Outcome)
		if d.Degraded != "" {
			m.degraded.Inc()
		}
	}
	if !d.ReservedAt.IsZero() && !d.Replayed {
		c.reservations.Inc()
	}
}

// maxPolicies is how many policies have metrics of their own. Those beyond it share the
// name overflowPolicy, which no policy can have.
const (
	maxPolicies    = 1000
	overflowPolicy = "_other"
)

func (m *Metrics) of(policy string) *counters {
	return countersOf(&m.byPolicy, policy, m.makeCounters)
}

// countersOf returns the counters of a policy, or those of all policies beyond maxPolicies.
func countersOf[V any](all *known[V], policy string, make func(policy string) *V) *V {
	if c := all.find(policy); c != nil {
		return c
	}
	if all.len() >= maxPolicies {
		policy = overflowPolicy
	}
	return all.get(policy, make)
}

// KeepPolicies removes the metrics of policies that are not there any more.
func (m *Metrics) KeepPolicies(isKept func(name string) bool) {
	keepOrDelete := func(name string) bool {
		if name == noPolicy || name == overflowPolicy || isKept(name) {
			return true
		}
		of := prometheus.Labels{"policy": name}
		for _, v := range []*prometheus.CounterVec{m.checks, m.shadow, m.reservations, m.reports, m.holds, m.overrun} {
			v.DeletePartialMatch(of)
		}
		m.openHolds.drop(name)
		return false
	}
	m.byPolicy.keep(keepOrDelete)
	m.additional.keep(keepOrDelete)
}

// noPolicy is the name of checks that no policy decided. No policy can have it.
const noPolicy = "_none"

func (m *Metrics) makeDecisionCounters(policy, additional string) decisionCounters {
	count := func(o gate.Outcome) prometheus.Counter {
		return m.checks.WithLabelValues(policy, string(o), additional)
	}
	return decisionCounters{allowed: count(gate.Allowed), limited: count(gate.Limited), blocked: count(gate.Blocked), challenged: count(gate.Challenged), unavailable: count(gate.Unavailable)}
}

func (m *Metrics) makeAdditional(policy string) *decisionCounters {
	c := m.makeDecisionCounters(policy, "true")
	return &c
}

func (m *Metrics) makeCounters(policy string) *counters {
	return &counters{
		decisionCounters: m.makeDecisionCounters(policy, "false"), name: policy,
		shadowAllowed:     m.shadow.WithLabelValues(policy, string(gate.Allowed)),
		shadowLimited:     m.shadow.WithLabelValues(policy, string(gate.Limited)),
		shadowUnavailable: m.shadow.WithLabelValues(policy, string(gate.Unavailable)),
		reservations:      m.reservations.WithLabelValues(policy),
		charged:           m.reports.WithLabelValues(policy, string(gate.Charged)), full: m.reports.WithLabelValues(policy, string(gate.Full)),
	}
}
