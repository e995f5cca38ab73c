package sqlstore

import (
	"context"

	"github.com/stint-dev/stint/internal/audit"
)

var _ audit.Recorder = (*Store)(nil)

// AddRecord implements audit.Recorder.
func (s *Store) AddRecord(ctx context.Context, e audit.Record) error {
	return s.change(ctx, e.Actor, func(t *tx) error {
		return t.addEntry(e)
	})
}
