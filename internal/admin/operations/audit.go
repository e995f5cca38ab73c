package operations

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
)

// Audit is the use case of reading and verifying the audit log. Create one per node, so that a
// node runs one verification at a time.
type Audit struct {
	Store audit.Store

	verifying sync.Mutex // held during a verification, which reads the whole audit log
}

// maxVerification is the maximum duration of a verification.
const maxVerification = 5 * time.Minute

// Find returns one page of the records that a filter selects, the newest first.
func (a *Audit) Find(ctx context.Context, f audit.Filter) (audit.Page, error) {
	return a.Store.FindRecords(ctx, f)
}

// ByID returns a record.
func (a *Audit) ByID(ctx context.Context, id int64) (*audit.Record, error) {
	return a.Store.FindRecordByID(ctx, id)
}

// Each iterates over all records that a filter selects.
func (a *Audit) Each(ctx context.Context, f audit.Filter) iter.Seq2[*audit.Record, error] {
	return a.Store.EachRecord(ctx, f)
}

// Verify verifies that no record was changed, added or removed. kept is a head that an earlier
// verification returned and that was stored elsewhere, zero for none. If another verification
// is running on this node, the error is a Conflict. A verification does not end with the
// request: otherwise an operator who retries would start from the beginning.
func (a *Audit) Verify(ctx context.Context, kept audit.Link) (audit.Verification, error) {
	if !a.verifying.TryLock() {
		return audit.Verification{}, fault.New(fault.Conflict, "This node is verifying the audit already; ask again when it has done so.")
	}
	defer a.verifying.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxVerification)
	defer cancel()
	return a.Store.VerifyAudit(ctx, kept)
}
