package recorder

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/offences"
)

func TestTrafficSampleHasEveryCheckOfItsKeysWithinBounds(t *testing.T) {
	r := testRecorder(Options{SamplePoints: 200})
	sent := map[string]int{}
	for i := range 20_000 {
		name := "k:" + strconv.Itoa(i%2000)
		sent[name]++
		r.Record(allowed(key(t, name), noon.Add(time.Duration(i)*time.Millisecond)))
	}
	b := drained(r)
	if len(b.Samples) != 1 {
		t.Fatalf("got %d chunks, want 1", len(b.Samples))
	}
	points, err := b.Samples[0].Decode()
	if err != nil || len(points) == 0 || len(points) > 200 {
		t.Fatalf("%d points, %v", len(points), err)
	}
	got := map[string]int{}
	for _, p := range points {
		got[p.Key] += p.Count
		if p.Cost != 2 || p.At < noon.UnixMilli() || p.At >= noon.Add(20*time.Second).UnixMilli() {
			t.Fatalf("the point %+v was not sent", p)
		}
	}
	for name, n := range got {
		if n != sent[name] {
			t.Errorf("%s has %d of %d checks", name, n, sent[name])
		}
	}
	if ratio := b.Samples[0].Ratio(); ratio >= 1 || float64(len(got)) < 2000*ratio/4 || float64(len(got)) > 2000*ratio*4 {
		t.Errorf("%d of 2000 keys were sampled at a ratio of %v", len(got), ratio)
	}
}

func TestDamagedTrafficSampleIsAnErrorAndNoPanic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := offences.SampleChunk{Points: rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")}
		points, err := c.Decode()
		if err != nil && points != nil {
			t.Fatal("Decode returned both points and an error")
		}
	})
}
