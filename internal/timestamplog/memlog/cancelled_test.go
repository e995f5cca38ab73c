package memlog

import (
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// What is remembered of cancelled charges is bounded, and goes once they no longer count.
func TestCancelledChargesAreBoundedAndSwept(t *testing.T) {
	var c cancelledCharges
	bytes := 0
	of := func(i int) timestamplog.Reservation {
		return timestamplog.Reservation{LogID: timestamplog.LogID{Policy: 1, Key: "token:a"}, ID: fmt.Sprint(i), At: 1000, Counts: timestamplog.MaxCounts}
	}
	for i := 0; !c.isFull(of(i)); i++ {
		if i > maxCancelled {
			t.Fatal("there is no bound")
		}
		bytes += c.add(of(i))
	}
	if !c.allows(of(-1), 1001) || c.allows(of(0), 1001) {
		t.Error("what was cancelled is not known")
	}
	if swept := c.sweep(1000 + timestamplog.MaxCounts - 1); swept != 0 {
		t.Errorf("%d bytes are gone while they count", swept)
	}
	if swept := c.sweep(1000 + timestamplog.MaxCounts); swept != bytes || len(c.order)+len(c.until) != 0 || c.isFull(of(0)) {
		t.Errorf("%d of %d bytes are gone", swept, bytes)
	}
}
