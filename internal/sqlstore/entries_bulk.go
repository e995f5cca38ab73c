package sqlstore

import (
	"fmt"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
)

// blockTypes are those of intoEntries's columns.
var blockTypes = []string{textColumn, same("'block'"), textColumn, bytesColumn, bytesColumn, textColumn, parameter(2, textColumn), textColumn, intColumn, intColumn,
	parameter(3, intColumn), intColumn, parameter(4, intColumn)}

// addBlocks adds blocks with their audit records, and returns those that were
// added: a pattern that has an active block keeps it. It fills in ID, Created,
// Revision and Author.
func (t *tx) addBlocks(all []*blocks.Entry) (made map[*blocks.Entry]bool, err error) {
	rows, patterns := make([][]any, len(all)), make([][]any, len(all))
	byID := make(map[string]*blocks.Entry, len(all))
	for n, b := range all {
		if b.ID, err = newID(); err != nil {
			return nil, err
		}
		b.Created, b.Revision, b.Author = t.now, t.revision, t.by.Name
		if err := checkEntry(b, t.now); err != nil {
			return nil, err
		}
		pattern := b.Pattern.String()
		low, high := bounds(b.Pattern)
		rows[n] = []any{b.ID, pattern, low, high, b.Reason, string(b.Source), b.PolicyID, b.Level, expiryToMS(b.Expires)}
		patterns[n] = []any{pattern}
		byID[b.ID] = b
	}
	if err := t.execOf(giveUpOf, patterns, toMS(t.now)); err != nil {
		return nil, err
	}
	added, err := eachOf(t, scanText, insertBlocks, rows, t.by.Name, toMS(t.now), t.revision)
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
		after, err := snapshot(snapshotOf(b))
		if err != nil {
			return nil, err
		}
		records = append(records, &audit.Record{Action: "block.add", Object: "block", ObjectID: b.ID,
			Summary: fmt.Sprintf("Added the block of %q.", b.Pattern), After: []byte(after)})
	}
	return made, addEntries(t, records)
}
