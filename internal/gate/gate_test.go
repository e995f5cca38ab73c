package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

// node is a gate over policies and blocks that the test sets.
type node struct {
	*Gate
	selector *rules.Selector
	set      *blocks.Set
	loaded   bool
	now      atomic.Int64
	heard    heard
}

func (n *node) Loaded() bool               { return n.loaded }
func (n *node) Selector() *rules.Selector  { return n.selector }
func (n *node) Blocks() *blocks.Set        { return n.set }
func (n *node) Settings() catalog.Settings { return catalog.Settings{Secret: []byte("secret")} }
func (n *node) clock() time.Time           { return time.UnixMilli(n.now.Load()) }
func (n *node) advance(d time.Duration)    { n.now.Add(d.Milliseconds()) }

type heard struct {
	sync.Mutex
	outcomes []Outcome
}

func (h *heard) Record(d *Decision) {
	h.Lock()
	defer h.Unlock()
	h.outcomes = append(h.outcomes, d.Outcome)
}

func newNode(t *testing.T, policies ...*rules.Policy) *node {
	t.Helper()
	n := &node{selector: rules.NewSelector(policies), set: blocks.NewSet(), loaded: true}
	n.now.Store(1_790_000_000_000)
	log := memlog.New(memlog.Options{Now: n.clock})
	t.Cleanup(func() { log.Close() })
	n.Gate = New(Options{View: n, Log: log, Recorder: &n.heard, Now: n.clock})
	return n
}

func policy(t *testing.T, id int64, name, match, stack string, change ...func(*rules.Policy)) *rules.Policy {
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

func pattern(t *testing.T, text string) keys.Pattern {
	t.Helper()
	p, err := keys.Parser{}.Pattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func key(t *testing.T, text string) keys.Key {
	t.Helper()
	k, err := keys.Parser{}.Key(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

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

func TestARuleLimitsAndTheWaitItTellsIsExact(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "2/10s"))
	n.check(t, "ip:203.0.113.7")
	n.advance(time.Second)
	n.check(t, "ip:203.0.113.7")
	d := n.check(t, "ip:203.0.113.7")
	if d.Outcome != Limited || d.RetryAfter() != 9*time.Second || d.ID == "" {
		t.Fatalf("got %s, wait %s, id %q", d.Outcome, d.RetryAfter(), d.ID)
	}
	if rule, found := d.DecidingRule(); !found || rule.String() != "2/10s" {
		t.Errorf("deciding rule %v, %v", rule, found)
	}
	n.advance(9*time.Second - time.Millisecond)
	if d := n.check(t, "ip:203.0.113.7"); d.Outcome != Limited {
		t.Errorf("a millisecond early: %s", d.Outcome)
	}
	n.advance(time.Millisecond)
	if d := n.check(t, "ip:203.0.113.7"); d.Outcome != Allowed || d.ID != "" {
		t.Errorf("at the told instant: %s, id %q", d.Outcome, d.ID)
	}
}

func TestTheOrderIsExemptionThenBlockThenPolicy(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "0/s"))
	if d := n.check(t, "ip:203.0.113.7"); d.Outcome != Limited || !d.Never || !d.RetryAt.IsZero() {
		t.Fatalf("0/s: %s, never %v, retry at %s", d.Outcome, d.Never, d.RetryAt)
	}
	n.block(t, "b1", "ip:203.0.113.0/24", n.clock().Add(time.Minute))
	d := n.check(t, "ip:203.0.113.7")
	if d.Outcome != Blocked || d.Block.ID != "b1" || d.RetryAfter() != time.Minute || d.Policy.Name != "default" {
		t.Fatalf("blocked: %+v", d)
	}
	n.set.Apply(&blocks.Entry{Kind: blocks.Exemption, ID: "e1", Pattern: pattern(t, "ip:203.0.113.7")}, n.clock())
	d = n.check(t, "ip:203.0.113.7")
	if d.Outcome != Allowed || d.Exemption.ID != "e1" || d.Block == nil {
		t.Errorf("exempt: %+v", d)
	}
}

