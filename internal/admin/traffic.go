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

// TrafficEstimate is how much of the traffic of a span some keys make up. It is an
// estimate from a sample of all keys.
type TrafficEstimate struct {
	From, To time.Time // of what was recorded, within what was asked for
	Keys     int64     // selected keys that were seen
	AllKeys  int64
	// Checks is how many checks the selected keys asked.
	Checks    int64
	AllChecks int64
	// Ratio is the part of all checks, 0 to 1, and Error what to add and
	// subtract for 19 in 20 such estimates to hold the truth.
	Ratio, Error float64
}

// TrafficEstimator estimates from recorded traffic. A nil result without an
// error says that nothing is recorded.
type TrafficEstimator interface {
	EstimateTraffic(ctx context.Context, from, to time.Time, selects func(keys.Key) bool) (*TrafficEstimate, error)
}

// maxSample bounds the points of a TrafficSample; the ratio of keys is lowered until
// they fit.
const maxSample = 300_000

// TrafficSample is the traffic sample of a span with the same part of the keys throughout:
// every recorded check of each key that is in it.
type TrafficSample struct {
	Points []offences.SamplePoint // by time
	// Ratio is the part of all keys that was sampled, 1 for every key.
	Ratio float64
}

// ReadTrafficSample reads the traffic sample of a span. Minutes and nodes sampled more or less
// of the keys; keys that some of them left out are left out of all, so that
// what a rule would have done to the others is known from all their checks.
// secret is the one that the traffic sample was recorded under.
func ReadTrafficSample(ctx context.Context, store DetectionStore, secret []byte, from, to time.Time) (*TrafficSample, error) {
	s := sampler{hash: offences.SamplingHash(secret)}
	if err := store.TrafficSamples(ctx, from, to, s.add); err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.points, func(a, b offences.SamplePoint) int { return cmp.Compare(a.At, b.At) })
	return &TrafficSample{Points: s.points, Ratio: math.Ldexp(1, -s.level)}, nil
}

// sampler collects points, and removes keys where there are too many.
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
