package identities_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/identity"
)

// TestSessionFromAClockAheadEnds begins a session while the clock is ahead. Otherwise
// neither timeout would end it before that time.
func TestSessionFromAClockAheadEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		right := f.now
		bob := f.addUser(t, "bob", "admin")
		find := func(ahead time.Duration) (before, after, later bool) {
			t.Helper()
			f.now = right.Add(ahead)
			secret, err := f.sessions().Begin(t.Context(), bob, ann.Address, "")
			if err != nil {
				t.Fatal(err)
			}
			hash, nodes := identity.HashSecret(secret), f.sessions()
			is := func(at time.Time) bool {
				f.now = at
				active, err := nodes.IsActive(t.Context(), hash, bob.Role, false)
				if err != nil {
					t.Fatal(err)
				}
				found, err := nodes.Find(t.Context(), hash)
				if err != nil || active != (found != nil) {
					t.Fatalf("active %t, found %v, %v", active, found, err)
				}
				return active
			}
			return is(right.Add(ahead)), is(right), is(right.Add(ahead))
		}
		if before, after, later := find(365 * 24 * time.Hour); !before || after || later {
			t.Errorf("begun a year ahead: active by that clock %t, by the right clock %t, and a year later %t; want only the first", before, after, later)
		}
		if before, after, _ := find(time.Minute); !before || !after {
			t.Errorf("begun by a node a minute ahead: active there %t, and elsewhere %t; want both", before, after)
		}
	})
}
