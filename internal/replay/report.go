package replay

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Report counts the answers to a replay.
type Report struct {
	Requests    int64 `json:"requests"` // sent: the sum of the four decisions and Failed
	Allowed     int64 `json:"allowed"`
	Limited     int64 `json:"limited"`
	Blocked     int64 `json:"blocked"`
	Unavailable int64 `json:"unavailable"`
	// Degraded counts the decisions that were made without the log.
	Degraded int64     `json:"degraded"`
	Failed   int64     `json:"failed"` // without a decision
	Failures []Failure `json:"failures"`
	// Reported counts the outcomes that the server accepted, and Unreported those that it
	// did not answer so.
	Reported   int64 `json:"reported"`
	Unreported int64 `json:"unreported"`
	// ElapsedMS is the duration of the replay, and MaxLagMS its maximum delay behind the
	// requested pace.
	ElapsedMS int64   `json:"elapsed_ms"`
	MaxLagMS  int64   `json:"max_lag_ms"`
	Latency   Latency `json:"latency"`
}

// Failure is one reason why requests got no decision.
type Failure struct {
	What    string `json:"what"` // "no answer" or the status, "HTTP 422"
	Count   int64  `json:"count"`
	Example string `json:"example"` // the text of the first one, quoted and escaped
}

// Latency holds quantiles of the durations of the answers, in milliseconds and within
// 1 %. Requests without an answer do not count.
type Latency struct {
	P50MS  float64 `json:"p50_ms"`
	P90MS  float64 `json:"p90_ms"`
	P99MS  float64 `json:"p99_ms"`
	P999MS float64 `json:"p999_ms"`
	MaxMS  float64 `json:"max_ms"`
}

// counts is what one caller counted.
type counts struct {
	decisions map[string]int64
	degraded  int64
	failures  map[string]*Failure
	latencies histogram
	// reported and unreported count outcomes.
	reported, unreported int64
}

func newCounts() counts {
	return counts{decisions: map[string]int64{}, failures: map[string]*Failure{}, latencies: newHistogram()}
}

func (t *counts) add(a answer, err error, took time.Duration) {
	if err == nil {
		t.latencies.add(took)
	}
	switch a.Decision {
	case "allowed", "limited", "blocked", "unavailable":
		t.decisions[a.Decision]++
		if a.Degraded {
			t.degraded++
		}
		return
	}
	what, example := a.failure(err)
	failure, known := t.failures[what]
	if !known {
		failure = &Failure{What: what, Example: example}
		t.failures[what] = failure
	}
	failure.Count++
}

// report adds up what the callers counted. They must have ended.
func (s *sender) report(elapsed time.Duration) *Report {
	r := &Report{ElapsedMS: elapsed.Milliseconds(), MaxLagMS: s.maxLag.Milliseconds()}
	sum := newCounts()
	for _, c := range s.callers {
		sum.merge(&c.counts)
	}
	r.Allowed, r.Limited = sum.decisions["allowed"], sum.decisions["limited"]
	r.Blocked, r.Unavailable = sum.decisions["blocked"], sum.decisions["unavailable"]
	r.Degraded, r.Latency = sum.degraded, sum.latencies.summary()
	r.Reported, r.Unreported = sum.reported, sum.unreported
	for _, failure := range sum.failures {
		r.Failed += failure.Count
		r.Failures = append(r.Failures, *failure)
	}
	slices.SortFunc(r.Failures, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.What, b.What))
	})
	r.Requests = r.Allowed + r.Limited + r.Blocked + r.Unavailable + r.Failed
	return r
}

func (t *counts) merge(other *counts) {
	for decision, n := range other.decisions {
		t.decisions[decision] += n
	}
	t.degraded += other.degraded
	t.reported += other.reported
	t.unreported += other.unreported
	for what, failure := range other.failures {
		if known, found := t.failures[what]; found {
			known.Count += failure.Count
		} else {
			copied := *failure
			t.failures[what] = &copied
		}
	}
	t.latencies.merge(&other.latencies)
}

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w) // it keeps the first error for Flush
	row := func(name string, n int64) {
		ratio := ""
		if r.Requests > 0 {
			ratio = fmt.Sprintf("%6.2f %%", 100*float64(n)/float64(r.Requests))
		}
		line := fmt.Sprintf("%-12s %12s  %s", name, humanize.Comma(n), ratio)
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	row("Sent", r.Requests)
	row("Allowed", r.Allowed)
	row("Limited", r.Limited)
	row("Blocked", r.Blocked)
	row("Unavailable", r.Unavailable)
	row("Failed", r.Failed)
	row("Degraded", r.Degraded)
	for _, f := range r.Failures {
		fmt.Fprintf(out, "  %s, %s times, the first: %s\n", f.What, humanize.Comma(f.Count), f.Example)
	}
	if r.Reported+r.Unreported > 0 {
		fmt.Fprintf(out, "Outcomes     %12s reported, %s not accepted\n", humanize.Comma(r.Reported), humanize.Comma(r.Unreported))
	}
	l := r.Latency
	fmt.Fprintf(out, "\nLatency      p50 %.3g ms, p90 %.3g ms, p99 %.3g ms, p99.9 %.3g ms, max %.3g ms\n", l.P50MS, l.P90MS, l.P99MS, l.P999MS, l.MaxMS)
	elapsed := time.Duration(r.ElapsedMS) * time.Millisecond
	fmt.Fprintf(out, "Took         %s", elapsed)
	if seconds := elapsed.Seconds(); seconds > 0 {
		fmt.Fprintf(out, ", %s requests/s", humanize.Comma(int64(float64(r.Requests)/seconds)))
	}
	if r.MaxLagMS > 0 {
		fmt.Fprintf(out, ", at most %s behind the pace", time.Duration(r.MaxLagMS)*time.Millisecond)
	}
	fmt.Fprintln(out)
	return out.Flush()
}

// WriteJSON writes the report as one indented JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	if err := json.MarshalWrite(w, r, jsontext.WithIndent("  "), json.FormatNilSliceAsNull(false)); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
