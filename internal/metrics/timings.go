package metrics

import (
	"maps"
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/gate"
)

var classes = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}

// timings are the histograms of one listener by status class, kept so that
// noting an answer builds no label.
type timings [len(classes)]*duration

// Request notes how long an answer took that is no check.
func (m *Metrics) Request(listener string, status int, took time.Duration) {
	class := status/100 - 1
	if class < 0 || class >= len(classes) {
		class = len(classes) - 1
	}
	m.byListener.get(listener, m.makeTimings)[class].observe(took)
}

func (m *Metrics) makeTimings(listener string) *timings {
	var t timings
	for i, class := range classes {
		t[i] = m.requests.with(listener, class)
	}
	return &t
}

// Outcomes of requests to a door that hold no decision.
const (
	Answered gate.Outcome = "answered" // several decisions, or none was asked for
	invalid  gate.Outcome = "invalid"  // what the caller must correct
	failed   gate.Outcome = "failed"   // what broke here
)

var outcomes = [...]gate.Outcome{gate.Allowed, gate.Limited, gate.Blocked, gate.Challenged, gate.Unavailable, Answered, invalid, failed}

// outcomeTimings are the histograms of one door by outcome.
type outcomeTimings [len(outcomes)]*duration

// CheckAnswer is what a door answered.
type CheckAnswer struct {
	Door    string       // as Route.Door of httpserver
	Outcome gate.Outcome // "" for a request that was refused without a decision, by its Status
	Status  int          // of HTTP
	Took    time.Duration
	At      time.Time // when it was answered
	IDs     IDs
}

// Check notes how long a door took to answer.
func (m *Metrics) Check(a *CheckAnswer) {
	outcome := a.Outcome
	if outcome == "" {
		switch {
		case a.Status >= http.StatusInternalServerError:
			outcome = failed
		case a.Status >= http.StatusBadRequest:
			outcome = invalid
		default:
			outcome = Answered
		}
	}
	for i := range outcomes {
		if outcomes[i] == outcome {
			m.byDoor.get(a.Door, m.makeOutcomeTimings)[i].observeRequest(a.Took, a.At, a.IDs)
			return
		}
	}
}

// ChecksAnswered returns how many requests the doors have answered so far.
func (m *Metrics) ChecksAnswered() int64 {
	_, total := m.checkTimes.counted()
	return total
}

// CheckReader reads the histograms of checks from time to time. It is for one goroutine.
type CheckReader struct {
	metrics *Metrics
	before  counts
	answers int64 // counted before
}

// CheckReader returns a reader of what the doors answer from now on.
func (m *Metrics) CheckReader() *CheckReader {
	r := &CheckReader{metrics: m}
	r.before, r.answers = m.checkTimes.counted()
	return r
}

// Next returns how many requests the doors have answered since the last Next, and the
// 99th percentile of their durations within 9 %, 0 without any.
func (r *CheckReader) Next() (answers int64, p99 time.Duration) {
	now, total := r.metrics.checkTimes.counted()
	since := maps.Clone(now)
	for bucket, count := range r.before {
		since[bucket] -= count
	}
	answers = total - r.answers
	r.before, r.answers = now, total
	return answers, since.quantile(answers, 0.99)
}

func (m *Metrics) makeOutcomeTimings(door string) *outcomeTimings {
	var t outcomeTimings
	for i, outcome := range outcomes {
		t[i] = m.checkTimes.with(door, string(outcome))
	}
	return &t
}

// Calls are the histograms of calls to Redis and the database.
type Calls struct {
	redis, database durations
	redisBy         [len(redisCommands)][2]*duration
	databaseBy      [len(databaseKinds)][2]*duration
}

// What is distinguished of calls: decisions are calls of Stint's function library.
var (
	redisCommands = [...]string{"decide", "other"}
	databaseKinds = [...]string{"read", "write", "change"}
	results       = [...]string{"ok", "error"}
)

func newCalls() Calls {
	c := Calls{
		redis: newDurations("stint_redis_call_duration_seconds",
			"Time of a call to Redis by command (decide, which may carry many checks, or other) and result.", "command", "result"),
		database: newDurations("stint_database_transaction_duration_seconds",
			"Time of a transaction in the database, waits for others included, by kind (read, write, change) and result.", "kind", "result"),
	}
	for r, result := range results {
		for i, command := range redisCommands {
			c.redisBy[i][r] = c.redis.with(command, result)
		}
		for i, kind := range databaseKinds {
			c.databaseBy[i][r] = c.database.with(kind, result)
		}
	}
	return c
}

// RedisCall notes a call to Redis.
func (m *Metrics) RedisCall(isDecision bool, took time.Duration, err error) {
	command := 1
	if isDecision {
		command = 0
	}
	m.calls.redisBy[command][resultOf(err)].observe(took)
}

// DatabaseCall notes a transaction of one of databaseKinds.
func (m *Metrics) DatabaseCall(kind string, took time.Duration, err error) {
	for i, known := range databaseKinds {
		if known == kind {
			m.calls.databaseBy[i][resultOf(err)].observe(took)
		}
	}
}

func resultOf(err error) int {
	if err != nil {
		return 1
	}
	return 0
}

// KnowJob has a job counted from zero, so that its first failure is an increase.
func (m *Metrics) KnowJob(job string) {
	m.jobRuns.WithLabelValues(job, "succeeded")
	m.jobRuns.WithLabelValues(job, "failed")
}

// JobRun notes the end of a run of a job.
func (m *Metrics) JobRun(job string, finished time.Time, succeeded bool) {
	if succeeded {
		m.jobs.WithLabelValues(job).Set(float64(finished.UnixMilli()) / 1000)
		m.jobRuns.WithLabelValues(job, "succeeded").Inc()
		return
	}
	m.jobRuns.WithLabelValues(job, "failed").Inc()
}
