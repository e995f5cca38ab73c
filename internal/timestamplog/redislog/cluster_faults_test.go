package redislog_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/logtest"
	"github.com/stint-dev/stint/test/servers"
)

// lost is a request without an answer. It may have been charged between the times sent and given,
// in Unix milliseconds.
type lost struct {
	sent, given int64
	err         error
}

// subject is a key for which requests are sent continuously.
type subject struct {
	key  string
	slot int
	// timeout is how long its callers wait, in nanoseconds.
	timeout atomic.Int64

	mu      sync.Mutex
	answers []logtest.Answered
	lost    []lost
}

func (s *subject) ask(log timestamplog.Log, p *rules.Policy) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.timeout.Load()))
	defer cancel()
	results := make([]timestamplog.Result, 1)
	sent := time.Now().UnixMilli()
	log.Decide(ctx, []timestamplog.Request{timestamplog.RequestOf(p, s.key, 1)}, results)
	s.note(results[0], sent)
}

func (s *subject) note(r timestamplog.Result, sent int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Err != nil {
		s.lost = append(s.lost, lost{sent, time.Now().UnixMilli(), r.Err})
		return
	}
	s.answers = append(s.answers, logtest.Answered{Cost: 1, Result: r})
}

func (s *subject) counts() (answered, lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.answers), len(s.lost)
}

// subjects are two keys in each of a number of shards, and the goroutines that send requests for
// them through two nodes.
type subjects struct {
	all   []*subject
	pairs [][2]*subject // both in the same shard
	// stop ends the requests and waits for their answers: a refusal cannot be judged while an
	// earlier request is in flight.
	stop func()
}

// The timeouts of callers. With the long timeout they get an answer even on a busy machine.
const (
	longTimeout  = 20 * time.Second
	shortTimeout = 100 * time.Millisecond
)

// aliveForLong keeps the Cluster from considering a primary dead that is slow because the machine
// is busy.
var aliveForLong = []string{"--cluster-node-timeout", "120000"}

