package gate

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// brokenLog is a log that can be made unreachable, or to hang until the deadline.
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
	n.Gate = New(Options{View: n, Log: remote, Local: local, Deadline: 10 * time.Millisecond, Recorder: &n.recorded, Now: n.clock})
	return n, remote
}

func TestOutageFollowsOnFailureOfEachPolicy(t *testing.T) {
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
					t.Errorf("round %d: %s has Degraded %q", round, text, d.Degraded)
				}
			}
		}
		breakage.Store(false)
		awaitRecovery(t, n)
	}
}

// unreachableKey is a log of several servers, of which that of one key is unreachable.
type unreachableKey struct {
	timestamplog.Log
	key string
}

func (l unreachableKey) Decide(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	for i := range requests {
		if results[i].Err = timestamplog.ErrUnreachable; requests[i].Key != l.key {
			l.Log.Decide(ctx, requests[i:i+1], results[i:i+1])
		}
	}
}

// The policies with an outcome are asked before the key's own. If the log cannot answer about one of
// them, because the server of a further key is unreachable or because of what Redis holds there, the
// key's own policy is decided by its log all the same.
func TestOwnPolicyIsAskedThoughTheLogOfAnOutcomeFails(t *testing.T) {
	policies := []*rules.Policy{
		policy(t, 1, "default", "*", "1/m", onFailure(rules.FailDeny)),
		policy(t, 2, "guessing", "*", "9/m", counts("login_failed"), also(t, "net:/24"), onFailure(rules.FailAllow)),
	}
	decides := func(t *testing.T, n *node, reason string) {
		t.Helper()
		for i, want := range []Outcome{Allowed, Limited} {
			if d := n.check(t, "ip:203.0.113.7"); d.Outcome != want || d.Policy.Name != "default" || d.Degraded != reason {
				t.Errorf("check %d is %s by %s, degraded %q; want %s", i+1, d.Outcome, d.Policy.Name, d.Degraded, want)
			}
		}
	}
	t.Run("another server", func(t *testing.T) {
		n, log := newRemoteNode(t, policies...)
		log.Log = unreachableKey{log.Log, "net:203.0.113.0/24"}
		decides(t, n, unreachable)
	})
	t.Run("another value in Redis", func(t *testing.T) {
		server := servers.DedicatedRedis(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr})
		defer client.Close()
		n := newNode(t, policies...)
		log, err := redislog.Open(server.URL, redislog.Options{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { log.Close() })
		n.Gate = New(Options{View: n, Log: log, Local: memlog.New(memlog.Options{}), Deadline: time.Minute})
		n.report(t, "ip:203.0.113.7", "login_failed")
		names, err := client.Keys(t.Context(), "*:2.0:ip:203.0.113.7").Result()
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		if err := client.Set(t.Context(), names[0], "something else", 0).Err(); err != nil {
			t.Fatal(err)
		}
		decides(t, n, foreign)
	})
}

func TestShadowPolicyThatDeniesInAnOutageWouldRefuse(t *testing.T) {
	n, log := newRemoteNode(t, policy(t, 1, "local", "*", "9/m"), policy(t, 2, "trial", "*", "9/m", mode(rules.Shadow), onFailure(rules.FailDeny)))
	log.down.Store(true)
	if d := n.check(t, "token:a"); d.Outcome != Allowed || d.Shadow == nil || d.Shadow.Outcome != Unavailable || !d.Shadow.ID.IsZero() {
		t.Errorf("%s, shadow %+v", d.Outcome, d.Shadow)
	}
}

// awaitRecovery waits until the gate uses the log again without intervention.
func awaitRecovery(t *testing.T, n *node) {
	t.Helper()
	for n.Outage().Open() {
		if t.Context().Err() != nil {
			t.Fatal("the gate does not use the log again")
		}
		time.Sleep(time.Millisecond)
	}
	if d := n.check(t, "token:allow"); d.Degraded != "" {
		t.Errorf("the first check after the outage is degraded: %s", d.Degraded)
	}
}

