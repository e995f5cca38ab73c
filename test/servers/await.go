package servers

import (
	"testing"
	"time"
)

// maxAwait bounds every wait for something that must happen. It is no requirement on how
// soon that happens.
const maxAwait = time.Minute

// Await polls until a condition is true, and fails the test after a time that only a defect
// exceeds.
func Await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(maxAwait); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not true after %s: %s", maxAwait, what)
		}
	}
}
