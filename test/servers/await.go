package servers

import (
	"testing"
	"time"
)

// maxAwait bounds every wait for something that must happen; nothing is said about how
// soon it does.
const maxAwait = time.Minute

// Await polls until something that comes by itself is the case, and fails the test if it is
// not in a time that only a defect exceeds.
func Await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(maxAwait); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
