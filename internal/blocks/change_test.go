package blocks_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/wire"
)

// TestPatch has a change set what it names, and the change of an entry set each of its texts.
func TestPatch(t *testing.T) {
	until := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	was := blocks.Entry{Reason: "scraping", Expires: until}
	now := was
	now.Apply(wire.EntryPatch{ExpiresAt: wire.To(wire.Time{})})
	if now.Reason != "scraping" || !now.Expires.IsZero() {
		t.Errorf("the change of the expiry made it %+v", now)
	}
	now.Apply(wire.EntryPatch{Reason: wire.To("")})
	if now.Reason != "" || was.Reason != "scraping" {
		t.Errorf("the reason is %q, and was %q", now.Reason, was.Reason)
	}
	patch := was.Patch()
	for name, change := range patch.Texts() {
		if !change.Given {
			t.Errorf("%s: is not in the change", name)
		}
	}
	if now.Apply(patch); now.Reason != was.Reason || !now.Expires.IsZero() {
		t.Errorf("got %+v, want the texts of %+v only", now, was)
	}
}
