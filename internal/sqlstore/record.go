package sqlstore

import (
	"context"

	"github.com/stint-dev/stint/internal/audit"
)

var _ audit.Recorder = (*Store)(nil)

// RecordEntry implements audit.Recorder.
func (s *Store) RecordEntry(ctx context.Context, e audit.Entry) error {
	return s.change(ctx, e.Actor, func(t *tx) error {
		_, err := t.exec(addEntry, toMS(t.now), t.by.Kind, t.by.ID, t.by.Name, t.by.Address,
			e.Action, e.Object, e.ObjectID, e.Summary, string(e.Before), string(e.After), t.revision)
		return err
	})
}
