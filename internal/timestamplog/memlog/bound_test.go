package memlog_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/test/logtest"
)

// bounded is a log with a memory bound and an oracle without one. Logs that the former drops are
// reset in the oracle, and then both must give the same answers.
type bounded struct {
	t        *testing.T
	clock    *logtest.Clock
	log      *memlog.Log
	oracle   *memlog.Log
	policies []*rules.Policy
	kept     map[timestamplog.LogID]bool // like the log of a blocked key
	ids      []timestamplog.LogID
	has      map[timestamplog.LogID]bool
}

func newBounded(t *testing.T, maxBytes int64, policies ...*rules.Policy) *bounded {
	b := &bounded{t: t, clock: logtest.NewClock(), policies: policies, kept: map[timestamplog.LogID]bool{}, has: map[timestamplog.LogID]bool{}}
	b.log = memlog.New(memlog.Options{Now: b.clock.Now, MaxBytes: maxBytes, Describe: func(id timestamplog.LogID) ([]*rules.Policy, bool) {
		p, isKept := b.describe(id)
		return []*rules.Policy{p}, isKept
	}})
	b.oracle = memlog.New(memlog.Options{Now: b.clock.Now})
	return b
}

func (b *bounded) describe(id timestamplog.LogID) (*rules.Policy, bool) {
	for _, p := range b.policies {
		if p.ID == id.Policy {
			return p, b.kept[id]
		}
	}
	return nil, b.kept[id]
}

// alwaysDescribe describes every log as one that p reads.
func alwaysDescribe(p *rules.Policy) func(timestamplog.LogID) ([]*rules.Policy, bool) {
	return func(timestamplog.LogID) ([]*rules.Policy, bool) { return []*rules.Policy{p}, false }
}

func (b *bounded) know(p *rules.Policy, key string) {
	b.ids = append(b.ids, timestamplog.LogIDOf(p, key))
}

// isRefused reports whether a key would be refused now, according to the oracle.
func (b *bounded) isRefused(id timestamplog.LogID) bool {
	p, _ := b.describe(id)
	q := timestamplog.RequestOf(p, id.Key, 1)
	q.Peek = true
	results := make([]timestamplog.Result, 1)
	b.oracle.Decide(b.t.Context(), []timestamplog.Request{q}, results)
	return !results[0].Allowed
}

// ask asks both logs. Their answers must be the same.
func (b *bounded) ask(q timestamplog.Request) timestamplog.Result {
	b.t.Helper()
	got, want := make([]timestamplog.Result, 1), make([]timestamplog.Result, 1)
	wasRefused := b.has[q.LogID] && b.isRefused(q.LogID)
	forgotten := b.forgets(&q.LogID, func() { b.log.Decide(b.t.Context(), []timestamplog.Request{q}, got) })
	if forgotten > 0 { // this key's log, which then starts from zero
		b.forget(q.LogID, wasRefused)
	}
	b.oracle.Decide(b.t.Context(), []timestamplog.Request{q}, want)
	if got[0].Allowed != want[0].Allowed || got[0].RetryAt != want[0].RetryAt {
		b.t.Fatalf("%v is answered %+v, want %+v", q.LogID, got[0], want[0])
	}
	if !b.has[q.LogID] && got[0].Allowed && !q.Peek { // not logged because there was no room
		b.forget(q.LogID, false)
	}
	return got[0]
}

// sweep sweeps the bounded log.
func (b *bounded) sweep() {
	b.t.Helper()
	b.forgets(nil, b.log.Sweep)
}

// forgets calls do, and resets in the oracle all logs that do made the bounded log forget, except
// the log of asked. It returns how many further logs were forgotten.
func (b *bounded) forgets(asked *timestamplog.LogID, do func()) (more int64) {
	b.t.Helper()
	refused := map[timestamplog.LogID]bool{}
	for _, id := range b.ids {
		refused[id] = b.has[id] && b.isRefused(id)
	}
	before := b.log.Memory().Forgotten
	do()
	more = b.log.Memory().Forgotten - before
	for _, id := range b.ids {
		has := b.log.Has(id)
		if b.has[id] && !has && (asked == nil || id != *asked) && b.oracle.Has(id) {
			b.forget(id, refused[id])
			more--
		}
		b.has[id] = has
	}
	return more
}

func (b *bounded) forget(id timestamplog.LogID, wasRefused bool) {
	b.t.Helper()
	if wasRefused || b.kept[id] && b.has[id] {
		b.t.Fatalf("%v was dropped: refused %v, to be kept %v", id, wasRefused, b.kept[id])
	}
	if _, err := b.oracle.Reset(b.t.Context(), id); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bounded) mustBeAccounted() {
	b.t.Helper()
	counted, kept := b.log.Accounted()
	if counted != kept {
		b.t.Fatalf("the logs take %d bytes, and are accounted for with %d", counted, kept)
	}
}

