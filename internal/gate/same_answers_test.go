package gate

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/internal/timestamplog/refusalcache"
	"github.com/stint-dev/stint/test/servers"
)

// TestEveryLogGivesTheSameAnswers does the same random things with gates whose logs are in memory,
// restarted now and then, on Redis, and on Redis behind the cache of refusals. Policies, own limits,
// plans, blocks and exemptions change all the time, also between a reservation and its cancel.
func TestEveryLogGivesTheSameAnswers(t *testing.T) {
	server := servers.Redis(t)
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newSameAnswers(t, seed, server)
			onRedis, behindCache := w.open(server, "-plain"), refusalcache.New(w.open(server, "-cached"), refusalcache.Options{Now: w.clock})
			w.use(memlog.New(memlog.Options{Now: w.clock}), onRedis, behindCache)
			w.run()
		})
	}
}

// TestAClusterGivesTheSameAnswers does the same on a Redis Cluster, where further keys and several
// keys as one are asked about apart, unless a check may wait. Nothing else comes in between here, so
// that the outcomes and the waits are the same.
func TestAClusterGivesTheSameAnswers(t *testing.T) {
	server := servers.ClusterOfOne(t)
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newSameAnswers(t, seed, server)
			w.isCluster = true
			w.use(memlog.New(memlog.Options{Now: w.clock}), w.open(server, ""))
			w.run()
		})
	}
}

// sameAnswers compares the answers of several gates. The first has its log in memory.
type sameAnswers struct {
	randomChecks
	logs      []timestamplog.Log
	gates     []*Gate
	redis     *redis.Client
	prefix    string
	isCluster bool
	policies  []*rules.Policy
	handles   []string
	earlier   [][]Check
	history   []string
}

func newSameAnswers(t *testing.T, seed uint64, server *servers.RedisServer) *sameAnswers {
	w := &sameAnswers{randomChecks: randomChecks{Rand: rand.New(rand.NewPCG(seed, 7)), t: t, node: newNode(t)}}
	w.now.Store(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()) // Redis expires nothing by its own clock
	w.redis, w.prefix = redis.NewClient(&redis.Options{Addr: server.Addr}), fmt.Sprint(server.Prefix, "-", seed)
	t.Cleanup(func() { w.redis.Close() })
	return w
}

func (w *sameAnswers) open(server *servers.RedisServer, suffix string) timestamplog.Log {
	log, err := redislog.Open(server.URL, redislog.Options{Clock: w.clock, Timeout: time.Minute, Prefix: w.prefix + suffix})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { log.Close() })
	return log
}

func (w *sameAnswers) use(logs ...timestamplog.Log) {
	w.logs = logs
	for _, log := range logs {
		w.gates = append(w.gates, New(Options{View: w.node, Log: log, Local: memlog.New(memlog.Options{}), Deadline: time.Minute, Now: w.clock}))
	}
}

func (w *sameAnswers) run() {
	w.drawPolicies()
	for range 100 {
		w.advance(time.Duration(w.IntN(2)*w.IntN(300)) * time.Millisecond)
		w.expire()
		actions := []func(){
			w.changePolicy, w.changeProfile, w.changeEntry, w.reset, w.restart, w.cancel, w.cancel, w.report, w.report, w.report,
			w.decide, w.decide, w.decide, w.decide, w.decide, w.decideAll, w.decideAll, w.decideAll, w.decideAll,
		}
		actions[w.IntN(len(actions))]()
	}
}

// expire deletes what Redis would have expired by the test's clock.
func (w *sameAnswers) expire() {
	const script = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do local at = redis.call('PEXPIRETIME', key) " +
		"if at >= 0 and at <= tonumber(ARGV[2]) then redis.call('DEL', key) end end"
	if err := w.redis.Eval(w.t.Context(), script, nil, w.prefix+"*", w.now.Load()).Err(); err != nil && !errors.Is(err, redis.Nil) {
		w.t.Fatal(err)
	}
}

func (w *sameAnswers) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf("%d "+format, append([]any{w.now.Load()}, args...)...))
}

// compare fails the test unless all gates answer what the first does.
func (w *sameAnswers) compare(answer func(*Gate) string) {
	w.t.Helper()
	want := answer(w.gates[0])
	w.note("  %s", want)
	for i, g := range w.gates[1:] {
		if got := answer(g); got != want {
			w.t.Fatalf("%s\nlog %d answers\n%s", strings.Join(w.history[max(0, len(w.history)-20):], "\n"), i+1, got)
		}
	}
}

// stack draws windows that are long enough to fill.
func (w *sameAnswers) stack() string {
	text := fmt.Sprintf("%d/%dms", 1+w.IntN(4), 1+w.IntN(2000))
	if w.IntN(2) == 0 {
		text += fmt.Sprintf(" %d/%dms", 2+w.IntN(4), 1+w.IntN(4000))
	}
	return text
}

