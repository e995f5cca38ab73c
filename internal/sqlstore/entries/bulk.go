package entries

import (
	"fmt"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// bulk are the statements that change many entries of one kind.
type bulk struct{ giveUp, insert, holders, end string }

var bulkOf = map[blocks.Kind]bulk{blocks.Block: newBulk(blocks.Block), blocks.Exemption: newBulk(blocks.Exemption)}

func newBulk(kind blocks.Kind) bulk {
	is := "'" + string(kind) + "'"
	return bulk{
		// What is added to columns keeps SQLite from reading all entries that have ever expired, and Postgres all of
		// the kind; place <> id, which means place = scope here, keeps it from reading all that are active.
		giveUp: db.Asked([]string{db.TextColumn}, "pattern") + `
UPDATE entries SET place = id WHERE kind || '' = ` + is + ` AND place <> id AND +expires_at <= $2 AND pattern IN (SELECT pattern FROM asked)`,
		insert: insertEntries + ` ON CONFLICT (pattern, kind, place) DO NOTHING RETURNING id`,
		holders: db.Asked([]string{db.TextColumn, db.TextColumn}, "pattern", "scope") + `
SELECT ` + prefixed("e.", EntryFields) + ` FROM asked CROSS JOIN entries e WHERE e.kind = ` + is + ` AND e.pattern = asked.pattern AND e.place = asked.scope`,
		end: db.Asked([]string{db.TextColumn, db.TextColumn}, "pattern", "scope") + `
UPDATE entries SET ended_at = $2, ended_by = $3, place = id, revision = $4 WHERE kind = ` + is + ` AND (pattern, place) IN (SELECT pattern, scope FROM asked)`,
	}
}

// endChallenges ends the blocks by which escalations challenge the asked patterns.
var endChallenges = db.Asked([]string{db.TextColumn, db.TextColumn, db.IntColumn}, "pattern", "scope", "policy_id") + `
UPDATE entries SET ended_at = $2, ended_by = $3, place = id, revision = $4
WHERE kind = 'block' AND action = '` + blocks.Challenge + `' AND source = '` + string(blocks.Automatic) + `' AND (pattern, place) IN (SELECT pattern, scope FROM asked)
AND EXISTS (SELECT 1 FROM asked WHERE asked.pattern = entries.pattern AND asked.policy_id = entries.policy_id)
RETURNING id, pattern`

// AddBlocks adds blocks with their audit records, and returns the added ones: a pattern with an
// active block keeps that block, unless the same escalation challenges by it and goes on to its next
// level. It fills in ID, Created, Revision and Author.
func (t Tx) AddBlocks(all []*blocks.Entry) (made map[*blocks.Entry]bool, err error) {
	rows, patterns, steps := make([][]any, len(all)), make([][]any, len(all)), make([][]any, len(all))
	byID := make(map[string]*blocks.Entry, len(all))
	for n, b := range all {
		if b.ID, err = db.NewID(); err != nil {
			return nil, err
		}
		b.Created, b.Revision, b.Author = blocks.MomentOf(t.Now), t.Revision, t.By.Name
		if err := checkEntry(b, t.Now); err != nil {
			return nil, err
		}
		pattern := b.Pattern.String()
		rows[n] = newRow(b)
		patterns[n], steps[n] = []any{pattern}, []any{pattern, b.Scope, b.PolicyID}
		byID[b.ID] = b
	}
	if err := t.ExecOf(bulkOf[blocks.Block].giveUp, patterns, db.ToMS(t.Now)); err != nil {
		return nil, err
	}
	var records []*audit.Record
	if _, err = db.EachOf(t.Tx, func(row db.Row) (none struct{}, err error) {
		r := &audit.Record{Action: "block.end", Object: "block"}
		var pattern string
		err = row.Scan(&r.ObjectID, &pattern)
		r.Summary = fmt.Sprintf("Ended the challenge of %q: the escalation has reached its next level.", pattern)
		records = append(records, r)
		return none, err
	}, endChallenges, steps, db.ToMS(t.Now), t.By.Name, t.Revision); err != nil {
		return nil, err
	}
	added, err := db.EachOf(t.Tx, db.ScanText, bulkOf[blocks.Block].insert, rows)
	if err != nil {
		return nil, err
	}
	made = make(map[*blocks.Entry]bool, len(added))
	for _, id := range added {
		made[byID[id]] = true
	}
	for _, b := range all {
		if !made[b] {
			continue
		}
		after, err := db.Snapshot(snapshotOf(b))
		if err != nil {
			return nil, err
		}
		records = append(records, &audit.Record{Action: "block.add", Object: "block", ObjectID: b.ID,
			Summary: fmt.Sprintf("Added the block of %q.", b.Pattern), After: []byte(after)})
	}
	return made, t.AddRecords(records)
}
