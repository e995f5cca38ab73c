package recorder

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/gate"
)

// requestedIn returns what was requested according to all chunks, as a database would add it up.
func requestedIn(t *testing.T, chunks []breakdown.Chunk) *breakdown.Table {
	t.Helper()
	sum := &breakdown.Table{}
	for _, c := range chunks {
		part, err := breakdown.Decode(c.Data)
		if err != nil {
			t.Fatal(err)
		}
		sum.Merge(part)
		sum.Trim(breakdown.MinuteLimits)
	}
	return sum
}

func groupsBy(t *testing.T, table *breakdown.Table, name string, is ...string) (*breakdown.Result, map[string]breakdown.Counts) {
	t.Helper()
	i, known := breakdown.Find(name)
	filters, err := breakdown.ParseFilters(strings.Join(is, ","), "")
	if err != nil || !known {
		t.Fatal(name, err)
	}
	q := breakdown.Query{By: []int{i}, Filters: filters}
	q.Add(time.Time{}, table)
	r, by := q.Result(1<<20), map[string]breakdown.Counts{}
	for _, g := range r.Breakdowns[0].Groups {
		by[g.Value] = g.Counts
	}
	return r, by
}

func TestRequestsAreCountedByDimensionAndDecision(t *testing.T) {
	r := testRecorder(Options{})
	of := func(d *gate.Decision, path, agent string) {
		d.Check.Request = conditions.NewRequest(path, "GET", agent, "www.example.com:443")
		if agent == "GPTBot/1.0" { // as the gate finds
			d.Check.Request = d.Check.Request.With(conditions.Found{Bot: "openai/gptbot", Category: "ai-training", Verified: conditions.Claimed})
		}
		r.Record(d)
	}
	k := key(t, "ip:203.0.113.7")
	of(allowed(k, noon), "/users/1?token=secret", "curl/8.0")
	of(allowed(k, noon.Add(time.Second)), "/users/22", "curl/8.1")
	of(limited(k, noon.Add(2*time.Second), 0), "/users/333", "GPTBot/1.0")
	blocked := limited(key(t, "ip:203.0.113.8"), noon, -1)
	blocked.Outcome, blocked.Block = gate.Blocked, &blocks.Entry{Kind: blocks.Block, ID: "b1"}
	of(blocked, "/login", "GPTBot/1.0")
	r.RecordReport(&gate.Reported{At: noon, Report: gate.Report{Key: k, Outcome: "login_failed", Request: conditions.NewRequest("/login", "POST", "curl/8.0", "")}})

	b := drained(r)
	if len(b.Breakdowns) != 1 || strings.Contains(string(b.Breakdowns[0].Data), "secret") {
		t.Fatalf("got %v", b.Breakdowns)
	}
	table := requestedIn(t, b.Breakdowns)
	for name, want := range map[string]map[string]breakdown.Counts{
		"path":     {"/users/{id}": {Allowed: 2, Limited: 1}, "/login": {Blocked: 1, Reported: 1}},
		"agent":    {"curl": {Allowed: 2, Reported: 1}, "gptbot": {Limited: 1, Blocked: 1}},
		"host":     {"www.example.com": {Allowed: 2, Limited: 1, Blocked: 1}, "": {Reported: 1}},
		"bot":      {"": {Allowed: 2, Reported: 1}, "openai/gptbot": {Limited: 1, Blocked: 1}},
		"verified": {"": {Allowed: 2, Reported: 1}, "claimed": {Limited: 1, Blocked: 1}},
		"method":   {"GET": {Allowed: 2, Limited: 1, Blocked: 1}, "POST": {Reported: 1}},
		"outcome":  {"": {Allowed: 2, Limited: 1, Blocked: 1}, "login_failed": {Reported: 1}},
		"rule":     {"": {Allowed: 2, Reported: 1}, policy.Rules[0].String(): {Limited: 1}, breakdown.BlockRefused: {Blocked: 1}},
	} {
		if _, got := groupsBy(t, table, name); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("by %s got %v, want %v", name, got, want)
		}
	}
	got, _ := groupsBy(t, table, "path", "agent=gptbot")
	if len(got.Offenders) != 2 || len(got.Clients) != 0 || got.OffendersMissing != 0 {
		t.Errorf("got the offenders %+v and the clients %+v", got.Offenders, got.Clients)
	}
}

