package sqlstore

import (
	"context"
	"time"
)

const (
	// deleteEnded forgets what ended before an instant. Rows that hold their
	// pattern are left alone; EndExpired takes it from them first.
	deleteEnded     = `DELETE FROM entries WHERE place <> '' AND (expires_at < $1 OR ended_at > 0 AND ended_at < $1)`
	keepEndedTokens = `
INSERT INTO ended_credentials (id, revision)
SELECT id, 0 FROM tokens WHERE expires_at < $1 OR revoked_at > 0 AND revoked_at < $1
ON CONFLICT (id) DO NOTHING`
	deleteEndedTokens = `DELETE FROM tokens WHERE expires_at < $1 OR revoked_at > 0 AND revoked_at < $1`
)

// EndExpired marks the blocks and exemptions that have expired at an instant as
// ended and returns how many those were. Nothing that decides depends on it.
func (s *operationStore) EndExpired(ctx context.Context, at time.Time) (ended int, err error) {
	err = s.write(ctx, func(t *tx) error {
		n, err := t.exec(giveUpAll, toMS(at))
		ended = int(n)
		return err
	})
	return ended, err
}

// DeleteEndedBefore forgets the blocks and exemptions that ended before an
// instant.
func (s *operationStore) DeleteEndedBefore(ctx context.Context, before time.Time) (deleted int, err error) {
	return s.deleteBefore(ctx, deleteEnded, before)
}

// DeleteTokensBefore forgets the tokens that expired or were revoked before an
// instant, all but that their ids have ended.
func (s *operationStore) DeleteTokensBefore(ctx context.Context, before time.Time) (deleted int, err error) {
	err = s.write(ctx, func(t *tx) error {
		if _, err := t.exec(keepEndedTokens, toMS(before)); err != nil {
			return err
		}
		n, err := t.exec(deleteEndedTokens, toMS(before))
		deleted = int(n)
		return err
	})
	return deleted, err
}
