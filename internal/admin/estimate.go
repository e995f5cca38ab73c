package admin

import (
	"context"
	"math"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

var _ TrafficEstimator = (*SampleEstimator)(nil)

// SampleEstimator estimates from the traffic sample which ratio of the traffic some keys have.
type SampleEstimator struct {
	Store  DetectionStore
	Secret func() []byte // secret of the traffic sample
}

// EstimateTraffic implements TrafficEstimator.
func (e *SampleEstimator) EstimateTraffic(ctx context.Context, from, to time.Time, selects func(keys.Key) bool) (*TrafficEstimate, error) {
	sample, err := ReadTrafficSample(ctx, e.Store, e.Secret(), from, to)
	if err != nil || len(sample.Points) == 0 {
		return nil, err
	}
	last := sample.Points[len(sample.Points)-1].At
	t := &TrafficEstimate{From: time.UnixMilli(sample.Points[0].At).UTC(), To: time.UnixMilli(last).UTC()}
	allowed := map[string]float64{}
	for _, p := range sample.Points {
		allowed[p.Key] += float64(p.Count)
	}
	for key := range allowed {
		if allowed[key] -= float64(sample.Refused[key]); allowed[key] <= 0 {
			delete(allowed, key)
		}
	}
	if len(allowed) == 0 {
		return t, nil
	}
	var total, selected float64
	mine := map[string]bool{}
	for text, checks := range allowed {
		total += checks
		if k, err := offences.ParseKey(text); err == nil && selects(k) {
			mine[text] = true
			selected += checks
		}
	}
	t.Ratio = selected / total
	// Keys were sampled, not checks. So this is the variance of a ratio of two sums over keys.
	var squares float64
	for text, checks := range allowed {
		off := -t.Ratio * checks
		if mine[text] {
			off += checks
		}
		squares += off * off
	}
	const nineteenInTwenty = 1.96
	t.Error = nineteenInTwenty * math.Sqrt((1-sample.Ratio)*squares) / total
	scale := func(n float64) int64 { return int64(math.Round(n / sample.Ratio)) }
	t.Keys, t.AllKeys = scale(float64(len(mine))), scale(float64(len(allowed)))
	t.Checks, t.AllChecks = scale(selected), scale(total)
	return t, nil
}
