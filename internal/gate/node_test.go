package gate

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/test/keytest"
)

// node is a gate with policies and blocks of the test.
type node struct {
	*Gate
	selector *rules.Selector
	set      *blocks.Set
	profiles *profiles.Set
	loaded   bool
	now      atomic.Int64
	recorded recorded
}

func (n *node) Loaded() bool               { return n.loaded }
func (n *node) Selector() *rules.Selector  { return n.selector }
func (n *node) Blocks() *blocks.Set        { return n.set }
func (n *node) Profiles() *profiles.Set    { return n.profiles }
func (n *node) Settings() catalog.Settings { return catalog.Settings{Secret: []byte("secret")} }
func (n *node) clock() time.Time           { return time.UnixMilli(n.now.Load()) }
func (n *node) advance(d time.Duration)    { n.now.Add(d.Milliseconds()) }

// recorded is a Recorder that stores the outcomes, and those of the requests of bots.
type recorded struct {
	sync.Mutex
	outcomes, bots []Outcome
}

func (h *recorded) Record(d *Decision) {
	h.Lock()
	defer h.Unlock()
	h.outcomes = append(h.outcomes, d.Outcome)
	if d.Check.Bot().Agent != nil && !d.IsAdditional {
		h.bots = append(h.bots, d.Outcome)
	}
}

func newNode(t testing.TB, policies ...*rules.Policy) *node {
	t.Helper()
	n := &node{selector: rules.NewSelector(policies), set: blocks.NewSet(), profiles: profiles.NewSet(), loaded: true}
	n.now.Store(1_790_000_000_000)
	log := memlog.New(memlog.Options{Now: n.clock})
	t.Cleanup(func() { log.Close() })
	n.Gate = New(Options{View: n, Log: log, Recorder: &n.recorded, Now: n.clock})
	return n
}

func policy(t testing.TB, id int64, name, match, stack string, change ...func(*rules.Policy)) *rules.Policy {
	t.Helper()
	rs, err := rules.ParseStack(strings.Fields(stack))
	if err != nil {
		t.Fatal(err)
	}
	p := &rules.Policy{ID: id, Name: name, Version: 1, Match: []keys.Pattern{pattern(t, match)}, Rules: rs,
		Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog}
	for _, c := range change {
		c(p)
	}
	return p
}

func mode(m rules.Mode) func(*rules.Policy) { return func(p *rules.Policy) { p.Mode = m } }
func onFailure(f rules.OnFailure) func(*rules.Policy) {
	return func(p *rules.Policy) { p.OnFailure = f }
}

var key, pattern = keytest.Key, keytest.Pattern

func (n *node) check(t *testing.T, text string, change ...func(*Check)) Decision {
	t.Helper()
	c := Check{Key: key(t, text), Cost: 1}
	for _, f := range change {
		f(&c)
	}
	d, err := n.Check(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (n *node) block(t *testing.T, id, text string, expires time.Time) {
	t.Helper()
	n.set.Apply(&blocks.Entry{Kind: blocks.Block, ID: id, Pattern: pattern(t, text), Expires: expires}, n.clock())
}
