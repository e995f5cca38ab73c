package metrics

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-dev/stint/internal/atomicfile"
	"github.com/stint-dev/stint/internal/gate"
)

// unsettledFor is for how long an expired hold that nobody settled is counted.
const unsettledFor = time.Hour

var (
	holdsOpenDesc = prometheus.NewDesc("stint_holds_open",
		"Open holds of a policy: those that this node took, less those that it ended. The sum over all nodes is what is open; one node alone may be below 0, and the sum is too low by what a killed node had open until that has expired.", []string{"policy"}, nil)
	holdsUnsettledDesc = prometheus.NewDesc("stint_holds_expired_unsettled",
		"Holds of a policy that expired within the last hour and that nobody has settled. As stint_holds_open, it is meant as the sum over all nodes.", []string{"policy"}, nil)
)

// holdCounts counts the holds of each policy by the second in which they expire: one more where
// this node took a hold, and one less where it ended one. A hold is often ended by another node than the one that took it, so
// only the sum over all nodes means something, and a node that starts again goes on with what it had
// counted: see Metrics.SaveHolds. What is counted is forgotten an hour after it expires.
type holdCounts struct {
	mu       sync.Mutex
	byPolicy map[string]*expiries
}

// expiries are the holds of one policy.
type expiries struct {
	byEnd  map[int64]int // by Unix seconds
	pruned int64         // up to when, in Unix seconds
}

// add counts holds that expire at a time.
func (c *holdCounts) add(policy string, expires time.Time, count int) {
	end, now := expires.Unix(), time.Now().Unix()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byPolicy == nil {
		c.byPolicy = map[string]*expiries{}
	}
	e := c.byPolicy[policy]
	if e == nil {
		e = &expiries{byEnd: map[int64]int{}, pruned: now}
		c.byPolicy[policy] = e
	}
	e.byEnd[end] += count
	if e.byEnd[end] == 0 {
		delete(e.byEnd, end)
	}
	if last := int64(unsettledFor / time.Second); e.pruned+last < now {
		maps.DeleteFunc(e.byEnd, func(end int64, _ int) bool { return end+last < now })
		e.pruned = now
	}
}

// SaveHolds writes what is counted of open holds into a file, from which the next run of the node goes on.
func (m *Metrics) SaveHolds(path string) error {
	c := &m.openHolds
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]map[int64]int, len(c.byPolicy))
	for policy, e := range c.byPolicy {
		all[policy] = e.byEnd
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(path, text, 0o600)
}

// LoadHolds reads the file of SaveHolds once, and removes it: it would be wrong after a run that did not end
// by saving. Without one it does nothing.
func (m *Metrics) LoadHolds(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.Remove(path)
	}
	var all map[string]map[int64]int
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	for policy, byEnd := range all {
		policy = m.of(policy).name
		for end, count := range byEnd {
			m.openHolds.add(policy, time.Unix(end, 0), count)
		}
	}
	return err
}

func (c *holdCounts) drop(policy string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byPolicy, policy)
}

// Describe implements prometheus.Collector.
func (*holdCounts) Describe(to chan<- *prometheus.Desc) {
	to <- holdsOpenDesc
	to <- holdsUnsettledDesc
}

// Collect implements prometheus.Collector.
func (c *holdCounts) Collect(to chan<- prometheus.Metric) {
	now, last := time.Now().Unix(), int64(unsettledFor/time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	for policy, e := range c.byPolicy {
		open, unsettled := 0, 0
		for end, count := range e.byEnd {
			switch {
			case end > now:
				open += count
			case end+last >= now:
				unsettled += count
			}
		}
		to <- prometheus.MustNewConstMetric(holdsOpenDesc, prometheus.GaugeValue, float64(open), policy)
		to <- prometheus.MustNewConstMetric(holdsUnsettledDesc, prometheus.GaugeValue, float64(unsettled), policy)
	}
}

// recordHeld counts what a check holds under its policy and its shadow policy.
func (m *Metrics) recordHeld(d *gate.Decision) {
	if d.Replayed {
		return
	}
	if !d.HeldUntil.IsZero() {
		m.countHeld(d.Policy.Name, d.HeldUntil)
	}
	if d.Shadow != nil && !d.Shadow.HeldUntil.IsZero() {
		m.countHeld(d.Shadow.Policy.Name, d.Shadow.HeldUntil)
	}
}

func (m *Metrics) countHeld(policy string, until time.Time) {
	name := m.of(policy).name
	m.holds.WithLabelValues(name, "held").Inc()
	m.openHolds.add(name, until, 1)
}

// RecordHold counts what became of a hold under a policy.
func (m *Metrics) RecordHold(e *gate.HoldEnd) {
	name := m.of(e.Policy.Name).name
	m.holds.WithLabelValues(name, e.Result).Inc()
	if e.Over > 0 {
		m.holds.WithLabelValues(name, "over").Inc()
		m.overrun.WithLabelValues(name).Add(float64(e.Over))
	}
	if e.Result == "extended" {
		m.openHolds.add(name, e.Was, -1)
		m.openHolds.add(name, e.Expires, 1)
		return
	}
	m.openHolds.add(name, e.Expires, -1)
}
