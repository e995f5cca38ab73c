package logfollow_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/answers"
)

// If a gateway checks each request, only the outcomes are sent.
func TestOutcomesOnlyChargesNoRequest(t *testing.T) {
	s := newSite(t)
	s.do(http.MethodPut, "/v1/policies/missing", fmt.Sprintf(`{"match":["ip:198.51.100.0/24"],"outcome":"not_found","rules":["%d/1d"]}`, limit), http.StatusCreated)
	s.options.Outcomes, s.options.OutcomesOnly, s.options.FromStart = answers.DefaultOutcomes(nil), true, true
	for i := range 8 {
		line := lineOf("198.51.100.7", time.Now(), i)
		if i%4 == 0 {
			line = strings.Replace(line, " 200 ", " 404 ", 1)
		}
		s.append(s.path, line)
	}
	for run, want := range []int{2, 0} { // the second run has no new lines
		summary, err := s.once()
		if err != nil || summary.Reported != int64(want) || summary.Checked != 0 {
			t.Fatalf("Run %d: got %v, %s", run, err, summary)
		}
	}
	d, err := newClient(t, s.check).Check(context.Background(), client.Check{Key: "ip:198.51.100.7", Policy: "missing", Peek: true})
	if err != nil || limit-d.Rules[0].Remaining != 2 || s.charged("198.51.100.7") != 0 {
		t.Errorf("%d requests are charged, want 0; the check of outcomes: got %+v, %v", s.charged("198.51.100.7"), d, err)
	}
}