func (w *sameAnswers) drawPolicies() {
	counted := func(p *rules.Policy) {
		a := algorithms.All()[w.IntN(len(algorithms.All()))]
		if p.ID < 3 && w.IntN(4) == 0 {
			a = algorithms.ByName(algorithms.SortedSetLog)
		}
		p.Algorithm = a.Name
		if a.Takes(algorithms.OptionBurst) && w.IntN(2) == 0 {
			p.Options.Burst = 1 + w.IntN(4)
		}
		if a.Takes(algorithms.OptionVariant) && w.IntN(2) == 0 {
			p.Options.Variant = algorithms.VariantQueue
		}
		if a.Takes(algorithms.OptionCountRefused) && p.ID < 3 && w.IntN(2) == 0 {
			p.Options.CountRefused = true
		} else if w.IntN(2) == 0 {
			also(w.t, "net:/24 "+w.stack(), "account "+w.stack())(p)
		}
	}
	distinct := func(p *rules.Policy) {
		p.Rules = stack(w.t, fmt.Sprintf("%d/%dms distinct path", 1+w.IntN(3), 1+w.IntN(1500)))
	}
	all := []*rules.Policy{
		policy(w.t, 1, "default", "*", w.stack(), counted), policy(w.t, 2, "addresses", "ip:*", w.stack(), counted),
		policy(w.t, 3, "login", "*", w.stack(), counted, when(w.t, "/login", "")), policy(w.t, 4, "pages", "*", w.stack(), distinct),
		policy(w.t, 5, "gold", "plan:gold", w.stack(), counted), policy(w.t, 6, "probes", "*", w.stack(), distinct, counts("login_failed")),
		policy(w.t, 7, "guesses", "*", w.stack(), counted, counts("login_failed")), policy(w.t, 8, "trial", "*", w.stack(), counted, mode(rules.Shadow)),
	}
	for i, p := range all {
		p.Retention = p.Retention.Cover(p.Rules)
		if i < 2 || w.IntN(2) == 0 && !(w.isCluster && p.Mode == rules.Shadow) { // a Cluster asks shadow policies about refused keys too
			w.policies = append(w.policies, p)
			w.note("policy %s: %s %+v %v, also %v", p.Name, p.Algorithm, p.Options, p.Rules, p.Also)
		}
	}
	w.selector = rules.NewSelector(w.policies)
}

func (w *sameAnswers) changePolicy() {
	i := w.IntN(len(w.policies))
	old := w.policies[i]
	next := *old
	next.Version, next.Rules = old.Version+1, slices.Clone(old.Rules)
	for j := range next.Rules {
		next.Rules[j].Limit = 1 + w.IntN(6)
	}
	next.Retention = old.Retention.Cover(next.Rules)
	w.policies = slices.Clone(w.policies)
	w.policies[i] = &next
	w.selector = rules.NewSelector(w.policies)
	w.note("policy %s: %v", next.Name, next.Rules)
}

func (w *sameAnswers) changeProfile() {
	p := &profiles.Profile{Key: w.pick("ip:203.0.113.1", "token:a"), Plan: w.pick("", "gold")}
	if w.IntN(2) == 0 {
		p.Limit = &profiles.Limit{Rules: stack(w.t, strings.Fields(w.stack())...), Reason: "test", Expires: w.clock().Add(time.Duration(1+w.IntN(1000)) * time.Millisecond)}
		w.note("limit of %s: %v until %d", p.Key, p.Limit.Rules, p.Limit.Expires.UnixMilli())
	}
	w.note("plan of %s: %q", p.Key, p.Plan)
	w.put(w.t, p)
}

func (w *sameAnswers) changeEntry() {
	e := &blocks.Entry{Kind: blocks.Block, ID: w.pick("1", "2", "3"), Expires: w.clock().Add(time.Duration(w.IntN(500)) * time.Millisecond)}
	e.Pattern = pattern(w.t, w.pick("ip:203.0.113.1", "account:x", "net:203.0.113.0/24", "token:a"))
	if w.IntN(2) == 0 {
		e.Kind = blocks.Exemption
	}
	w.note("%s of %s until %d", e.Kind, e.Pattern, e.Expires.UnixMilli())
	w.set.Apply(e, w.clock())
}

func (w *sameAnswers) reset() {
	id := timestamplog.LogIDOf(w.policies[w.IntN(len(w.policies))], key(w.t, w.key()).String())
	w.note("reset %+v", id)
	for _, log := range w.logs {
		if _, err := log.Reset(w.t.Context(), id); err != nil {
			w.t.Fatal(err)
		}
	}
}

// restart replaces the log in memory by what its snapshot contains.
func (w *sameAnswers) restart() {
	var saved bytes.Buffer
	log := memlog.New(memlog.Options{Now: w.clock})
	if err := w.logs[0].(*memlog.Log).Save(&saved); err != nil {
		w.t.Fatal(err)
	}
	if err := log.Load(&saved); err != nil {
		w.t.Fatal(err)
	}
	w.note("restart")
	w.logs[0], w.gates[0] = log, New(Options{View: w.node, Log: log, Now: w.clock})
}

