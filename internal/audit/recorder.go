package audit

import "context"

// Recorder records what an operator did that changes no row of the database: a
// key's reset, a backup.
type Recorder interface {
	// AddRecord writes a record, whose ID, At and Revision it fills in.
	AddRecord(ctx context.Context, e Record) error
}
