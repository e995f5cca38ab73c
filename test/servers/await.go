package servers

import (
	"testing"
	"time"
)

// Await polls until something that comes by itself is the case, and fails the test if it is
// not in a time that only a defect exceeds.
func Await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