func (w *sameAnswers) cancel() {
	if len(w.handles) == 0 {
		return
	}
	handle := w.handles[w.IntN(len(w.handles))]
	w.note("cancel %s", handle)
	w.compare(func(g *Gate) string {
		freed, err := g.Cancel(w.t.Context(), handle)
		return fmt.Sprint(freed, err)
	})
}

func (w *sameAnswers) report() {
	r := Report{Key: key(w.t, w.key()), Outcome: "login_failed", Detail: true, ID: w.pick("", "r1", "r2")}
	r.Values = map[string]string{"account": w.pick("x", "y"), "path": w.pick("/a", "/b", "/c", "/d")}
	w.note("report %s %v %q", r.Key, r.Values, r.ID)
	w.compare(func(g *Gate) string {
		answers := make([]Reported, 1)
		if err := g.Report(w.t.Context(), []Report{r}, answers); err != nil {
			return err.Error()
		}
		text := fmt.Sprint(answers[0].At.UnixMilli(), answers[0].Unsaid, answers[0].Degraded)
		for i := range answers[0].Policies {
			p := &answers[0].Policies[i]
			text += fmt.Sprint("\n  ", p.Policy.Name, p.Result, w.show(&p.Answer))
		}
		return text
	})
}

// drawChecks returns a check or several, perhaps those that were asked before.
func (w *sameAnswers) drawChecks() []Check {
	if len(w.earlier) > 0 && w.IntN(6) == 0 {
		return w.earlier[w.IntN(len(w.earlier))]
	}
	all := w.checks()[:1]
	c := &all[0]
	c.Cost, c.Policy, c.Peek, c.ChargeAlways = 1+w.IntN(5)/4, "", w.IntN(6) == 0, c.MaxWait == 0 && w.IntN(6) == 0
	if c.MaxWait == 0 && (w.isCluster || w.IntN(2) == 0) { // a Cluster finds a replay only if it charges
		c.ID = ""
	}
	for _, other := range []string{"ip:203.0.113.1", "ip:203.0.113.2", "ip:2001:db8::1", "token:a"} {
		if another := *c; key(w.t, other).String() != c.Key.String() && w.IntN(3) == 0 {
			another.Key = key(w.t, other)
			all = append(all, another)
		}
	}
	for i := range all {
		all[i].Policy = w.pick("", "", "", "default")
	}
	if !w.isCluster {
		w.earlier = append(w.earlier, all)
	}
	return all
}

func (w *sameAnswers) decide() {
	c := w.drawChecks()[0]
	if w.isCluster {
		c.MaxWait = 0 // no further key is reserved on a Cluster
	}
	w.note("check %+v", c)
	w.compare(func(g *Gate) string {
		d, err := g.Check(w.t.Context(), c)
		if err != nil {
			return err.Error()
		}
		if d.Handle != "" && g == w.gates[0] {
			w.handles = append(w.handles, d.Handle)
		}
		return w.showDecision(&d)
	})
}

func (w *sameAnswers) decideAll() {
	all := w.drawChecks()
	if w.isCluster && all[0].MaxWait > 0 {
		return
	}
	w.note("checks %+v", all)
	w.compare(func(g *Gate) string {
		decide := g.DecideAll
		if w.isCluster {
			decide = g.DecideAllOrApart
		}
		c, err := decide(w.t.Context(), all)
		if err != nil {
			return err.Error()
		}
		if c.Handle != "" && g == w.gates[0] {
			w.handles = append(w.handles, c.Handle)
		}
		text := fmt.Sprint(c.Outcome, w.show(&c.Answer), c.Handle)
		for i := range c.Decisions {
			text += "\n  " + w.showDecision(&c.Decisions[i])
		}
		return text
	})
}

func (w *sameAnswers) showDecision(d *Decision) string {
	text := fmt.Sprint(d.Outcome, w.show(&d.Answer), d.Degraded)
	if w.isCluster { // which of several refusals is named may differ
		return text
	}
	text += fmt.Sprint(policyID(d.Policy), d.ID, d.OwnLimit != nil, d.Handle)
	if d.Shadow != nil {
		text += fmt.Sprint(" shadow ", d.Shadow.Outcome, d.Shadow.Policy.Name, w.show(&d.Shadow.Answer))
	}
	for i := range d.Additional {
		text += "\n    " + w.showDecision(&d.Additional[i])
	}
	return text
}

func (w *sameAnswers) show(a *Answer) string {
	text := fmt.Sprintf("{at %d retry %d never %v delay %s", a.At.UnixMilli(), a.RetryAt.UnixMilli(), a.Never, a.Delay)
	if !w.isCluster {
		text += fmt.Sprintf(" boundary %d reserved %d replayed %v states %v", a.Boundary.UnixMilli(), a.ReservedAt.UnixMilli(), a.Replayed, a.States)
	}
	if !w.isCluster && !a.Never { // of several rules that never allow the cost, any may be named
		text += fmt.Sprintf(" rule %d", a.Rule)
	}
	return text + "}"
}