func TestCancelledCallerIsNotRefused(t *testing.T) {
	n, log := newRemoteNode(t, policy(t, 1, "local", "token:*", "5/m"), policy(t, 2, "guessing", "token:*", "5/m", counts("login_failed")))
	log.down.Store(true)
	gone, leave := context.WithCancel(t.Context())
	leave()
	checks := []Check{{Key: key(t, "token:a"), Cost: 1}, {Key: key(t, "token:b"), Cost: 1}}
	decisions, errs := make([]Decision, 2), make([]error, 2)
	n.Decide(gone, checks, decisions, errs)
	for i, d := range decisions {
		if errs[i] != nil || d.Outcome != Unavailable || d.ID != (offences.RefusalID{}) || !d.At.Equal(n.clock()) || !d.RetryAt.After(d.At) {
			t.Errorf("the check is %s at %s, id %s, %v", d.Outcome, d.At, d.ID, errs[i])
		}
	}
	all, err := n.DecideAll(gone, checks)
	if err != nil || all.Outcome != Unavailable {
		t.Errorf("DecideAll: got %+v, %v; want unavailable", all, err)
	}
	var answers [1]Reported
	if err := n.Report(gone, []Report{{Key: key(t, "token:a"), Outcome: "login_failed"}}, answers[:]); err != nil {
		t.Fatal(err)
	}
	wantReported(t, answers[0], Lost)
	log.down.Store(false)
	if d := n.check(t, "token:a"); d.Outcome != Allowed {
		t.Errorf("afterwards it is %s", d.Outcome)
	}
}

// failingLog is a log whose every decision fails.
type failingLog struct {
	timestamplog.Log
	err error
}

func (l failingLog) Decide(_ context.Context, _ []timestamplog.Request, results []timestamplog.Result) {
	for i := range results {
		results[i].Err = l.err
	}
}

func (l failingLog) DecideAll(context.Context, []timestamplog.Request, []timestamplog.Result) error {
	return l.err
}

// A log that cannot be read although its server responds is not an outage. A message about an
// outage would mislead the operator.
func TestDegradedDecisionHasTheReason(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "token:*", "5/m"), policy(t, 2, "guessing", "token:*", "5/m", counts("login_failed")))
	for want, err := range map[string]error{
		unreachable:     timestamplog.ErrUnreachable,
		slotUnavailable: fmt.Errorf("%w: %w", timestamplog.ErrUnreachable, timestamplog.ErrSlotUnavailable),
		foreign:         fmt.Errorf("%w: %w", timestamplog.ErrUnreachable, timestamplog.ErrForeign),
	} {
		n.Gate = New(Options{View: n, Log: failingLog{n.log, err}, Local: memlog.New(memlog.Options{Now: n.clock}), Recorder: &n.recorded, Now: n.clock})
		if d := n.check(t, "token:a"); d.Degraded != want {
			t.Errorf("Degraded of a check is %q, want %q", d.Degraded, want)
		}
		all, failed := n.DecideAll(t.Context(), []Check{{Key: key(t, "token:a"), Cost: 1}, {Key: key(t, "token:b"), Cost: 1}})
		if failed != nil || all.Degraded != want {
			t.Errorf("Degraded of DecideAll is %q, want %q; %v", all.Degraded, want, failed)
		}
		x, failed := n.Explain(t.Context(), key(t, "token:a"), "")
		if failed != nil || x.Degraded != want {
			t.Errorf("Degraded of an explanation is %q, want %q; %v", x.Degraded, want, failed)
		}
	}
}

// outagesLog is a log with two unreachable servers.
type outagesLog struct {
	timestamplog.Log
	since time.Time
}

func (l outagesLog) Outages() []timestamplog.Outage {
	return []timestamplog.Outage{{Server: "a", Since: l.since, Reason: "hangs"}, {Server: "b", Since: l.since.Add(time.Second), Reason: "full"}}
}

func TestOutageIsThatOfTheServerUnreachableForLongest(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/m"))
	if n.Outage().Open() {
		t.Errorf("a log in memory has the outage %+v", n.Outage())
	}
	since := n.clock()
	n.Gate = New(Options{View: n, Log: outagesLog{n.log, since}, Local: n.local, Now: n.clock})
	if o := n.Outage(); !o.Open() || !o.Since.Equal(since) || o.Reason != "hangs" || len(o.Servers) != 2 {
		t.Errorf("the outage is %+v", o)
	}
}