func TestTheLatestExpiryOfAllMatchingBlocksIsTold(t *testing.T) {
	n := newNode(t)
	n.block(t, "short", "ip:203.0.113.7", n.clock().Add(time.Minute))
	n.block(t, "long", "ip:203.0.113.0/24", n.clock().Add(time.Hour))
	if d := n.check(t, "ip:203.0.113.7"); d.Block.ID != "long" || d.RetryAfter() != time.Hour {
		t.Errorf("got %s, %s", d.Block.ID, d.RetryAfter())
	}
	n.block(t, "good", "*", time.Time{})
	if d := n.check(t, "ip:203.0.113.7"); d.Block.ID != "good" || !d.Never || !d.RetryAt.IsZero() {
		t.Errorf("got %s, never %v", d.Block.ID, d.Never)
	}
}

func TestABlockEndsAtItsInstantWithoutAnyJob(t *testing.T) {
	n := newNode(t)
	n.block(t, "b", "ip:203.0.113.7", n.clock().Add(time.Second))
	n.advance(time.Second - time.Millisecond)
	if d := n.check(t, "ip:203.0.113.7"); d.Outcome != Blocked {
		t.Errorf("a millisecond before its end: %s", d.Outcome)
	}
	n.advance(time.Millisecond)
	if d := n.check(t, "ip:203.0.113.7"); d.Outcome != Allowed {
		t.Errorf("at its end: %s", d.Outcome)
	}
}

func TestNoSecondSpellingOfABlockedAddressGetsThrough(t *testing.T) {
	n := newNode(t)
	n.block(t, "b4", "ip:203.0.113.7", time.Time{})
	n.block(t, "b6", "ip:2001:db8::1/128", time.Time{})
	for _, text := range []string{
		"ip:203.0.113.7", "ip:::ffff:203.0.113.7", "ip:::FFFF:CB00:7107", "ip:203.0.113.7/32",
		"ip:2001:db8::1", "ip:2001:DB8:0:0::1", "ip:2001:0db8::0001/128",
	} {
		if d := n.check(t, text); d.Outcome != Blocked {
			t.Errorf("%s is %s", text, d.Outcome)
		}
	}
	if d := n.check(t, "ip:2001:db8::2"); d.Outcome != Allowed {
		t.Errorf("the neighbour of a /128 is %s", d.Outcome)
	}
}

func TestTheMostSpecificPolicyIsAskedOrTheOneThatIsNamed(t *testing.T) {
	n := newNode(t,
		policy(t, 1, "default", "*", "100/s"),
		policy(t, 2, "tests", "token:test_*", "10/s"),
		policy(t, 3, "one", "token:test_1", "1/s"),
		policy(t, 4, "closed", "token:closed", "1/s", mode(rules.Off)))
	for text, want := range map[string]string{
		"token:test_1": "one", "token:test_2": "tests", "token:x": "default", "token:closed": "closed",
	} {
		if d := n.check(t, text); d.Policy.Name != want {
			t.Errorf("%s asked %s, want %s", text, d.Policy.Name, want)
		}
	}
	named := func(c *Check) { c.Policy = "one" }
	if d := n.check(t, "token:x", named); d.Policy.Name != "one" {
		t.Errorf("named: asked %s", d.Policy.Name)
	}
	for range 3 {
		if d := n.check(t, "token:closed"); d.Outcome != Allowed {
			t.Errorf("an off policy: %s", d.Outcome)
		}
	}
	_, err := n.Check(t.Context(), Check{Key: key(t, "token:x"), Cost: 1, Policy: "none"})
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("an unknown policy: %v", err)
	}
}

func TestWithoutAPolicyEverythingIsAllowed(t *testing.T) {
	n := newNode(t)
	if d := n.check(t, "token:x"); d.Outcome != Allowed || d.Policy != nil {
		t.Errorf("got %+v", d)
	}
}

