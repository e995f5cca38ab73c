package admin

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/keyhash"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

// TrafficEstimate estimates from a sample of all keys which ratio of the traffic of a span some
// keys have. Only allowed checks are traffic: a block takes nothing from a check that was refused
// anyway, so that an attack which is already refused does not count for or against a block.
type TrafficEstimate struct {
	From, To time.Time // of the recorded part of the requested span
	Keys     int64     // selected keys with an allowed check
	AllKeys  int64     // all keys with an allowed check
	// Checks is the number of allowed checks of the selected keys.
	Checks    int64
	AllChecks int64
	// Ratio is the ratio of all allowed checks, 0 to 1, and 0 if none was allowed. Ratio ± Error contains the true value in 19 of
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
	// Refused is how many of the checks of each key were refused.
	Refused map[string]int64
	// Ratio is the ratio of all keys that was sampled, 1 for every key.
	Ratio float64
}

// ReadTrafficSample reads the traffic sample of a span. Minutes and nodes may have sampled
// different ratios of the keys. A key that is missing in one of them is removed from all, so
// that the checks of the remaining keys are complete. secret is the one that the traffic sample
// was recorded with.
func ReadTrafficSample(ctx context.Context, store DetectionStore, secret []byte, from, to time.Time) (*TrafficSample, error) {
	s := sampler{hash: offences.SamplingHash(secret), refused: map[string]int64{}}
	if err := store.TrafficSamples(ctx, from, to, s.add); err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.points, func(a, b offences.SamplePoint) int { return cmp.Compare(a.At, b.At) })
	return &TrafficSample{Points: s.points, Refused: s.refused, Ratio: math.Ldexp(1, -s.level)}, nil
}

// sampler collects points, and removes keys if there are too many points.
type sampler struct {
	hash    keyhash.Hash
	level   int
	points  []offences.SamplePoint
	refused map[string]int64
}

func (s *sampler) add(c *offences.SampleChunk) error {
	points, err := c.Decode()
	if err != nil {
		return err
	}
	refused, err := c.DecodeRefused()
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
	for key, n := range refused {
		if offences.Sampled(s.hash.Sum64(key), s.level) {
			s.refused[key] += n
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
	maps.DeleteFunc(s.refused, func(key string, _ int64) bool { return !offences.Sampled(s.hash.Sum64(key), level) })
}
