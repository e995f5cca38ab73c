package recorder

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

func TestTheLastRequestsOfAKeyAreKeptAndBounded(t *testing.T) {
	r := testRecorder(Options{KeyRequests: 256 * shardCount})
	for i := range 120 {
		d := allowed(key(t, "ip:203.0.113.7"), noon.Add(time.Duration(i)*time.Second))
		d.Check.Request = conditions.NewRequest(fmt.Sprintf("/page/%d?token=secret", i), "POST", "Curl/8\x1b[2J", "shop.example")
		if i == 119 {
			d.Outcome, d.Rule = gate.Limited, 1
			d.Evidence = []*rules.Evidence{{Outcome: "not_found", Points: 5}}
			d.Check.Pass = key(t, "pass:00112233445566778899aabbccddeeff")
		}
		r.Record(d)
	}
	for i := range 5_000 { // a flood of keys that come once
		r.Record(allowed(key(t, fmt.Sprint("token:", i)), noon.Add(2*time.Minute)))
	}
	all := r.KeyRequests("ip:203.0.113.7", noon)
	if len(all) != offences.MaxKeyRequests {
		t.Fatalf("%d requests are kept, want %d", len(all), offences.MaxKeyRequests)
	}
	q := all[0]
	if q.Pass != "pass:00112233445566778899aabbccddeeff" || all[1].Pass != "" {
		t.Errorf("the passes are %q and %q", q.Pass, all[1].Pass)
	}
	if q.Method != "post" || q.Path != "/page/119" || !strings.HasPrefix(q.Agent, "curl/8") || q.Outcome != "limited" || q.Policy != "default" || q.Rule != "20/1m" ||
		len(q.Evidence) != 1 || q.Evidence[0] != "not found" {
		t.Errorf("the newest is %+v", q)
	}
	for i, q := range all {
		if want := fmt.Sprintf("/page/%d", 119-i); q.Path != want || !q.At.Equal(noon.Add(time.Duration(119-i)*time.Second)) {
			t.Fatalf("request %d is %s at %s, want %s", i, q.Path, q.At, want)
		}
	}
	if recent := r.KeyRequests("ip:203.0.113.7", noon.Add(100*time.Second)); len(recent) != 20 {
		t.Errorf("%d of the last 20 s, want 20", len(recent))
	}
	for i := range r.shards {
		if q := &r.shards[i].requests; len(q.all) > 256 || q.once.requests+q.more.requests+len(q.unused) != len(q.all) {
			t.Errorf("a shard has %d places, want at most 256, of them %d and %d used, %d unused", len(q.all), q.once.requests, q.more.requests, len(q.unused))
		}
	}
	r.drain(newPendingBatch(1<<30), noon.Add(2*time.Minute+offences.KeyRequestAge+time.Millisecond).UnixMilli())
	for i := range r.shards {
		if n := len(r.shards[i].requests.keys); n != 0 {
			t.Errorf("%d keys are kept after an hour", n)
		}
	}
}

// TestRequestsFromBeforeABlockAreKept finds the last requests from before a block after any number of
// requests that it refused, in order, and after a second block those from before that.
func TestRequestsFromBeforeABlockAreKept(t *testing.T) {
	const name = "ip:203.0.113.7"
	r := testRecorder(Options{KeyRequests: 256 * shardCount})
	at := noon
	ask := func(times int, path string, by *blocks.Entry) {
		for i := range times {
			d := allowed(key(t, name), at)
			at = at.Add(time.Millisecond)
			d.Check.Request = conditions.NewRequest(fmt.Sprint(path, i), "GET", "curl/8", "")
			if by != nil {
				d.Outcome, d.Block = gate.Blocked, by
			}
			r.Record(d)
		}
	}
	paths := func() (all []string) {
		for i, q := range r.KeyRequests(name, noon) {
			all = append(all, q.Path)
			if i > 0 && !q.At.Before(r.KeyRequests(name, noon)[i-1].At) {
				t.Fatalf("request %d is not older than the one before it", i)
			}
		}
		return all
	}
	first, second := &blocks.Entry{Kind: blocks.Block, ID: "b1"}, &blocks.Entry{Kind: blocks.Block, ID: "b2"}
	want := func(newest string, before ...string) {
		t.Helper()
		got := paths()
		if len(got) != offences.MaxKeyRequests || got[0] != newest || !slices.Equal(got[len(got)-len(before):], before) {
			t.Fatalf("the requests are %q, want %s first and %q last", got, newest, before)
		}
	}
	ask(3, "/old/", nil)
	ask(70, "/blocked/", first)
	want("/blocked/69", "/blocked/24", "/blocked/23", "/old/2", "/old/1", "/old/0")
	ask(70, "/replaced/", second) // while the key was blocked
	want("/replaced/69", "/replaced/24", "/replaced/23", "/old/2", "/old/1", "/old/0")
	ask(75, "/new/", nil)
	for i := range 40 { // a log names the refused requests too
		ask(1, fmt.Sprint("/again/", i, "/"), first)
		ask(1, fmt.Sprint("/reported/", i, "/"), nil)
	}
	var before []string
	for i := range offences.KeptBeforeBlock {
		before = append(before, fmt.Sprint("/new/", 74-i))
	}
	want("/reported/39/0", before...)
}