func TestPathsAndAgentsCanBeOmitted(t *testing.T) {
	r := testRecorder(Options{OmitPaths: true, OmitAgents: true})
	d := allowed(key(t, "ip:203.0.113.7"), noon)
	d.Check.Request = conditions.NewRequest("/secret", "GET", "secretive/1.0", "www.example.com").With(conditions.Found{Bot: "secret/bot", Category: "secrets", Verified: "secretly"})
	r.Record(d)
	b := drained(r)
	if strings.Contains(string(b.Breakdowns[0].Data), "secret") {
		t.Errorf("got %q", b.Breakdowns[0].Data)
	}
	if _, got := groupsBy(t, requestedIn(t, b.Breakdowns), "host"); got["www.example.com"].Allowed != 1 {
		t.Errorf("got %v", got)
	}
}

// A million requests have different paths, agents and hosts. What regular clients request is still
// found, each dimension has every request, and the memory is bounded.
func TestFloodOfPathsNeitherGrowsNorBlinds(t *testing.T) {
	n := testFlood(t)
	r := testRecorder(Options{})
	attacker, regular := key(t, "ip:203.0.113.7"), key(t, "ip:192.0.2.1")
	g := newPendingBatch(1 << 30)
	flooding, quiet := limited(attacker, noon, 0), allowed(regular, noon)
	quiet.Check.Request = conditions.NewRequest("/prices", "GET", "firefox/1", "www.example.com")
	r.Record(quiet)
	before := heap()
	var chunks []breakdown.Chunk
	for i := range n {
		tail := strings.Repeat(string(rune('a'+i%26)), i%7)
		flooding.Check.Request = conditions.NewRequest(fmt.Sprintf("/w%xq/%s/zz%ox", i, tail, i), "GET", fmt.Sprintf("agent%xz/1", i), fmt.Sprintf("h%xz.example.com", i))
		r.Record(flooding)
		if i%100 == 0 { // one in a hundred is of a regular client
			r.Record(quiet)
		}
		if i%(n/60) == 0 {
			r.requested.drain(g, 0)
			for minute, data := range g.requested {
				chunks = append(chunks, breakdown.Chunk{Minute: minute, Data: data})
			}
			g = newPendingBatch(1 << 30)
		}
	}
	grown := heap() - before
	r.requested.drain(g, 1<<62)
	for minute, data := range g.requested {
		chunks = append(chunks, breakdown.Chunk{Minute: minute, Data: data})
	}
	table := requestedIn(t, chunks)
	if size := len(table.Encode()); size > 300<<10 {
		t.Errorf("the minute has %d bytes", size)
	}
	if grown > 40<<20 { // with all other counts of the recorder
		t.Errorf("the memory has grown by %d bytes", grown)
	}
	regularly := int64(1 + (n+99)/100)
	for name, value := range map[string]string{"path": "/prices", "agent": "firefox", "host": "www.example.com"} {
		got, by := groupsBy(t, table, name)
		if c := by[value]; c.Allowed > regularly || c.Allowed < regularly*9/10 || c.Allowed+got.Breakdowns[0].Overcount < regularly {
			t.Errorf("%s %s has %d requests, at most %d more; want %d", name, value, c.Allowed, got.Breakdowns[0].Overcount, regularly)
		}
		if got.Total.Checks() != int64(n)+regularly || got.Breakdowns[0].Unnamed.Sum() == 0 {
			t.Errorf("by %s there are %d requests, want %d", name, got.Total.Checks(), int64(n)+regularly)
		}
	}
	got, by := groupsBy(t, table, "path", "host=www.example.com")
	if c := by["/prices"]; c.Allowed == 0 || c.Allowed+got.Breakdowns[0].Overcount < regularly || got.Clients[0].Key != "ip:192.0.2.1" {
		t.Errorf("of the host the path has %+v, and the clients are %v", c, got.Clients)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryOfBreakdownsIsBounded counts combinations whose values are all as long as possible, of
// clients with long keys, in as many minutes as are open at a time.
func TestMemoryOfBreakdownsIsBounded(t *testing.T) {
	measure := func(length int) int64 {
		b := newBreakdowns(nil)
		before := heap()
		for minute := range 2 {
			for i := range 4 * 2 * maxCombinations {
				long := fmt.Sprintf("%d-%d-", minute, i) + strings.Repeat("x", length)
				seen := breakdown.Seen{Request: conditions.NewRequest("/"+strings.Repeat(long[:min(len(long), 60)]+"/", 1+length/60), long[:min(len(long), 30)], long[:min(len(long), 38)], long), Outcome: long}
				key := fmt.Sprintf("token:%0*d", 20+length/2, i)
				for outcome := range 2 * breakdown.MaxClients {
					b.add(noon.Add(time.Duration(minute)*time.Minute).UnixMilli(), uint64(i), key+fmt.Sprint(outcome), seen, []gate.Outcome{gate.Allowed, gate.Limited}[outcome%2])
				}
			}
		}
		grown := heap() - before
		if b.shards[0].minutes == nil { // b lives until here
			t.Fatal("nothing is counted")
		}
		return grown
	}
	for length, most := range map[int]int64{10: 12 << 20, 250: 32 << 20} { // as the comment of breakdowns says
		if grown := measure(length); grown > most || grown < most/4 {
			t.Errorf("values of %d bytes take %d bytes, want at most %d", length, grown, most)
		}
	}
}

// TestLargeBreakdownsAreWrittenSeldom drains a minute with many combinations every second: most drains
// leave them, the last one has them all.
func TestLargeBreakdownsAreWrittenSeldom(t *testing.T) {
	r := testRecorder(Options{})
	var chunks []breakdown.Chunk
	const each = 300
	for second := range 60 {
		for i := range each {
			d := allowed(key(t, fmt.Sprintf("ip:203.0.113.%d", i%250)), noon.Add(time.Duration(second)*time.Second))
			d.Check.Request = conditions.NewRequest(fmt.Sprintf("/%c/%c", 'a'+i%26, 'a'+i/26), "GET", "", "")
			r.Record(d)
		}
		g := newPendingBatch(1 << 30)
		r.drain(g, 0)
		for minute, data := range g.requested {
			chunks = append(chunks, breakdown.Chunk{Minute: minute, Data: data})
		}
	}
	if len(chunks) < 3 || len(chunks) > 20 {
		t.Errorf("the minute was written %d times", len(chunks))
	}
	g := newPendingBatch(1 << 30)
	r.drain(g, 1<<62)
	for minute, data := range g.requested {
		chunks = append(chunks, breakdown.Chunk{Minute: minute, Data: data})
	}
	got, _ := groupsBy(t, requestedIn(t, chunks), "path")
	if got.Total.Allowed != 60*each {
		t.Errorf("got %d requests, want %d", got.Total.Allowed, 60*each)
	}
}

// TestBreakdownsWaitInBounds keeps counting while the database takes nothing.
func TestBreakdownsWaitInBounds(t *testing.T) {
	r := testRecorder(Options{})
	g := newPendingBatch(1 << 30)
	for i := range maxBreakdowns + 10 {
		r.Record(allowed(key(t, "ip:203.0.113.7"), noon.Add(time.Duration(i)*time.Minute)))
		r.drain(g, noon.Add(time.Duration(i+1)*time.Minute).UnixMilli())
	}
	if len(g.requested) != maxBreakdowns || g.lost != 10 {
		t.Errorf("%d minutes wait, %d were lost", len(g.requested), g.lost)
	}
	for i := range r.requested.shards {
		if minutes := len(r.requested.shards[i].minutes); minutes != 0 {
			t.Errorf("%d minutes are still counted", minutes)
		}
	}
}