func gatherSubjects(t *testing.T, c *servers.RedisCluster, p *rules.Policy, shards int, nodes ...timestamplog.Log) *subjects {
	t.Helper()
	byShard, all := map[int]*subject{}, &subjects{}
	for i := 0; len(all.pairs) < shards; i++ {
		s := &subject{key: fmt.Sprintf("token:%d", i)}
		shard := redislog.ShardOf(s.key)
		s.slot = c.Slot(redislog.LogName(redislog.DefaultPrefix, shard, timestamplog.LogIDOf(p, s.key)))
		s.timeout.Store(int64(longTimeout))
		if first := byShard[shard]; first != nil {
			all.pairs = append(all.pairs, [2]*subject{first, s})
			all.all = append(all.all, first, s)
			delete(byShard, shard)
			continue
		}
		byShard[shard] = s
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	repeat := func(do func()) {
		group.Go(func() {
			for ctx.Err() == nil {
				do()
				time.Sleep(3 * time.Millisecond) // leave processor time for the servers
			}
		})
	}
	for i, s := range all.all {
		repeat(func() { s.ask(nodes[i%len(nodes)], p) })
	}
	for i, pair := range all.pairs { // in one call, whose keys may be on two servers
		node := nodes[i%len(nodes)]
		repeat(func() {
			requests := []timestamplog.Request{timestamplog.RequestOf(p, pair[0].key, 1), timestamplog.RequestOf(p, pair[1].key, 1)}
			results := make([]timestamplog.Result, len(requests))
			limited, cancel := context.WithTimeout(context.Background(), time.Duration(pair[0].timeout.Load()))
			defer cancel()
			sent := time.Now().UnixMilli()
			node.Decide(limited, requests, results)
			for i, r := range results {
				pair[i].note(r, sent)
			}
		})
	}
	all.stop = sync.OnceFunc(func() { stop(); group.Wait() })
	t.Cleanup(all.stop)
	return all
}

// awaitMore waits until each of some subjects has been answered that many times
// more.
func awaitMore(t *testing.T, what string, more int, some ...*subject) {
	t.Helper()
	before := make([]int, len(some)) // of all first, so that none waits for another
	for i, s := range some {
		before[i], _ = s.counts()
	}
	for i, s := range some {
		servers.Await(t, what, func() bool { answered, _ := s.counts(); return answered >= before[i]+more })
	}
}

// wantNoneLost fails the test if a request for some of the subjects got no answer.
func wantNoneLost(t *testing.T, what string, some []*subject) {
	t.Helper()
	for _, s := range some {
		s.mu.Lock()
		if len(s.lost) > 0 {
			t.Errorf("%s: %d of %d requests about %s got no answer, the first since %v", what, len(s.lost), len(s.lost)+len(s.answers), s.key, s.lost[0].err)
		}
		s.mu.Unlock()
	}
}

// check fails the test if a window allowed more than its limit, or if a request was refused
// without a reason although all requests within one window were answered.
func (s *subject) check(t *testing.T, stack rules.Stack) {
	t.Helper()
	s.mu.Lock()
	answers, lostOnes := slices.Clone(s.answers), slices.Clone(s.lost)
	s.mu.Unlock()
	slices.SortFunc(answers, func(a, b logtest.Answered) int { return cmp.Compare(a.Now, b.Now) })
	for _, rule := range stack {
		if most := logtest.MaxAllowed(answers, rule.WindowMS()); most > rule.Limit {
			t.Errorf("%s: %s let %d into one window", s.key, rule, most)
		}
	}
	judged := 0
	for i, a := range answers {
		if a.Allowed {
			continue
		}
		rule := stack[a.Rule]
		from := a.Now - rule.WindowMS()
		if isNearOneOf(lostOnes, from, a.Now) {
			continue
		}
		judged++
		used := 0
		for j := i; j >= 0 && answers[j].Now > from; j-- {
			if answers[j].Allowed {
				used++
			}
		}
		for j := i + 1; j < len(answers) && answers[j].Now == a.Now; j++ { // which may have come before
			if answers[j].Allowed {
				used++
			}
		}
		if used+1 > rule.Limit {
			continue
		}
		t.Errorf("%s was refused at %d by %s although only %d were used", s.key, a.Now, rule, used)
	}
	if judged == 0 {
		t.Errorf("%s: no refusal was judged", s.key)
	}
}

// isNearOneOf reports whether one of the requests without an answer may have been charged between
// two times.
func isNearOneOf(all []lost, from, to int64) bool {
	return slices.ContainsFunc(all, func(l lost) bool { return l.given > from && l.sent <= to })
}

// awaitRefusals waits until for each of some subjects a request was refused now or later, and no
// request was lost in the window before it, so that check can judge the refusal.
func awaitRefusals(t *testing.T, stack rules.Stack, some ...*subject) {
	t.Helper()
	from := time.Now().UnixMilli() // Redis has the same clock
	for _, s := range some {
		servers.Await(t, "a refusal of "+s.key+" can be judged", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return slices.ContainsFunc(s.answers, func(a logtest.Answered) bool {
				return !a.Allowed && a.Now >= from && !isNearOneOf(s.lost, a.Now-stack[a.Rule].WindowMS(), a.Now)
			})
		})
	}
}

// of returns the subjects whose slots a server has, and the other subjects.
func (all *subjects) of(c *servers.RedisCluster, server int) (its, others []*subject) {
	for _, s := range all.all {
		if c.Owner(s.slot) == server {
			its = append(its, s)
		} else {
			others = append(others, s)
		}
	}
	return its, others
}

// openNode opens a node's log on a Cluster.
func openNode(t *testing.T, c *servers.RedisCluster, events *outageEvents) *redislog.Log {
	t.Helper()
	log, err := redislog.Open(c.URL, redislog.Options{Timeout: longTimeout, OnOutage: events.add})
	must(t, err)
	t.Cleanup(func() { log.Close() })
	return log
}

func TestStalledPrimaryDegradesOnlyItsOwnKeys(t *testing.T) {
	c := servers.Cluster(t, aliveForLong...)
	p := policy(t, 1, "10/200ms", "40/2s")
	var events outageEvents
	log := openNode(t, c, &events)
	all := gatherSubjects(t, c, p, 9, log, openNode(t, c, new(outageEvents)))
	awaitMore(t, "every key is answered", 20, all.all...)
	const stalled = 1
	its, others := all.of(c, stalled)
	if len(its) == 0 || len(others) == 0 {
		t.Fatal("the keys do not lie on several primaries")
	}
	for _, s := range its {
		s.timeout.Store(int64(shortTimeout))
	}
	c.Servers[stalled].Stop()
	held := time.After(400 * time.Millisecond)
	servers.Await(t, "the outage is noticed", func() bool { return len(log.Outages()) > 0 })
	awaitMore(t, "the others are answered during the outage", 20, others...)
	if away := log.Outages(); len(away) != 1 || away[0].Server != c.Servers[stalled].Addr {
		t.Errorf("the outages are %+v, want that of %s alone", away, c.Servers[stalled].Addr)
	}
	<-held
	c.Servers[stalled].Continue()
	begun := time.Now()
	servers.Await(t, "the primary is asked again", func() bool { return len(log.Outages()) == 0 })
	t.Logf("it was asked again after %s", time.Since(begun).Round(time.Millisecond))
	for _, s := range its {
		s.timeout.Store(int64(longTimeout))
	}
	awaitMore(t, "its keys are answered again", 40, its...)
	awaitRefusals(t, p.Rules, all.all...)
	all.stop()
	wantNoneLost(t, "another primary stalls", others)
	for _, s := range all.all {
		s.check(t, p.Rules)
	}
	for _, e := range events.list() {
		if e.Server != c.Servers[stalled].Addr {
			t.Errorf("the events include %+v", e)
		}
	}
}