func TestReportsAreAmongTheRequestsOfAKey(t *testing.T) {
	r := testRecorder(Options{OmitPaths: true, OmitAgents: true})
	k := key(t, "ip:203.0.113.7")
	report := gate.Reported{At: noon, Report: gate.Report{Key: k, Outcome: "not_found", Request: conditions.NewRequest("/wp-login.php", "GET", "bot", "")}}
	r.RecordReport(&report) // no policy counts it
	item := rules.Evidence{Outcome: "not_found", Points: 5}
	ofNetwork := item
	report.Policies = []gate.PolicyReport{{Policy: policy, Item: &item, Result: gate.Full, Answer: gate.Answer{Rule: 0}}, {Policy: policy, Item: &ofNetwork, Result: gate.Charged}}
	r.RecordReport(&report)
	all := r.KeyRequests(k.String(), noon)
	if len(all) != 1 || all[0].Reported != "not_found" || all[0].Outcome != "limited" || all[0].Rule != "1/1s" || fmt.Sprint(all[0].Evidence) != "[not found]" {
		t.Fatalf("the requests are %+v", all)
	}
	if all[0].Path != "" || all[0].Agent != "" || all[0].Method != "get" {
		t.Errorf("the path or the agent is kept: %+v", all[0])
	}
}

func TestRefusalsSayWhatWasRequested(t *testing.T) {
	for omitted, options := range map[string]Options{"": {}, "path": {OmitPaths: true}, "agent": {OmitAgents: true}} {
		r := testRecorder(options)
		blocked := limited(key(t, "ip:203.0.113.7"), noon, 1)
		blocked.Check.Request = conditions.NewRequest("/login?password=secret", "POST", "curl/8", "")
		blocked.Check.Meta = map[string]string{"agent": "as the caller says", "path": "/by-the-caller"}
		r.Record(blocked)
		other := limited(key(t, "ip:203.0.113.8"), noon, 1)
		other.Check.Request = blocked.Check.Request
		r.Record(other)
		got := map[string]map[string]string{}
		for _, o := range drained(r).Offences {
			got[o.Key] = o.First.Meta
		}
		want := map[string]map[string]string{
			"ip:203.0.113.7": {"agent": "as the caller says", "method": "post", "path": "/by-the-caller"},
			"ip:203.0.113.8": {"agent": "curl/8", "method": "post", "path": "/login"},
		}
		for _, meta := range want {
			delete(meta, omitted)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("omitting %q: got %v, want %v", omitted, got, want)
		}
	}
}

// The requests of keys that come at random are compared with a list of all of them.
func TestKeptRequestsAreTheLastOfEachKey(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var full int
	q, last := keyRequests{max: 3 * offences.MaxKeyRequests}, map[uint64][]int64{}
	d := allowed(key(t, "ip:203.0.113.7"), noon)
	for n := range int64(200_000) {
		hash := uint64(random.IntN(4))
		if random.IntN(3) > 0 {
			hash = random.Uint64N(1 << random.IntN(16))
		}
		d.At = time.UnixMilli(n)
		q.add(hash, "k", d, nil)
		if random.IntN(5_000) == 0 {
			q.forgetBefore(n - random.Int64N(2_000))
		}
		last[hash] = append(last[hash], n)
		used := 0
		if n%50 != 0 {
			continue
		}
		for h, k := range q.keys {
			used += k.count
			full = max(full, k.count)
			all, want := q.of(h, 0), last[h]
			if len(all) != k.count || k.count > offences.MaxKeyRequests {
				t.Fatalf("%d requests of a key that has %d", len(all), k.count)
			}
			for i, request := range all {
				if request.At.UnixMilli() != want[len(want)-1-i] {
					t.Fatalf("the request %d of %d is of %d, want of %d", i, len(all), request.At.UnixMilli(), want[len(want)-1-i])
				}
			}
		}
		if used != q.once.requests+q.more.requests || used+len(q.unused) != len(q.all) || len(q.all) > q.max {
			t.Fatalf("%d places, %d used, %d in lists, %d unused", len(q.all), used, q.once.requests+q.more.requests, len(q.unused))
		}
	}
	if full != offences.MaxKeyRequests || len(q.keys) < 5 {
		t.Errorf("%d keys are kept, at most %d requests of one", len(q.keys), full)
	}
}
