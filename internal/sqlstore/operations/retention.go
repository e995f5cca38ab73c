package operations

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	// deleteEnded deletes up to maxDeleted entries that ended before an instant. It skips rows
	// that still hold their pattern; EndExpired releases those first. The outer condition keeps
	// Postgres from deleting an entry that is restored while it waits for its lock: of that row it
	// repeats only this one.
	deleteEnded = `
DELETE FROM entries WHERE ` + ended + ` AND id IN (SELECT id FROM entries WHERE ` + ended + ` LIMIT $2)`
	// deleteUnlisted deletes the rows that left a list before an instant: a list that changes much
	// would fill the database.
	deleteUnlisted = `
DELETE FROM entries WHERE ` + unlisted + ` AND id IN (SELECT id FROM entries WHERE ` + unlisted + ` LIMIT $2)`
	unlisted = `source = 'list' AND place <> '' AND place <> scope AND (expires_at < $1 OR ended_at > 0 AND ended_at < $1)`
	ended    = `place <> '' AND (expires_at < $1 OR ended_at > 0 AND ended_at < $1)`
	// deleteVersions deletes up to maxDeletedVersions former versions of entries. A bouncer
	// without a request since the instant is deleted too, or is sent everything again.
	deleteVersions = `
DELETE FROM entry_versions WHERE (entry_id, revision) IN (
    SELECT entry_id, revision FROM entry_versions WHERE expires_at < $1
    OR NOT EXISTS (SELECT 1 FROM entries WHERE entries.id = entry_versions.entry_id) LIMIT $2)`
	keepEndedTokens = `
INSERT INTO ended_credentials (id, revision)
SELECT id, 0 FROM tokens WHERE (expires_at < $1 OR revoked_at > 0 AND revoked_at < $1) AND author <> $2
ON CONFLICT (id) DO NOTHING`
	// deleteProfiles deletes the rows of deleted profiles.
	deleteProfiles = `DELETE FROM profiles WHERE deleted_at > 0 AND deleted_at < $1`
	deleteDecided  = `DELETE FROM proposals WHERE place <> '' AND decided_at < $1`
	deleteIdle     = `DELETE FROM proposals WHERE place = '' AND updated_at < $1`
	// deleteRuns keeps the last run of each job, from which its next one follows.
	deleteRuns          = `DELETE FROM job_runs WHERE started_at < $1 AND id NOT IN (SELECT max(id) FROM job_runs GROUP BY job)`
	deleteAttacks       = `DELETE FROM attacks WHERE ended_at > 0 AND ended_at < $1`
	deleteNotifications = `DELETE FROM notifications WHERE at < $1`
	deleteEndedTokens   = `DELETE FROM tokens WHERE (expires_at < $1 OR revoked_at > 0 AND revoked_at < $1) AND author <> $2`
)

// Retention ends and deletes rows whose retention time has passed.
type Retention struct{ db *db.DB }

// NewRetention returns the store that applies the retention in a database.
func NewRetention(d *db.DB) *Retention { return &Retention{d} }

// SQLite has one writer: 200,000 entries at once would keep every other change waiting for ten
// seconds, longer than its deadline.
const (
	// maxDeleted is how many entries one transaction deletes.
	maxDeleted = 2000
	// maxDeletedVersions is the same for their versions, which have fewer indexes. Each
	// transaction looks for them in the whole table.
	maxDeletedVersions = 20_000
)

// keepUnlisted is for how long rows that left a list and emptied profiles are kept, for nodes that were away.
const keepUnlisted = 7 * 24 * time.Hour

// DeleteEndedBefore deletes the blocks and exemptions that ended before an instant, those that left a
// list a week ago, and the profiles that were deleted a week ago. After an error, deleted is the number of those that are deleted nevertheless.
func (s *Retention) DeleteEndedBefore(ctx context.Context, before time.Time) (deleted int, err error) {
	if deleted, err = db.WriteInParts(ctx, s.db, maxDeleted, deleteEnded, db.ToMS(before)); err != nil {
		return deleted, err
	}
	week := s.db.LocalNow().Add(-keepUnlisted)
	more, err := db.WriteInParts(ctx, s.db, maxDeleted, deleteUnlisted, db.ToMS(week))
	if deleted += more; err != nil {
		return deleted, err
	}
	if _, err = db.WriteInParts(ctx, s.db, maxDeletedVersions, deleteVersions, db.ToMS(before)); err != nil {
		return deleted, err
	}
	_, err = deleteBefore(ctx, s.db, deleteProfiles, week)
	return deleted, err
}

// DeleteTokensBefore deletes the tokens that expired or were revoked before an instant. It
// keeps their ids as ended credentials, and the tokens of identity.BootstrapAuthor.
func (s *Retention) DeleteTokensBefore(ctx context.Context, before time.Time) (deleted int, err error) {
	err = s.db.Write(ctx, func(t *db.Tx) error {
		if _, err := t.Exec(keepEndedTokens, db.ToMS(before), identity.BootstrapAuthor); err != nil {
			return err
		}
		n, err := t.Exec(deleteEndedTokens, db.ToMS(before), identity.BootstrapAuthor)
		deleted = int(n)
		return err
	})
	return deleted, err
}

// DeleteRuns deletes the runs that started before an instant.
func (s *Retention) DeleteRuns(ctx context.Context, before time.Time) (int, error) {
	return deleteBefore(ctx, s.db, deleteRuns, before)
}

// DeleteNotifications deletes the notifications from before an instant, sent or not.
func (s *Retention) DeleteNotifications(ctx context.Context, before time.Time) (int, error) {
	return deleteBefore(ctx, s.db, deleteNotifications, before)
}

// DeleteAttacks deletes the attacks that ended before an instant.
func (s *Retention) DeleteAttacks(ctx context.Context, before time.Time) (int, error) {
	return deleteBefore(ctx, s.db, deleteAttacks, before)
}

// DeleteDecidedProposals deletes the proposals that were decided before an instant.
func (s *Retention) DeleteDecidedProposals(ctx context.Context, before time.Time) (int, error) {
	return deleteBefore(ctx, s.db, deleteDecided, before)
}

// DeleteIdleProposals deletes the open proposals whose range has not had the offences that a
// proposal needs since an instant.
func (s *Retention) DeleteIdleProposals(ctx context.Context, before time.Time) (int, error) {
	return deleteBefore(ctx, s.db, deleteIdle, before)
}

// deleteBefore runs a statement that deletes rows from before an instant.
func deleteBefore(ctx context.Context, d *db.DB, statement string, before time.Time) (deleted int, err error) {
	err = d.Write(ctx, func(t *db.Tx) error {
		n, err := t.Exec(statement, db.ToMS(before))
		deleted = int(n)
		return err
	})
	return deleted, err
}