func TestAShadowPolicyWatchesWithALogOfItsOwn(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "3/m"), policy(t, 2, "trial", "*", "1/m", mode(rules.Shadow)))
	want := []struct{ real, shadow Outcome }{{Allowed, Allowed}, {Allowed, Limited}, {Allowed, Limited}, {Limited, Limited}}
	for i, w := range want {
		d := n.check(t, "token:x")
		if d.Outcome != w.real || d.Shadow == nil || d.Shadow.Outcome != w.shadow {
			t.Errorf("check %d: %s and %+v, want %v", i+1, d.Outcome, d.Shadow, w)
		}
		if refused := d.Shadow.Outcome == Limited; refused != (d.Shadow.ID != "") {
			t.Errorf("check %d: shadow id %q", i+1, d.Shadow.ID)
		}
	}
	n.advance(time.Minute)
	if d := n.check(t, "token:x"); d.Outcome != Allowed || d.Shadow.Outcome != Allowed {
		t.Errorf("a minute later: %s and %s", d.Outcome, d.Shadow.Outcome)
	}
}

func TestAPeekChargesNothingAndIsNotCounted(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/m"))
	peek := func(c *Check) { c.Peek = true }
	for range 3 {
		if d := n.check(t, "token:x", peek); d.Outcome != Allowed {
			t.Fatalf("peek: %s", d.Outcome)
		}
	}
	n.check(t, "token:x")
	n.check(t, "token:x", peek)
	n.check(t, "token:x")
	if got := fmt.Sprint(n.heard.outcomes); got != "[allowed limited]" {
		t.Errorf("counted %s", got)
	}
}

func TestACostThatNoWindowCanHoldIsAMistakeAndNotAVerdict(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "5/m 3/s"))
	_, err := n.Check(t.Context(), Check{Key: key(t, "token:x"), Cost: 4})
	var mistake *fault.Error
	if !errors.As(err, &mistake) || mistake.Field != "cost" || !strings.Contains(mistake.Message, "3") {
		t.Errorf("got %v", err)
	}
}

func TestANodeThatHasNeverLoadedDecidesNothing(t *testing.T) {
	n := newNode(t)
	n.loaded = false
	if _, err := n.Check(t.Context(), Check{Key: key(t, "token:x"), Cost: 1}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
}

func TestABatchIsAnsweredInOrderEachOnItsOwn(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "2/m"))
	n.block(t, "b", "token:bad", time.Time{})
	checks := []Check{
		{Key: key(t, "token:a"), Cost: 1}, {Key: key(t, "token:a"), Cost: 1}, {Key: key(t, "token:bad"), Cost: 1},
		{Key: key(t, "token:a"), Cost: 1}, {Key: key(t, "token:b"), Cost: 3}, {Key: key(t, "token:b"), Cost: 2},
	}
	decisions, errs := make([]Decision, len(checks)), make([]error, len(checks))
	n.Decide(t.Context(), checks, decisions, errs)
	want := []Outcome{Allowed, Allowed, Blocked, Limited, "", Allowed}
	for i, w := range want {
		if w == "" {
			if errs[i] == nil {
				t.Errorf("check %d was decided", i)
			}
			continue
		}
		if errs[i] != nil || decisions[i].Outcome != w {
			t.Errorf("check %d: %s, %v; want %s", i, decisions[i].Outcome, errs[i], w)
		}
	}
}

// brokenLog is a log behind a switch: unreachable, or hung until the deadline.
type brokenLog struct {
	timestamplog.Log
	down, hung atomic.Bool
	asked      atomic.Int64
}

func (b *brokenLog) Decide(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	b.asked.Add(1)
	if b.hung.Load() {
		<-ctx.Done()
	}
	if b.down.Load() || b.hung.Load() {
		for i := range results {
			results[i].Err = timestamplog.ErrUnreachable
		}
		return
	}
	b.Log.Decide(ctx, requests, results)
}