func TestBoundedLogIsExactForTheKeysThatItKeeps(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	stacks := [][]string{{"2/m"}, {"1/s", "20/m"}, {"3/10s", "8/5m"}}
	for _, algorithm := range algorithms.All() {
		t.Run(algorithm.Name, func(t *testing.T) {
			policies := make([]*rules.Policy, len(stacks))
			for i, stack := range stacks {
				policies[i] = policyOf(t, int64(i+1), stack...)
				policies[i].Algorithm = algorithm.Name
			}
			b := newBounded(t, 8_000, policies...)
			for i := range 90 {
				b.know(policies[i%len(policies)], fmt.Sprint("token:", i))
				b.kept[b.ids[i]] = i%17 == 0
			}
			for step := range 2500 {
				id := b.ids[random.IntN(len(b.ids))]
				p, _ := b.describe(id)
				q := timestamplog.RequestOf(p, id.Key, 1)
				q.Peek = random.IntN(8) == 0
				b.ask(q)
				if random.IntN(3) == 0 {
					b.clock.Advance(time.Duration(random.IntN(2500)) * time.Millisecond)
				}
				if random.IntN(400) == 0 {
					b.sweep()
				}
				if step%50 == 0 {
					b.mustBeAccounted()
				}
			}
			if stats := b.log.Memory(); stats.Forgotten == 0 || stats.Used > stats.Max*5/4 {
				t.Errorf("Memory() = %+v", stats)
			}
		})
	}
}

// A caller who reserves and cancels again and again must not fill the bound with bytes that no
// log takes.
func TestMemoryOfCancelledReservationsIsCounted(t *testing.T) {
	for _, algorithm := range algorithms.All() {
		t.Run(algorithm.Name, func(t *testing.T) {
			p := policyOf(t, 1, "1/s", "20/m")
			p.Algorithm = algorithm.Name
			b := newBounded(t, 0, p)
			for i := range 40 {
				q := timestamplog.RequestOf(p, fmt.Sprint("token:", i%4), 1)
				q.ID, q.MaxWait = fmt.Sprint("id", i), timestamplog.MaxWait
				results := make([]timestamplog.Result, 1)
				b.log.Decide(t.Context(), []timestamplog.Request{q}, results)
				if _, err := b.log.Cancel(t.Context(), timestamplog.Reservation{LogID: q.LogID, At: results[0].ReservedAt, Cost: 1, ID: q.ID}); err != nil {
					t.Fatal(err)
				}
				b.mustBeAccounted()
			}
		})
	}
}

// An attacker's keys, each with one request, neither grow the log nor end the refusal of a refused
// key. Later keys are still answered and counted.
func TestFloodOfKeysStaysWithinTheBound(t *testing.T) {
	p := policyOf(t, 1, "1/s", "5/h")
	clock := logtest.NewClock()
	log := memlog.New(memlog.Options{Now: clock.Now, MaxBytes: 4 << 20, Describe: func(id timestamplog.LogID) ([]*rules.Policy, bool) {
		return []*rules.Policy{p}, id.Key == "blocked"
	}})
	for range 5 {
		ask(t, log, p, "refused", 1)
		ask(t, log, p, "blocked", 1)
		clock.Advance(2 * time.Second)
	}
	idle := ask(t, log, p, "idle", 1)
	before := heap()
	for i := range 400_000 {
		if !ask(t, log, p, fmt.Sprint("ip:flood", i), 1).Allowed {
			t.Fatalf("the first request of key %d is refused", i)
		}
		if i%20 == 0 {
			clock.Advance(time.Millisecond)
		}
	}
	stats := log.Memory()
	if stats.Used > stats.Max+100_000 || stats.Forgotten < 300_000 {
		t.Errorf("Memory() = %+v", stats)
	}
	if grown := heap() - before; grown > 2*stats.Max {
		t.Errorf("the heap grew by %d bytes under a bound of %d", grown, stats.Max)
	}
	if ask(t, log, p, "refused", 1).Allowed || len(timesOf(t, log, p, "blocked")) != 5 {
		t.Error("a refused or a blocked key was forgotten")
	}
	if !idle.Allowed || len(timesOf(t, log, p, "idle")) != 0 {
		t.Error("the key that was idle longest still has its log")
	}
	if r := ask(t, log, p, "ip:flood399999", 1); r.Allowed {
		t.Error("the request of the last new key was not counted")
	}
}

