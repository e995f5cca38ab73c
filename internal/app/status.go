package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/geoip"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/recorder"
)

// status is the state of a node's parts: readiness for probes, health for operators.
type status struct {
	node     string
	backends *backends
	watch    *redisWatch // nil when embedded
	catalog  *catalog.Catalog
	gate     *gate.Gate
	flusher  *recorder.Flusher
	jobs     *jobs.Runner
	// redisTimeout is how long Redis may be unreachable before the node is not ready, 0 for no
	// limit.
	redisTimeout time.Duration
	draining     *atomic.Bool
	geo          *geoip.Follower
	writes       *writeHealth
	saves        saves
}

// degraded reports whether this node decides without the shared log.
func (s *status) degraded() bool {
	return s.gate.Outage().Open() || s.watch != nil && s.watch.state().Problem != ""
}

// databaseOutage returns since when the database has been unreachable and why, a nil error if it
// is not. A database that hangs is taken for unreachable as soon as pages and changes do so; the
// catalog waits for longer.
func databaseOutage(c *catalog.Catalog, b *backends) (since time.Time, err error) {
	if since, err = c.Failing(); err != nil {
		return since, err
	}
	if last, isSilent := b.liveness().Since(); isSilent {
		return last, context.DeadlineExceeded
	}
	return time.Time{}, nil
}

// lastKnownAge returns a clause about the age of the policies and blocks that the node uses, ""
// if it has read the database since its start.
func (s *status) lastKnownAge() string {
	asOf, unconfirmed := s.catalog.Unconfirmed()
	if !unconfirmed {
		return ""
	}
	return fmt.Sprintf("those of %s (%s ago), kept in the data directory", asOf.UTC().Format(time.RFC3339), time.Since(asOf).Round(time.Second))
}
