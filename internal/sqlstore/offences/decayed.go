package offences

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	// keepStates is how long a state is kept at least after the newest offence of its key.
	keepStates = 30 * 24 * time.Hour
	// keepUnused is how long the states of a policy are kept that has no escalation, or that
	// there is no more: somebody may put it back.
	keepUnused = 365 * 24 * time.Hour
)

const (
	// A state at level 0 without recent offences is that of a new key.
	deleteAtZero = `DELETE FROM escalations WHERE touched < $1 AND level = 0`
	// deleteDecayed deletes the states whose levels have all fallen; see offences.State. The
	// end of a block that an operator moved is that of the block. One that is past its
	// retention has ended.
	deleteDecayed = `
DELETE FROM escalations WHERE policy_id = $1 AND touched < $2
AND last_at < $3 - level * $4 AND decayed_to < $3 - level * $4
AND COALESCE((SELECT CASE WHEN b.ended_at > 0 THEN b.ended_at ELSE b.expires_at END FROM entries b WHERE b.id = escalations.block_id),
    CASE WHEN block_id <> '' AND ended_at > $3 THEN 0 ELSE ended_at END) < $3 - level * $4`
)

var deleteUnused = db.Asked([]string{db.IntColumn}, "policy_id") + `
DELETE FROM escalations WHERE touched < $2 AND policy_id NOT IN (SELECT policy_id FROM asked)`

// deleteStates deletes the states of keys in escalations that say no more than that of a new
// key, and those of policies without an escalation after a year. decays has all others; see
// offences.DecaysOf.
func deleteStates(ctx context.Context, d *db.DB, now time.Time, decays map[int64]time.Duration) (err error) {
	quiet := db.ToMS(now.Add(-keepStates))
	remove := func(statement string, args ...any) {
		if err != nil {
			return
		}
		err = d.Write(ctx, func(t *db.Tx) error {
			_, err := t.Exec(statement, args...)
			return err
		})
	}
	remove(deleteAtZero, quiet)
	var used [][]any
	for policy, after := range decays {
		used = append(used, []any{policy})
		remove(deleteDecayed, policy, quiet, db.ToMS(now), after.Milliseconds())
	}
	asked, jsonErr := db.BulkJSON(used)
	if jsonErr != nil {
		return jsonErr
	}
	remove(deleteUnused, asked, db.ToMS(now.Add(-keepUnused)))
	return err
}
