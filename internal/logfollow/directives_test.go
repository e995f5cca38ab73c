package logfollow_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/conditions"
)

// A log whose columns changed before the saved position is read on with the latest ones, not
// with those at its beginning.
func TestChangedColumnsHoldBehindTheSavedPosition(t *testing.T) {
	s := newSite(t)
	skip, err := conditions.Parse(conditions.Texts{"path": {"/static/*"}})
	if err != nil {
		t.Fatal(err)
	}
	s.options.Read, s.options.FromStart = accesslog.Options{SkipPaths: skip}, true
	at := time.Now().UTC().Format("2006-01-02 15:04:05")
	s.append(s.path, "#Fields: date time s-ip c-ip cs-method cs-uri-stem sc-status\n"+at+" 198.51.100.1 203.0.113.1 GET /a 200\n"+
		"#Fields: date time c-ip s-ip cs-method cs-uri-stem sc-status\n"+at+" 203.0.113.2 198.51.100.1 GET /b 200\n")
	for round, want := range []int{2, 1} {
		summary, err := s.once()
		if err != nil || int(summary.Checked) != want || summary.Bad > 0 || int(summary.Skipped) != round {
			t.Fatalf("round %d: got %s, %v", round, summary, err)
		}
		s.append(s.path, at+" 203.0.113.2 198.51.100.1 GET /static/x 200\n"+at+" 203.0.113.3 198.51.100.1 GET /b 200\n")
	}
	for ip, want := range map[string]int{"203.0.113.1": 1, "203.0.113.2": 1, "203.0.113.3": 1, "198.51.100.1": 0} {
		if got := s.charged(ip); got != want {
			t.Errorf("%s was charged %d times, want %d", ip, got, want)
		}
	}
}
