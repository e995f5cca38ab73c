package checkjson

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/wire"
)

// start is when every decision of these tests is made.
var start = time.Date(2026, 1, 1, 12, 34, 31, 0, time.UTC)

func FuzzDecodeCheck(f *testing.F) {
	for _, seed := range []string{
		`{"key":"ip:203.0.113.7"}`,
		`{"key":"ip:203.0.113.7","policy":"default","cost":1,"peek":false,"detail":"rules","source":"edge-1","meta":{"path":"/search"}}`,
		`{"key":"a","values":{"account":"alice"}}`, `{"key":"a","values":{}}`, `{"key":"a","values":{"account":1}}`, `{"key":"a","values":{"account":"\u0061"}}`,
		` { "key" : "a" , "cost" : 1000 , "peek" : true } `, `{"cost":1,"key":""}`, `{"key":"a","cost":1e3}`, `{"key":"a","cost":1.0}`,
		`{"key":"a","key":"b"}`, `{"key":"\u0061"}`, "{\"key\":\"\xff\"}", `{"key":"a","meta":{}}`, `{"key":"a","meta":{"p":"1","p":"2"}}`,
		`{"key":"a","max_wait":"5s","idempotency_key":"a b~"}`, `{"key":"a","max_wait":"1h1ms"}`, `{"key":"a","max_wait":"0s"}`, `{"key":"a","max_wait":""}`,
		`{"key":"a","idempotency_key":""}`, `{"key":"a","idempotency_key":"0123456789012345678901234567890123456789012345678901234567890123x"}`,
		`{"keys":["a",{"key":"b","policy":"p","cost":2}],"peek":true}`, `{"keys":[]}`, `{"keys":null}`, `{"keys":["a"],"key":"b"}`, `{"keys":[{}]}`, `{"keys":[["a"]]}`,
		`{"key":"a","cost":0}`, `{"key":"a","cost":-0}`, `{"key":"a","cost":01}`, `{"key":"a",}`, `{}`, `null`, `{"key":"a"}x`, `{"key":"ä"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		want, wantErr := decodeStrict(body)
		got, err := Decode(body)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: the fast path returned %v, the strict path %v", body, err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: the fast path read %+v, the strict path %+v", body, got, want)
		}
	})
}

func FuzzDecodeBatch(f *testing.F) {
	for _, seed := range []string{
		`{"checks":[{"key":"a"},{"key":"b","cost":2}]}`, `{"checks":[]}`, `{"checks":[{"key":"a"},5]}`, `{"checks":[{"key":"a"}],"checks":[]}`,
		`{"checks":[{"key":"a"},]}`, ` { "checks" : [ { "key" : "a" } , { "key":"ä" } ] } `, `{"checks":[{"key":"a"}]}}`, `{"checks":[null]}`,
		`{"checks":[{"keys":["a"]},{"key":"b","max_wait":"5s"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		want, wantProblems, wantErr := decodeBatchStrict(body, nil, nil)
		got, problems, err := DecodeBatch(body, nil, nil)
		if (err == nil) != (wantErr == nil) || err == nil && len(got) != len(want) {
			t.Fatalf("%q: the fast path returned %v, the strict path %v", body, err, wantErr)
		}
		for i := range got {
			if err == nil && (!reflect.DeepEqual(got[i], want[i]) || (problems[i] == nil) != (wantProblems[i] == nil)) {
				t.Fatalf("%q, item %d: the fast path read %+v, %v; the strict path %+v, %v", body, i, got[i], problems[i], want[i], wantProblems[i])
			}
		}
	})
}

func TestFastReaderReadsUsualChecks(t *testing.T) {
	for _, body := range []string{
		`{"key":"ip:203.0.113.7"}`, ` {"key": "token:abc", "cost": 5, "peek": true}` + "\n",
		`{"key":"a","max_wait":"5s","idempotency_key":"0d4c-7 x"}`,
		`{"key":"a","policy":"default","cost":1000,"peek":false,"detail":"rules","source":"edge-1","meta":{"path":"/search","ua":"x"}}`,
	} {
		fast := fastReader{text: []byte(body)}
		if in := new(Check); !fast.check(in) || !fast.end() {
			t.Errorf("the fast path did not read %s", body)
		}
	}
}

var (
	encoder  Encoder
	selector = rules.NewSelector(nil)
)

// id and shadowID are ids of refusals.
var (
	id       = offences.NewRefusalIDMaker(nil).ID(1, "k", start)
	shadowID = offences.NewRefusalIDMaker(nil).ID(2, "k", start)
)

// decisions are one decision of each kind.
func decisions(t testing.TB) map[string]gate.Decision {
	t.Helper()
	parse := func(text string) keys.Key {
		k, err := keys.Parser{}.Key(text)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	pattern := func(text string) keys.Pattern {
		p, err := keys.Parser{}.Pattern(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	stack, err := rules.ParseStack([]string{"0/250ms", "1/s", "20/m"})
	if err != nil {
		t.Fatal(err)
	}
	now := start
	policy := &rules.Policy{Name: "default", Mode: rules.Enforce, Rules: stack}
	trial := &rules.Policy{Name: "trial", Mode: rules.Shadow, Rules: stack[1:]}
	block := &blocks.Entry{Kind: blocks.Block, ID: "b1", Pattern: pattern("ip:203.0.113.0/24"), Reason: "a \"quoted\" reason\\ with ünïcode <&>\u2028", Source: blocks.Manual, Expires: now.Add(time.Hour)}
	exemption := &blocks.Entry{Kind: blocks.Exemption, ID: "e1", Pattern: pattern("ip:203.0.113.7"), Reason: "why"}
	states := []timestamplog.RuleState{{RetryAfterMS: timestamplog.Never}, {Remaining: 1}, {Remaining: 0, RetryAfterMS: 4000, ResetAfterMS: 58_000}}
	quiet := gate.Answer{At: now, Rule: -1}
	check := gate.Check{Key: parse("ip:203.0.113.7"), Cost: 1}
	waiting := gate.Check{Key: check.Key, Cost: 1, MaxWait: time.Minute, ID: "x"}
	odd := gate.Check{Key: parse(`token:"\ä</script>` + "\u2029"), Cost: 1}
	return map[string]gate.Decision{
		"allowed without a policy":  {Check: odd, Outcome: gate.Allowed, Answer: quiet},
		"allowed with rules":        {Check: check, Outcome: gate.Allowed, Policy: policy, Answer: gate.Answer{At: now, Rule: -1, States: states}},
		"limited":                   {Check: check, Outcome: gate.Limited, ID: id, Policy: policy, Answer: gate.Answer{At: now, RetryAt: now.Add(4 * time.Second), Rule: 2, States: states}},
		"limited by own limit":      {Check: check, Outcome: gate.Limited, ID: id, Policy: trial, OwnLimit: &profiles.Limit{}, Answer: gate.Answer{At: now, RetryAt: now.Add(time.Second), Rule: 1, States: states[1:]}},
		"limited permanently":       {Check: check, Outcome: gate.Limited, ID: id, Policy: policy, Answer: gate.Answer{At: now, Never: true, Rule: 0}},
		"blocked":                   {Check: check, Outcome: gate.Blocked, ID: id, Policy: policy, Block: block, Answer: gate.Answer{At: now.Add(time.Nanosecond), RetryAt: block.Expires, Rule: -1}},
		"unavailable":               {Check: check, Outcome: gate.Unavailable, Policy: policy, Degraded: "The log is unreachable.", Answer: gate.Answer{At: now, RetryAt: now.Add(time.Second), Rule: -1}},
		"exempt":                    {Check: check, Outcome: gate.Allowed, Policy: policy, Exemption: exemption, Answer: quiet},
		"exempt with a block":       {Check: check, Outcome: gate.Allowed, Exemption: exemption, Block: block, Answer: quiet},
		"allowed for a reservation": {Check: waiting, Outcome: gate.Allowed, Policy: policy, Handle: "AQ-_", Answer: gate.Answer{At: now, Rule: -1, States: states, Delay: 4 * time.Second, ReservedAt: now.Add(4 * time.Second)}},
		"allowed without a delay":   {Check: waiting, Outcome: gate.Allowed, Policy: policy, Answer: quiet},
		"replayed":                  {Check: waiting, Outcome: gate.Allowed, Policy: policy, Exemption: exemption, Answer: gate.Answer{At: now, Rule: -1, Replayed: true}},
		"limited with max_wait":     {Check: waiting, Outcome: gate.Limited, ID: id, Policy: policy, Answer: gate.Answer{At: now, RetryAt: now.Add(time.Second), Rule: 1}},
		"with a shadow": {Check: check, Outcome: gate.Allowed, Policy: policy, Answer: quiet, Shadow: &gate.Shadow{
			ID: shadowID, Outcome: gate.Limited, Policy: trial, Answer: gate.Answer{At: now, RetryAt: now.Add(time.Second), Rule: 0, States: states[1:]},
		}},
	}
}

func TestAppendDecisionWritesWireDecision(t *testing.T) {
	for name, d := range decisions(t) {
		t.Run(name, func(t *testing.T) {
			text := encoder.AppendDecision(nil, &d, selector)
			var back wire.Decision
			if err := json.Unmarshal(text, &back, json.RejectUnknownMembers(true)); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			again, err := json.Marshal(back)
			if err != nil {
				t.Fatal(err)
			}
			if string(again) != string(text) {
				t.Fatalf("got  %s\nwant %s", text, again)
			}
			plain, err := json.Marshal(wireDecision(&d))
			if err != nil {
				t.Fatal(err)
			}
			if string(plain) != string(text) {
				t.Fatalf("got   %s\nplain %s", text, plain)
			}
			if back.Key != d.Check.Key.String() || back.Decision != string(d.Outcome) || back.Allowed != d.Allowed() {
				t.Fatalf("got %s", text)
			}
			if never := back.RetryAfterMS == nil; never != d.Never {
				t.Fatalf("got %s", text)
			}
		})
	}
}

func TestEncoderDoesNotCacheTextsOfOwnLimits(t *testing.T) {
	var e Encoder
	policy, answer := &rules.Policy{Rules: rules.Stack{{Limit: 1, Window: time.Second}}}, gate.Answer{Rule: 0}
	isSame := func(isOwn bool) bool {
		first := e.textsOf(policy, &answer, isOwn, selector)
		return &first[0] == &e.textsOf(policy, &answer, isOwn, selector)[0]
	}
	if isSame(true) || !isSame(false) {
		t.Errorf("the texts are cached for an own limit: %t, and for a policy: %t; want false and true", isSame(true), isSame(false))
	}
}

func TestAppendCombinedWritesWireKeysDecision(t *testing.T) {
	all := decisions(t)
	quiet := gate.Answer{At: start, Rule: -1}
	for name, j := range map[string]gate.Combined{
		"allowed":                   {Outcome: gate.Allowed, Answer: quiet, Decisions: []gate.Decision{all["allowed with rules"], all["with a shadow"]}},
		"blocked":                   {Outcome: gate.Blocked, ID: id, Answer: gate.Answer{At: start, Never: true, Rule: -1}, Decisions: []gate.Decision{all["blocked"], all["limited permanently"]}},
		"unavailable":               {Outcome: gate.Unavailable, Degraded: "The log is unreachable.", Answer: gate.Answer{At: start, RetryAt: start.Add(time.Second), Rule: -1}, Decisions: []gate.Decision{all["unavailable"]}},
		"allowed for a reservation": {Outcome: gate.Allowed, Handle: "AQ", Answer: gate.Answer{At: start, Rule: -1, Delay: time.Second, ReservedAt: start.Add(time.Second), Replayed: true}, Decisions: []gate.Decision{all["allowed for a reservation"]}},
		"limited with max_wait":     {Outcome: gate.Limited, ID: id, Answer: gate.Answer{At: start, RetryAt: start.Add(time.Second), Rule: -1}, Decisions: []gate.Decision{all["limited with max_wait"]}},
	} {
		t.Run(name, func(t *testing.T) {
			canWait := j.Decisions[0].Check.MaxWait > 0
			text := encoder.AppendCombined(nil, &j, canWait, selector)
			var back wire.KeysDecision
			if err := json.Unmarshal(text, &back, json.RejectUnknownMembers(true)); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			again, err := json.Marshal(back)
			if err != nil {
				t.Fatal(err)
			}
			if string(again) != string(text) {
				t.Fatalf("got  %s\nwant %s", text, again)
			}
			if (back.Waiting != nil) != canWait || strings.Contains(string(again[strings.Index(string(again), "decisions"):]), "delay_ms") {
				t.Fatalf("the fields of the reservation are missing or in a single decision: %s", text)
			}
		})
	}
}

func TestRetryAfterIsRoundedUpToTheNextMillisecond(t *testing.T) {
	d := decisions(t)["blocked"]
	if got := RetryAfterMS(&d.Answer); got != time.Hour.Milliseconds() {
		t.Errorf("RetryAfterMS() = %d, want %d", got, time.Hour.Milliseconds())
	}
}

func BenchmarkDecodeCheck(b *testing.B) {
	for name, body := range map[string]string{
		"key":  `{"key":"ip:203.0.113.7"}`,
		"full": `{"key":"ip:203.0.113.7","policy":"default","cost":1,"peek":false,"detail":"rules","source":"edge-1","meta":{"path":"/search"}}`,
	} {
		for way, decode := range map[string]func([]byte) (Check, error){"fast": Decode, "plain": decodeStrict} {
			b.Run(name+"/"+way, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := decode([]byte(body)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkEncodeDecision(b *testing.B) {
	d := decisions(b)["limited"]
	b.Run("fast", func(b *testing.B) {
		buffer := make([]byte, 0, 4096)
		b.ReportAllocs()
		for b.Loop() {
			buffer = encoder.AppendDecision(buffer[:0], &d, selector)
		}
	})
	b.Run("plain", func(b *testing.B) {
		var buffer bytes.Buffer
		b.ReportAllocs()
		for b.Loop() {
			buffer.Reset()
			if err := json.MarshalWrite(&buffer, wireDecision(&d)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
