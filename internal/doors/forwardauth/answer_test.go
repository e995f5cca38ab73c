package forwardauth

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/rules"
)

// refusals are decisions with each kind of detail.
func refusals() []*gate.Decision {
	now := time.Date(2026, 11, 20, 14, 3, 14, 0, time.UTC)
	limited := func(wait time.Duration) *gate.Decision {
		d := &gate.Decision{Outcome: gate.Limited}
		d.At, d.RetryAt = now, now.Add(wait)
		return d
	}
	named := limited(2 * time.Second)
	named.ID.Minute, named.Policy = now.Truncate(time.Minute), &rules.Policy{Rules: rules.Stack{{Limit: 1, Window: time.Second}}}
	return []*gate.Decision{
		named,
		limited(90 * time.Second), limited(time.Second), {Outcome: gate.Limited}, {Outcome: gate.Unavailable},
		{Outcome: gate.Blocked, Block: &blocks.Entry{}}, {Outcome: gate.Blocked, Block: &blocks.Entry{Expires: now}},
	}
}

func TestAppendProblemWritesTheJSONOfAProblem(t *testing.T) {
	const requestID = "0123456789abcdef"
	for _, d := range refusals() {
		for _, status := range []int{statusOf[d.Outcome], http.StatusForbidden} {
			want, err := json.Marshal(problemOf(d, status, requestID))
			if got := appendProblem(nil, d, status, []byte(requestID)); err != nil || string(got) != string(want) {
				t.Errorf("got %s\nwant %s, %v", got, want, err)
			}
		}
	}
}

func BenchmarkProblem(b *testing.B) {
	const requestID = "0123456789abcdef"
	d := refusals()[0]
	b.Run("fast", func(b *testing.B) {
		var body []byte
		for range b.N {
			body = appendProblem(body[:0], d, http.StatusTooManyRequests, []byte(requestID))
		}
	})
	b.Run("plain", func(b *testing.B) {
		for range b.N {
			if _, err := json.Marshal(problemOf(d, http.StatusTooManyRequests, requestID)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
