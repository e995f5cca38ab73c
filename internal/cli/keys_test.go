package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

// The server cuts the list of what counts, and what is counted in it is then a lower bound.
func TestKeyPolicySaysThatItsListIsCut(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, c := range map[string]struct{ done, ahead int }{
		"\n999 requests count, the newest of":            {done: 999},
		"\nAt least 1,000 requests count, the newest of": {done: wire.MaxTimestamps},
		"\nAt least 998 requests count, the newest of":   {done: wire.MaxTimestamps - 2, ahead: 2},
		"\n2 reservations ahead, the last at":            {done: wire.MaxTimestamps - 2, ahead: 2},
		"\nAt least 1,000 reservations ahead":            {ahead: wire.MaxTimestamps},
	} {
		k := wire.KeyPolicy{Name: "website"}
		for i := range c.ahead {
			k.Timestamps = append(k.Timestamps, wire.At(now.Add(time.Duration(c.ahead-i)*time.Second)))
		}
		for i := range c.done {
			k.Timestamps = append(k.Timestamps, wire.At(now.Add(-time.Duration(i)*time.Second)))
		}
		var out strings.Builder
		if err := printKeyPolicy(&output.Printer{Out: &out, Format: output.Table, Now: now}, &k, now, false); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), text) {
			t.Errorf("%+v: got %q, want %q", c, out.String(), text)
		}
	}
}
