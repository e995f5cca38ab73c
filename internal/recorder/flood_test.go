package recorder

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stint-dev/stint/internal/offences"
)

// testFlood returns how many different keys the flood has: 300,000, or the number in
// STINT_TEST_FLOOD. Ten million take about twenty seconds.
func testFlood(t *testing.T) int {
	text := os.Getenv("STINT_TEST_FLOOD")
	if text == "" {
		return 300_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1000 {
		t.Fatalf("STINT_TEST_FLOOD is %q, not a number of at least 1000", text)
	}
	return n
}

// A client with an IPv6 /48 has more keys than a minute has rows. The rare offences of a key of
// another network must still be counted.
func TestFloodOfOneNetworkHidesNoKeyOfAnother(t *testing.T) {
	r := testRecorder(Options{})
	g := newPendingBatch(1 << 30)
	quiet := key(t, "ip:192.0.2.1")
	flood := 0
	for second := range 40 {
		for range 1_000 {
			r.Record(limited(key(t, fmt.Sprintf("ip:2001:db8:1:%x::1", flood)), noon, 1))
			flood++
		}
		if second%10 == 9 {
			r.Record(limited(quiet, noon, 1))
		}
		r.drain(g, noon.UnixMilli())
	}
	counted := map[string]int64{}
	for _, o := range drainedInto(g, r).Offences {
		counted[o.Key] += o.Count
	}
	if counted["ip:192.0.2.1"] != 4 || counted[""] == 0 || len(counted) > 35_000 {
		t.Errorf("4 offences of one key are counted as %d, and %d without their keys, in %d rows", counted["ip:192.0.2.1"], counted[""], len(counted))
	}
}

// 150,000 keys are refused once each within three seconds, of one network, of many, or of as many
// networks as keys. 150 other clients are refused once a second in that time. Each has a row, by which
// its refusals are explained and an escalation counts: with all three if the flood comes from
// one network, and with the last at least if it comes from many.
func TestFloodHidesNeitherExplanationsNorOffencesOfOthers(t *testing.T) {
	const quiet = 150
	for name, c := range map[string]struct {
		flooding func(i int) string
		least    int64
	}{
		"one network":        {func(i int) string { return fmt.Sprintf("ip:2001:db8:1:%x::1", i%65536) }, 3},
		"1,000 networks":     {func(i int) string { return fmt.Sprintf("ip:2001:db8:%x:%x::1", i%1000, i/1000) }, 1},
		"a network for each": {func(i int) string { return fmt.Sprintf("ip:2001:%x:%x:1::1", 0xe00+i/65536, i%65536) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := testRecorder(Options{})
			g := newPendingBatch(1 << 30)
			for flood := range 150_000 {
				r.Record(limited(key(t, c.flooding(flood)), noon, 1))
				if i := flood%50_000 - 20_000; i >= 0 && i < quiet {
					r.Record(limited(key(t, fmt.Sprintf("ip:192.0.%d.1", i)), noon, 1))
				}
				if flood%50_000 == 49_999 {
					r.drain(g, noon.UnixMilli())
				}
			}
			counted := map[string]int64{}
			for _, o := range drainedInto(g, r).Offences {
				counted[o.Key] += o.Count
			}
			hidden := 0
			for i := range quiet {
				if counted[fmt.Sprintf("ip:192.0.%d.1", i)] < c.least {
					hidden++
				}
			}
			if hidden > 0 || counted[""] == 0 || len(counted) > 20_000 {
				t.Errorf("%d of %d clients have less than %d of their 3 offences; %d are counted without a key, in %d rows", hidden, quiet, c.least, counted[""], len(counted))
			}
		})
	}
}

// drainedInto returns g, with everything that r still holds, as a batch.
func drainedInto(g *pendingBatch, r *Recorder) *offences.Batch {
	r.drain(g, 1<<62)
	return g.freeze("id", "a", offences.NewRefusalIDMaker(secret))
}
