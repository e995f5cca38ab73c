package wire

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

func encode(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTimeIsUTCInMillisecondsAndNullWhenZero(t *testing.T) {
	cet := time.FixedZone("CET", 3600)
	got := encode(t, []Time{At(time.Date(2026, 1, 1, 13, 34, 35, 1_900_000, cet)), {}})
	if want := `["2026-01-01T12:34:35.001Z",null]`; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	var back []Time
	if err := json.Unmarshal([]byte(`["2026-01-01T13:34:35.001+01:00",null]`), &back); err != nil {
		t.Fatal(err)
	}
	if back[0].String() != "2026-01-01T12:34:35.001Z" || !back[1].IsZero() {
		t.Fatalf("got %v", back)
	}
	for _, bad := range []string{`"yesterday"`, `5`, `""`, `{}`, `"2026-01-01"`} {
		if err := json.Unmarshal([]byte(bad), new(Time)); err == nil {
			t.Errorf("%s was accepted as a time", bad)
		}
	}
}

func TestParseDurationAcceptsUnits(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 168 * time.Hour,
		"1w": 168 * time.Hour, "250ms": 250 * time.Millisecond, "0s": 0,
	} {
		got, err := ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "5", "h", "-1h", "1.5h", "1m1h", "1h1h", "1h ", "1 h", "1y", "99999999999999d", "9223372036854775807w"} {
		if d, err := ParseDuration(bad); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", bad, d)
		}
	}
	for text, want := range map[string]error{
		"0s": errNoDuration, "-1h": errNoDuration, "-99999999d": errNoDuration, "--1h": errDuration, "-soon": errDuration,
		"106751d": nil, "106752d": errLongDuration, "99999999999999999999d": errLongDuration, "99999999d": errLongDuration, "9y": errDuration,
	} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != want { //nolint:errorlint // they are not wrapped
			t.Errorf("%s: got %v, want %v", text, err, want)
		}
	}
	if got := encode(t, Duration(36*time.Hour)); got != `"36h"` {
		t.Errorf("got %s", got)
	}
}

func TestEntryPatchDistinguishesAbsentFromNull(t *testing.T) {
	var p EntryPatch
	if err := json.Unmarshal([]byte(`{"expires_at":null}`), &p); err != nil {
		t.Fatal(err)
	}
	if !p.ExpiresAt.Given || !p.ExpiresAt.Value.IsZero() || p.Reason.Given || p.ExpiresIn.Given {
		t.Fatalf("got %+v", p)
	}
	if got := encode(t, EntryPatch{Reason: To("why")}); got != `{"reason":"why"}` {
		t.Fatalf("got %s", got)
	}
}

func TestBatchAnswerItemIsDecisionOrProblem(t *testing.T) {
	text := `{"decisions":[{"decision":"allowed","allowed":true,"key":"a","rules":null},{"type":"about:blank","title":"Unprocessable Content","status":422,"code":"invalid","field":"key","id":"x"}]}`
	var answer BatchAnswer
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	first, second := answer.Decisions[0], answer.Decisions[1]
	if first.Problem != nil || first.Decision.Key != "a" || first.Decision.Rules != nil {
		t.Fatalf("got %+v", first)
	}
	if second.Decision != nil || second.Problem.Field != "key" || string(second.Problem.More["id"]) != `"x"` {
		t.Fatalf("got %+v", second.Problem)
	}
	if got := encode(t, second); got != `{"type":"about:blank","title":"Unprocessable Content","status":422,"code":"invalid","field":"key","id":"x"}` {
		t.Fatalf("got %s", got)
	}
}

func TestDecisionEncodesAbsentFieldsAsNull(t *testing.T) {
	got := encode(t, Decision{Decision: Allowed, Allowed: true, Key: "a"})
	want := `{"id":null,"decision":"allowed","allowed":true,"key":"a","policy":null,"mode":null,"degraded":false,` +
		`"retry_after_ms":null,"retry_at":null,"rule":null,"rules":null,"block":null,"shadow":null}`
	if got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if got := encode(t, Page[Entry]{}); got != `{"items":[],"next_cursor":null,"total":null}` {
		t.Fatalf("got %s", got)
	}
}