func TestMigratingSlotDegradesNoPlainRequest(t *testing.T) {
	c := servers.Cluster(t, aliveForLong...)
	p := policy(t, 1, "10/200ms", "40/2s")
	var events outageEvents
	log := openNode(t, c, &events)
	all := gatherSubjects(t, c, p, 6, log, openNode(t, c, &events))
	awaitMore(t, "every key is answered", 20, all.all...)
	for _, pair := range all.pairs[:3] {
		asks, splits := c.ErrorsSaid("ASK"), c.ErrorsSaid("TRYAGAIN")
		slot := c.Open(pair[0].slot)
		held := time.After(300 * time.Millisecond)
		slot.MoveOne() // the logs of the two are on different nodes now
		servers.Await(t, "a call is sent to where a log is now", func() bool { return c.ErrorsSaid("ASK") > asks })
		servers.Await(t, "a call finds its logs apart", func() bool { return c.ErrorsSaid("TRYAGAIN") > splits })
		// A call that cannot be split fails, but never as an outage of the primary.
		together := []timestamplog.Request{timestamplog.RequestOf(p, pair[0].key, 1), timestamplog.RequestOf(p, pair[1].key, 1)}
		together[0].Peek, together[1].Peek = true, true
		var group sync.WaitGroup
		for range 2 * redislog.FailureThreshold {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // a busy machine needs one of these seconds
				defer cancel()
				err := log.DecideAll(ctx, together, make([]timestamplog.Result, 2))
				if !errors.Is(err, timestamplog.ErrSlotUnavailable) || !errors.Is(err, timestamplog.ErrUnreachable) {
					t.Errorf("two keys whose logs lie apart: %v", err)
				}
			})
		}
		group.Wait()
		awaitMore(t, "keys of every slot are answered", 10, all.all...)
		<-held
		slot.Close()
	}
	awaitMore(t, "every key is answered", 20, all.all...)
	awaitRefusals(t, p.Rules, all.all...)
	all.stop()
	wantNoneLost(t, "slots move", all.all)
	for _, s := range all.all {
		s.check(t, p.Rules)
	}
	if events := events.list(); len(events) > 0 {
		t.Errorf("outages: %+v", events)
	}
}

func TestOutageEndsWhenAPrimaryIsReplaced(t *testing.T) {
	c := servers.Cluster(t)
	p := policy(t, 1, "10/200ms", "40/2s")
	var events outageEvents
	log := openNode(t, c, &events)
	all := gatherSubjects(t, c, p, 9, log)
	awaitMore(t, "every key is answered", 20, all.all...)
	const dies = 2
	its, others := all.of(c, dies)
	for _, s := range its {
		s.timeout.Store(int64(shortTimeout))
	}
	c.Servers[dies].Kill()
	servers.Await(t, "the outage is noticed", func() bool { return len(events.list()) > 0 })
	servers.Await(t, "nobody is away", func() bool { return len(log.Outages()) == 0 })
	for _, s := range its {
		s.timeout.Store(int64(longTimeout))
	}
	awaitMore(t, "its keys are answered by its replica", 40, its...)
	awaitRefusals(t, p.Rules, others...)
	all.stop()
	wantNoneLost(t, "another primary dies", others)
	for _, s := range others {
		s.check(t, p.Rules)
	}
	for _, s := range its { // a loss of what had not reached the replica
		s.mu.Lock()
		answers := slices.Clone(s.answers)
		s.mu.Unlock()
		for _, rule := range p.Rules {
			if most := logtest.MaxAllowed(answers, rule.WindowMS()); most > 2*rule.Limit {
				t.Errorf("%s: %s let %d into one window", s.key, rule, most)
			}
		}
	}
	for _, e := range events.list() {
		if e.Server == c.Servers[(dies+1)%servers.Primaries].Addr || e.Server == c.Servers[(dies+2)%servers.Primaries].Addr {
			t.Errorf("the events include %+v", e)
		}
	}
}
