package envoy

import (
	"math"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

// units are the units of Envoy's limits, the longest first.
var units = []struct {
	length time.Duration
	unit   ratelimitv3.RateLimitResponse_RateLimit_Unit
}{
	{7 * 24 * time.Hour, ratelimitv3.RateLimitResponse_RateLimit_WEEK},
	{24 * time.Hour, ratelimitv3.RateLimitResponse_RateLimit_DAY},
	{time.Hour, ratelimitv3.RateLimitResponse_RateLimit_HOUR},
	{time.Minute, ratelimitv3.RateLimitResponse_RateLimit_MINUTE},
	{time.Second, ratelimitv3.RateLimitResponse_RateLimit_SECOND},
}

// limitOf converts a rule to Envoy's form. Envoy versions that ignore the multiplier read one
// unit as the window, so the name contains the rule. A window that is not a multiple of a
// second has no unit.
func limitOf(r rules.Rule) *ratelimitv3.RateLimitResponse_RateLimit {
	limit := &ratelimitv3.RateLimitResponse_RateLimit{Name: r.String(), RequestsPerUnit: uint32(min(r.Limit, math.MaxUint32))} //nolint:gosec // bounded
	if r.Calendar == algorithms.CalendarMonth {
		limit.Unit = ratelimitv3.RateLimitResponse_RateLimit_MONTH
		return limit
	}
	for _, u := range units {
		if r.Window%u.length == 0 && !r.IsConcurrent() {
			limit.Unit = u.unit
			if n := r.Window / u.length; n > 1 {
				limit.UnitMultiplier = wrapperspb.UInt32(uint32(n)) //nolint:gosec // at most rules.MaxWindow in seconds
			}
			break
		}
	}
	return limit
}

// wholeSeconds rounds up: Envoy sends only the seconds, and a client that returns too early is
// refused again.
func wholeSeconds(d time.Duration) *durationpb.Duration {
	return &durationpb.Duration{Seconds: int64((d + time.Second - 1) / time.Second)}
}
