package admin

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/keyhash"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

// TrafficEstimate estimates from a sample of all keys which ratio of the traffic of a span some
// keys have.
type TrafficEstimate struct {
	From, To time.Time // of the recorded part of the requested span
	Keys     int64     // selected keys in the sample
	AllKeys  int64
	// Checks is the number of checks of the selected keys.
	Checks    int64
	AllChecks int64
	// Ratio is the ratio of all checks, 0 to 1. Ratio ± Error contains the true value in 19 of
	// 20 estimates.
	Ratio, Error float64
}

// TrafficEstimator estimates from recorded traffic. If nothing is recorded, it returns nil
// without an error.
type TrafficEstimator interface {
	EstimateTraffic(ctx context.Context, from, to time.Time, selects func(keys.Key) bool) (*TrafficEstimate, error)
}

// maxSample bounds the points of a TrafficSample. The ratio of sampled keys is lowered until
// they fit.
const maxSample = 300_000

// TrafficSample is the traffic sample of a span with the same ratio of keys throughout. It has
// every recorded check of each of its keys.
type TrafficSample struct {
	Points []offences.SamplePoint // by time
	// Ratio is the ratio of all keys that was sampled, 1 for every key.
	Ratio float64
}

// ReadTrafficSample reads the traffic sample of a span. Minutes and nodes may have sampled
// different ratios of the keys. A key that is missing in one of them is removed from all, so
// that the checks of the remaining keys are complete. secret is the one that the traffic sample
// was recorded with.
func ReadTrafficSample(ctx context.Context, store DetectionStore, secret []byte, from, to time.Time) (*TrafficSample, error) {
	s := sampler{hash: offences.SamplingHash(secret)}
	if err := store.TrafficSamples(ctx, from, to, s.add); err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.points, func(a, b offences.SamplePoint) int { return cmp.Compare(a.At, b.At) })
	return &TrafficSample{Points: s.points, Ratio: math.Ldexp(1, -s.level)}, nil
}

// sampler collects points, and removes keys if there are too many points.
type sampler struct {
	hash   keyhash.Hash
	level  int
	points []offences.SamplePoint
}

func (s *sampler) add(c *offences.SampleChunk) error {
	points, err := c.Decode()
	if err != nil {
		return err
	}
	if c.Level > s.level {
		s.raise(c.Level)
	}
	for _, p := range points {
		if offences.Sampled(s.hash.Sum64(p.Key), s.level) {
			s.points = append(s.points, p)
		}
	}
	for len(s.points) > maxSample {
		s.raise(s.level + 1)
	}
	return nil
}

func (s *sampler) raise(level int) {
	s.level = level
	s.points = slices.DeleteFunc(s.points, func(p offences.SamplePoint) bool { return !offences.Sampled(s.hash.Sum64(p.Key), level) })
}