// If every log belongs to a refused key, none is forgotten: requests of new keys are answered and
// not logged until the windows end.
func TestRefusedKeysSurviveAFloodOfRefusedKeys(t *testing.T) {
	p := policyOf(t, 1, "1/h")
	clock := logtest.NewClock()
	log := memlog.New(memlog.Options{Now: clock.Now, MaxBytes: 1 << 20, Describe: alwaysDescribe(p)})
	for i := range 20_000 {
		if !ask(t, log, p, fmt.Sprint("token:", i), 1).Allowed {
			t.Fatalf("the first request of key %d is refused", i)
		}
	}
	stats := log.Memory()
	if stats.Forgotten != 0 || stats.Unkept == 0 || stats.Used > stats.Max+1000 {
		t.Errorf("Memory() = %+v", stats)
	}
	for i := range 20_000 - int(stats.Unkept) {
		if ask(t, log, p, fmt.Sprint("token:", i), 1).Allowed {
			t.Fatalf("token:%d was forgotten while it was refused", i)
		}
	}
	clock.Advance(time.Hour)
	for range 2 {
		if r := ask(t, log, p, "later", 1); !r.Allowed {
			break
		}
	}
	if ask(t, log, p, "later", 1).Allowed {
		t.Error("a new key is not counted although there is room again")
	}
}

// The ID of a request that was not counted for lack of room is not stored, so that a retry counts
// once there is room.
func TestIDOfAnUncountedRequestIsNotStored(t *testing.T) {
	for _, algorithm := range algorithms.All() {
		t.Run(algorithm.Name, func(t *testing.T) {
			p := policyOf(t, 1, "1/h")
			p.Algorithm = algorithm.Name
			clock := logtest.NewClock()
			log := memlog.New(memlog.Options{Now: clock.Now, MaxBytes: 1, Describe: func(timestamplog.LogID) ([]*rules.Policy, bool) { return nil, true }})
			ask(t, log, p, "first", 1)
			q := timestamplog.RequestOf(p, "later", 1)
			q.ID = "id"
			results := make([]timestamplog.Result, 1)
			for range 2 {
				log.Decide(t.Context(), []timestamplog.Request{q}, results)
				if r := results[0]; !r.Allowed || r.Replayed || log.KnownIDs() != 0 {
					t.Fatalf("%+v, and %d IDs are known", r, log.KnownIDs())
				}
			}
			if unkept := log.Memory().Unkept; unkept != 2 {
				t.Errorf("%d requests were not counted", unkept)
			}
		})
	}
}

func TestIDsOfAFloodAreBounded(t *testing.T) {
	p := policyOf(t, 1, "100/s")
	clock := logtest.NewClock()
	log := memlog.New(memlog.Options{Now: clock.Now, MaxBytes: 2 << 20, Describe: alwaysDescribe(p)})
	requests, results := make([]timestamplog.Request, 1), make([]timestamplog.Result, 1)
	for i := range 50_000 {
		requests[0] = timestamplog.RequestOf(p, fmt.Sprint("token:", i), 1)
		requests[0].ID = fmt.Sprint("id", i)
		log.Decide(t.Context(), requests, results)
	}
	if n, stats := log.KnownIDs(), log.Memory(); n > 4000 || n < 100 || stats.Used > stats.Max+10_000 {
		t.Errorf("%d IDs are known, %+v", n, stats)
	}
}

// An attacker who chooses the values that a rule counts fills at most the memory of its limit,
// even if each request of a key has a new value.
func TestTenThousandValuesUseTheMemoryOfTheLimit(t *testing.T) {
	const keys, values, limit = 100, 10_000, 15
	clock := logtest.NewClock()
	p := policyOf(t, 1, "15/1d distinct path")
	log := memlog.New(memlog.Options{Now: clock.Now})
	defer log.Close()
	requests, results := make([]timestamplog.Request, keys), make([]timestamplog.Result, keys)
	for i := range requests {
		requests[i] = timestamplog.RequestOf(p, fmt.Sprint("ip:192.0.2.", i), 1)
	}
	ask := func(from, to int) {
		for value := from; value < to; value++ {
			for i := range requests {
				requests[i].Value = uint64(1 + value*keys + i)
			}
			log.Decide(t.Context(), requests, results)
		}
	}
	ask(0, limit)
	full := heap()
	ask(limit, values)
	for i, r := range results {
		if r.Err != nil || r.Allowed {
			t.Fatalf("key %d: value %d is allowed: %v, %v", i, values, r.Allowed, r.Err)
		}
	}
	// A leak of one byte for every ten values would show.
	if more := heap() - full; more > keys*values/10 {
		t.Errorf("%d keys with %d values each take %d bytes more than with %d", keys, values, more, limit)
	}
	runtime.KeepAlive(log)
}
