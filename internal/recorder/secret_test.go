package recorder

import (
	"context"
	"log/slog"
	"strconv"
	"testing"

	"github.com/stint-dev/stint/internal/offences"
)

// TestCountsFollowARestoredSecret restores the backup of another database into a running node. The
// gate names refusals by the present secret, and the previews select the sampled keys by it.
func TestCountsFollowARestoredSecret(t *testing.T) {
	present := secret
	o := Options{Secret: func() []byte { return present }, Node: "a", SamplePoints: 10}
	r := NewRecorder(o)
	var written []*offences.Batch
	s := &memorySink{seen: map[string]bool{}, fail: func(b *offences.Batch) error { written = append(written, b); return nil }}
	f := NewFlusher(FlusherOptions{Recorder: r, Sink: s, Node: "a", Secret: o.Secret, Log: slog.New(slog.DiscardHandler)})
	for _, present = range [][]byte{secret, []byte("fedcba9876543210fedcba9876543210")} {
		written = nil
		r.Record(limited(key(t, "ip:203.0.113.7"), noon, 1))
		for i := range 200 {
			r.Record(allowed(key(t, "k:"+strconv.Itoa(i)), noon))
		}
		if err := f.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if len(written) != 1 || len(written[0].Offences) != 1 || len(written[0].Samples) != 1 {
			t.Fatalf("got %d batches, the first is %+v", len(written), written[0])
		}
		if want := offences.NewRefusalIDMaker(present).MAC(policy.ID, "ip:203.0.113.7"); written[0].Offences[0].MAC != want {
			t.Errorf("under %s: the MAC is not that of the refusal id", present)
		}
		points, err := written[0].Samples[0].Decode()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range points {
			if !offences.Sampled(offences.SamplingHash(present).Sum64(p.Key), written[0].Samples[0].Level) {
				t.Errorf("under %s: %s does not belong to the sample", present, p.Key)
			}
		}
	}
}
