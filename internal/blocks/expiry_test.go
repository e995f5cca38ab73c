package blocks_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
)

// No answer and no file can contain a time in the year 10000: a block until then would make every
// list that contains it unreadable.
func TestExpiryRejectsTheYear10000AndPastTimes(t *testing.T) {
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"9999-12-31T23:59:59.999Z":  "",
		"9999-12-31T23:59:59-05:00": "expires_at: must be before the year 10000 in UTC; leave it out for permanent",
		"2026-01-01T00:00:00+05:00": "expires_at: must be in the future; the time of the server is 2026-01-01T00:00:00Z",
	} {
		until, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := blocks.Expiry{Until: until}.At(now)
		switch {
		case err == nil && (want != "" || !got.Equal(until)):
			t.Errorf("%s: got %v, want the error %q", text, got, want)
		case err != nil && err.Error() != want:
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
