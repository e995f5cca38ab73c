package audit

import "context"

// Recorder records what an operator did that changes no row of the database: a
// key's reset, a backup.
type Recorder interface {
	// RecordEntry writes an entry, whose ID, At and Revision it fills in.
	RecordEntry(ctx context.Context, e Entry) error
}
