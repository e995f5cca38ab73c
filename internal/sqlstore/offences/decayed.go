package offences

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	// keepStates is the minimum time that a state is kept after the newest offence of its key.
	keepStates = 30 * 24 * time.Hour
	// keepUnused is how long states are kept after their policy, or its escalation, was
	// deleted: somebody may restore it.
	keepUnused = 365 * 24 * time.Hour
)

const (
	// A state at level 0 without recent offences equals that of a new key.
	deleteAtZero = `DELETE FROM escalations WHERE touched < $1 AND level = 0`
	// deleteDecayed deletes the states whose levels have decayed to 0; see offences.State. If
	// an operator changed the expiry of a block, the block has the valid end. A block that
	// retention has deleted has ended.
	deleteDecayed = `
DELETE FROM escalations WHERE policy_id = $1 AND touched < $2
AND last_at < $3 - level * $4 AND decayed_to < $3 - level * $4
AND COALESCE((SELECT CASE WHEN b.ended_at > 0 THEN b.ended_at ELSE b.expires_at END FROM entries b WHERE b.id = escalations.block_id),
    CASE WHEN block_id <> '' AND ended_at > $3 THEN 0 ELSE ended_at END) < $3 - level * $4`
)

var deleteUnused = db.Asked([]string{db.IntColumn}, "policy_id") + `
DELETE FROM escalations WHERE touched < $2 AND policy_id NOT IN (SELECT policy_id FROM asked)`

// deleteStates deletes the escalation states that equal that of a new key, and after a year
// those of policies without an escalation. decays has the policies with an escalation; see
// offences.DecaysOf.
func deleteStates(ctx context.Context, d *db.DB, now time.Time, decays map[int64]time.Duration) (err error) {
	quiet := db.ToMS(now.Add(-keepStates))
	remove := func(statement string, args ...any) {
		if err != nil {
			return
		}
		err = d.Run(ctx, statement, args...)
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
