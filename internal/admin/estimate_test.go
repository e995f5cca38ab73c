package admin_test

import (
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/internal/sqlstore"
)

// sampleEstimatorOf counts checks of keys like a node, writes them, and returns an estimator of them.
func sampleEstimatorOf(t *testing.T, samplePoints int, checks map[string]int, at time.Time) *admin.SampleEstimator {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), filepath.Join(t.TempDir(), "stint.db"), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	secret := func() []byte { return []byte("secret") }
	r := recorder.NewRecorder(recorder.Options{Secret: secret, Node: "a", SamplePoints: samplePoints})
	f := recorder.NewFlusher(recorder.FlusherOptions{
		Recorder: r, Sink: store.Offences, Node: "a", Secret: secret, Log: slog.New(slog.DiscardHandler),
		Escalations: func() map[int64]offences.EscalationPolicy { return nil }, Now: func() time.Time { return at.Add(time.Hour) },
	})
	for text, times := range checks {
		k, err := keys.Parser{}.Key(text)
		if err != nil {
			t.Fatal(err)
		}
		for i := range times {
			r.Record(&gate.Decision{
				Check: gate.Check{Key: k, Cost: 1}, Outcome: gate.Allowed,
				Answer: gate.Answer{At: at.Add(time.Duration(i) * time.Millisecond), Rule: -1},
			})
		}
	}
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &admin.SampleEstimator{Store: store.Offences, Secret: secret}
}

var began = time.Date(2026, 11, 20, 14, 3, 0, 0, time.UTC)

func bad(k keys.Key) bool { return strings.HasPrefix(k.String(), "token:bad") }

func TestEstimateIsExactIfEveryKeyIsSampled(t *testing.T) {
	e := sampleEstimatorOf(t, 1000, map[string]int{"token:bad1": 30, "token:bad2": 10, "token:good": 60}, began)
	got, err := e.EstimateTraffic(t.Context(), began.Add(-time.Hour), began.Add(time.Hour), bad)
	if err != nil {
		t.Fatal(err)
	}
	if got.Keys != 2 || got.AllKeys != 3 || got.Checks != 40 || got.AllChecks != 100 || got.Ratio != 0.4 || got.Error != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestEstimateOfASampleStatesItsError(t *testing.T) {
	checks := map[string]int{}
	for i := range 2000 {
		checks[fmt.Sprintf("token:good%d", i)] = 1 + i%3
		checks[fmt.Sprintf("token:bad%d", i)] = 1 + i%2
	}
	e := sampleEstimatorOf(t, 500, checks, began)
	got, err := e.EstimateTraffic(t.Context(), began.Add(-time.Hour), began.Add(time.Hour), bad)
	if err != nil {
		t.Fatal(err)
	}
	// 3,000 of 6,999 checks are of bad keys. The secret determines the hash, so the sample is
	// always the same.
	truth := 3000.0 / 6999
	if got.Error <= 0 || math.Abs(got.Ratio-truth) > 2*got.Error {
		t.Errorf("got the ratio %.3f ± %.3f, want %.3f within twice the error", got.Ratio, got.Error, truth)
	}
	if math.Abs(float64(got.AllKeys)-4000) > 1000 {
		t.Errorf("got %d keys, want about 4000", got.AllKeys)
	}
}

func TestNoEstimateWithoutASample(t *testing.T) {
	e := sampleEstimatorOf(t, 1000, nil, began)
	if got, err := e.EstimateTraffic(t.Context(), began, began.Add(time.Hour), bad); got != nil || err != nil {
		t.Errorf("EstimateTraffic without traffic: got %+v, %v; want nil", got, err)
	}
}