func (b *brokenLog) DecideAll(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) error {
	b.asked.Add(1)
	if b.hung.Load() {
		<-ctx.Done()
	}
	if b.down.Load() || b.hung.Load() {
		return timestamplog.ErrUnreachable
	}
	return b.Log.DecideAll(ctx, requests, results)
}

func (b *brokenLog) Cancel(ctx context.Context, reservation timestamplog.Reservation) (bool, error) {
	if b.down.Load() || b.hung.Load() {
		return false, timestamplog.ErrUnreachable
	}
	return b.Log.Cancel(ctx, reservation)
}

func (b *brokenLog) Now(ctx context.Context) (time.Time, error) {
	if b.down.Load() || b.hung.Load() {
		return time.Time{}, timestamplog.ErrUnreachable
	}
	return b.Log.Now(ctx)
}

func newRemoteNode(t *testing.T, policies ...*rules.Policy) (*node, *brokenLog) {
	t.Helper()
	n := newNode(t, policies...)
	remote := &brokenLog{Log: n.log}
	local := memlog.New(memlog.Options{Now: n.clock})
	t.Cleanup(func() { local.Close() })
	n.Gate = New(Options{View: n, Log: remote, Local: local, Deadline: 10 * time.Millisecond, Recorder: &n.heard, Now: n.clock})
	return n, remote
}

func TestInAnOutageEachPolicyDoesWhatItsOperatorChose(t *testing.T) {
	n, log := newRemoteNode(t,
		policy(t, 1, "local", "token:local", "1/m"),
		policy(t, 2, "allow", "token:allow", "1/m", onFailure(rules.FailAllow)),
		policy(t, 3, "deny", "token:deny", "1/m", onFailure(rules.FailDeny)))
	n.block(t, "b", "token:blocked", time.Time{})
	for _, breakage := range []*atomic.Bool{&log.down, &log.hung} {
		n.advance(2 * time.Minute)
		breakage.Store(true)
		for round, want := range []map[string]Outcome{
			{"token:local": Allowed, "token:allow": Allowed, "token:deny": Unavailable, "token:blocked": Blocked},
			{"token:local": Limited, "token:allow": Allowed, "token:deny": Unavailable, "token:blocked": Blocked},
		} {
			for text, outcome := range want {
				d := n.check(t, text)
				if d.Outcome != outcome {
					t.Errorf("round %d: %s is %s, want %s", round, text, d.Outcome, outcome)
				}
				if degraded := text != "token:blocked"; degraded != (d.Degraded != "") {
					t.Errorf("round %d: %s says degraded %q", round, text, d.Degraded)
				}
			}
		}
		breakage.Store(false)
		awaitRecovery(t, n)
	}
}

// awaitRecovery waits until the gate goes back to the log by itself.
func awaitRecovery(t *testing.T, n *node) {
	t.Helper()
	for n.Outage().Open() {
		if t.Context().Err() != nil {
			t.Fatal("the gate never went back to the log")
		}
		time.Sleep(time.Millisecond)
	}
	if d := n.check(t, "token:allow"); d.Degraded != "" {
		t.Errorf("the first check after the outage is degraded: %s", d.Degraded)
	}
}

// awayLog is a log of whose servers two are away.
type awayLog struct {
	timestamplog.Log
	since time.Time
}

func (l awayLog) Outages() []timestamplog.Outage {
	return []timestamplog.Outage{{Server: "a", Since: l.since, Reason: "hangs"}, {Server: "b", Since: l.since.Add(time.Second), Reason: "full"}}
}

func TestTheOutageIsThatOfTheServerThatIsAwayForLongest(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/m"))
	if n.Outage().Open() {
		t.Errorf("a log in memory has the outage %+v", n.Outage())
	}
	since := n.clock()
	n.Gate = New(Options{View: n, Log: awayLog{n.log, since}, Local: n.local, Now: n.clock})
	if o := n.Outage(); !o.Open() || !o.Since.Equal(since) || o.Reason != "hangs" || len(o.Servers) != 2 {
		t.Errorf("the outage is %+v", o)
	}
}
