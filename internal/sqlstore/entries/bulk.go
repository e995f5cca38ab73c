package entries

import (
	"fmt"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// blockTypes are the types of the columns of intoEntries. blockRow returns a row of them.
var blockTypes = []string{db.TextColumn, db.Same("'block'"), db.TextColumn, db.BytesColumn, db.BytesColumn, db.TextColumn, db.TextColumn, db.TextColumn, db.IntColumn, db.IntColumn,
	db.Parameter(2, db.IntColumn), db.IntColumn, db.Parameter(3, db.IntColumn), db.TextColumn, db.TextColumn}

// blockRow returns a block as a row for blockTypes.
func blockRow(b *blocks.Entry, pattern string) []any {
	low, high := db.NetworkBounds(b.Pattern)
	return []any{b.ID, pattern, low, high, b.Reason, b.Author, string(b.Source), b.PolicyID, b.Level, db.ExpiryToMS(b.Expires), b.Scope, b.Scope}
}

// AddBlocks adds blocks with their audit records, and returns the added ones: a pattern with an
// active block keeps that block. It fills in ID, Created, Revision and Author.
func (t Tx) AddBlocks(all []*blocks.Entry) (made map[*blocks.Entry]bool, err error) {
	rows, patterns := make([][]any, len(all)), make([][]any, len(all))
	byID := make(map[string]*blocks.Entry, len(all))
	for n, b := range all {
		if b.ID, err = db.NewID(); err != nil {
			return nil, err
		}
		b.Created, b.Revision, b.Author = t.Now, t.Revision, t.By.Name
		if err := checkEntry(b, t.Now); err != nil {
			return nil, err
		}
		pattern := b.Pattern.String()
		rows[n] = blockRow(b, pattern)
		patterns[n] = []any{pattern}
		byID[b.ID] = b
	}
	if err := t.ExecOf(giveUpOf, patterns, db.ToMS(t.Now)); err != nil {
		return nil, err
	}
	added, err := db.EachOf(t.Tx, db.ScanText, insertBlocks, rows, db.ToMS(t.Now), t.Revision)
	if err != nil {
		return nil, err
	}
	made = make(map[*blocks.Entry]bool, len(added))
	for _, id := range added {
		made[byID[id]] = true
	}
	var records []*audit.Record
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
