package recorder

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
	kept := 0
	for i := range r.shards {
		kept += r.shards[i].requests.once.requests + r.shards[i].requests.more.requests
		for _, k := range r.shards[i].requests.keys {
			kept -= len(k.all)
		}
		if n := r.shards[i].requests.once.requests + r.shards[i].requests.more.requests; n > 256 {
			t.Errorf("a shard keeps %d requests, want at most 256", n)
		}
	}
	if kept != 0 {
		t.Errorf("%d requests are counted that no key has", kept)
	}
	r.drain(newPendingBatch(1<<30), noon.Add(2*time.Minute+offences.KeyRequestAge+time.Millisecond).UnixMilli())
	for i := range r.shards {
		if n := len(r.shards[i].requests.keys); n != 0 {
			t.Errorf("%d keys are kept after an hour", n)
		}
	}
}

func TestReportsAreAmongTheRequestsOfAKey(t *testing.T) {
	r := testRecorder(Options{OmitPaths: true, OmitAgents: true})
	k := key(t, "ip:203.0.113.7")
	report := gate.Reported{At: noon, Report: gate.Report{Key: k, Outcome: "not_found", Request: conditions.NewRequest("/wp-login.php", "GET", "bot", "")}}
	r.RecordReport(&report) // no policy counts it
	report.Policies = []gate.PolicyReport{{Policy: policy, Item: &rules.Evidence{Outcome: "not_found", Points: 5}, Result: gate.Full, Answer: gate.Answer{Rule: 0}}}
	r.RecordReport(&report)
	all := r.KeyRequests(k.String(), noon)
	if len(all) != 1 || all[0].Reported != "not_found" || all[0].Outcome != "limited" || all[0].Rule != "1/1s" || all[0].Evidence[0] != "not found" {
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
