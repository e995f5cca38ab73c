package identity

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

func TestEachAttemptToLogInLeavesOneFewerUntilAWaitIsDue(t *testing.T) {
	log := memlog.New(memlog.Options{Now: func() time.Time { return time.Unix(1_700_000_000, 0) }})
	defer log.Close()
	g := NewGuesses(log, time.Now)
	from := netip.MustParseAddr("192.0.2.44")
	for want := 5; want > 0; want-- {
		if left := g.LoginsLeft(t.Context(), from, "maria"); left != want {
			t.Fatalf("got %d left, want %d", left, want)
		}
		if wait := g.Login(t.Context(), from, "maria"); wait != 0 {
			t.Fatalf("attempt with %d left has to wait %s", want, wait)
		}
	}
	if left := g.LoginsLeft(t.Context(), from, "maria"); left != 0 {
		t.Errorf("got %d left after the last", left)
	}
	if g.Login(t.Context(), from, "maria") == 0 {
		t.Error("one attempt more than was left is let through")
	}
}
