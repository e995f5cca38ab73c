package db

import (
	"testing"
	"time"
)

func TestExpiryFromMSIsAtMostYear9999(t *testing.T) {
	day := time.Date(2026, time.November, 26, 12, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{
		{}:  "0001-01-01T00:00:00Z",
		day: "2026-11-26T12:00:00Z",
		time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC):                             "9999-12-31T23:59:59Z",
		time.Date(9999, time.December, 31, 23, 59, 59, 0, time.FixedZone("New York", -5*60*60)): "9999-12-31T23:59:59.999Z",
	} {
		if got := ExpiryFromMS(ExpiryToMS(at)).Format(time.RFC3339Nano); got != want {
			t.Errorf("%s: got %s, want %s", at, got, want)
		}
	}
}
