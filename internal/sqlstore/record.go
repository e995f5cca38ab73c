package sqlstore

import (
	"context"

	"github.com/stint-dev/stint/internal/audit"
)

var _ audit.Recorder = (*Store)(nil)

// RecordEntry implements audit.Recorder.
func (s *Store) RecordEntry(ctx context.Context, e audit.Entry) error {
	return s.change(ctx, e.Actor, func(t *tx) error {
		return t.addEntry(e)
	})
}
