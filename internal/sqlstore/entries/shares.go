package entries

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// The row of an entry is the share that lasts longest, so that all that matches keys, the previous
// release too, reads entries only; entry_sources has the other shares. An entry that the previous
// release has changed is therefore read right: its change was one of the longest share.

// heldFields are the fields of a share in both tables; its holder's name and ref are before them.
var heldFields = strings.Join(shareColumns.names[holderFields:], ", ")

const holderFields = 2

var (
	shareTypes = append([]string{db.TextColumn}, shareColumns.types...) // behind the id of the entry
	setEntries = db.Asked(slices.Concat(shareTypes, changedTerms.types), slices.Concat([]string{"id"}, shareColumns.names, changedTerms.names)...) + `
UPDATE entries SET source_name = asked.name, source_ref = asked.ref, ` + strings.Join(slices.Concat(shareColumns.sets(holderFields, "asked."), changedTerms.sets(0, "asked.")), ", ") + `, revision = $2
FROM asked WHERE entries.id = asked.id`
	putShares = `
INSERT INTO entry_sources (entry_id, ` + strings.Join(shareColumns.names, ", ") + `) ` + db.BulkSelect(shareTypes) + `
ON CONFLICT (entry_id, name, ref) DO UPDATE SET ` + strings.Join(shareColumns.sets(holderFields, "excluded."), ", ")
	dropShares = db.Asked([]string{db.TextColumn, db.TextColumn, db.TextColumn}, "id", "name", "ref") + `
DELETE FROM entry_sources WHERE (entry_id, name, ref) IN (SELECT id, name, ref FROM asked)`
)

// findShares reads the shares of entries. The effective name of the row of an entry is computed
// here, since the previous release writes none.
var findShares = db.Asked([]string{db.TextColumn}, "id") + `
SELECT e.id, 0, CASE WHEN e.source_name = '' THEN e.author ELSE e.source_name END, e.source_ref, ` + prefixed("e.", heldFields) + `
FROM asked CROSS JOIN entries e WHERE e.id = asked.id
UNION ALL SELECT s.entry_id, 1, s.name, s.ref, ` + prefixed("s.", heldFields) + `
FROM asked CROSS JOIN entry_sources s WHERE s.entry_id = asked.id`

func prefixed(prefix, fields string) string {
	return prefix + strings.ReplaceAll(fields, ", ", ", "+prefix)
}

type foundShare struct {
	id      string
	isOther bool
	blocks.Share
}

func scanShare(r db.Row) (s foundShare, err error) {
	var other int64
	err = r.Scan(shareColumns.appendPointers([]any{&s.id, &other}, &s.Share)...)
	s.isOther = other == 1
	return s, err
}

// shares returns the shares of entries by id, that of the entry's own row first and then those
// that last longest. Shares that had expired before the entry did are left out.
func (t Tx) shares(ids ...string) (map[string][]blocks.Share, error) {
	rows := make([][]any, len(ids))
	for i, id := range ids {
		rows[i] = []any{id}
	}
	all, err := db.EachOf(t.Tx, scanShare, findShares, rows)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b foundShare) int {
		switch {
		case a.isOther != b.isOther:
			return cmp.Compare(strconv.FormatBool(a.isOther), strconv.FormatBool(b.isOther))
		case blocks.IsLater(a.Expires, b.Expires):
			return -1
		case blocks.IsLater(b.Expires, a.Expires):
			return 1
		}
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Ref, b.Ref))
	})
	byID := make(map[string][]blocks.Share, len(ids))
	for _, s := range all {
		hasExpired := !s.Expires.IsZero() && !t.Now.Before(s.Expires)
		if !s.isOther || !hasExpired && blocks.ShareBy(byID[s.id], s.Holder) < 0 {
			byID[s.id] = append(byID[s.id], s.Share)
		}
	}
	return byID, nil
}

func (t Tx) sharesOf(e *blocks.Entry) ([]blocks.Share, error) {
	all, err := t.shares(e.ID)
	return all[e.ID], err
}

// held is a change of the shares of an active entry from was, as sharesOf returns it, to all. At
// least one share must be left. The terms of the entry are as they will be.
type held struct {
	entry    *blocks.Entry
	was, all []blocks.Share
}

// keepsRow reports whether the row of the entry stays as it is: that of the share that lasts longest.
func (c *held) keepsRow() bool { return c.all[blocks.Longest(c.all)] == c.was[0] }

// hold makes one change of an entry, as held has it, and returns the changed entry.
func (t Tx) hold(entry *blocks.Entry, was, all []blocks.Share) (*blocks.Entry, error) {
	change := held{entry, was, all}
	if err := t.holdAll([]held{change}); err != nil {
		return nil, err
	}
	if change.keepsRow() { // for the version that an operator sees
		if err := t.ExecOf(setEntries, [][]any{entryRow(entry, was[0])}, t.Revision); err != nil {
			return nil, err
		}
	}
	after := *entry
	after.SetShare(all[blocks.Longest(all)])
	after.Revision = t.Revision
	return &after, nil
}

// holdAll changes the shares of different entries. It writes the rows of entries only where nodes must know: their
// indexes are most of the time of a pull.
func (t Tx) holdAll(changes []held) error {
	var set, drop, put [][]any
	for _, c := range changes {
		longest := blocks.Longest(c.all)
		main := c.all[longest]
		if !c.keepsRow() {
			set = append(set, entryRow(c.entry, main))
		}
		for i, s := range c.was {
			isKept := i > 0 && s.Holder != main.Holder && blocks.ShareBy(c.all, s.Holder) >= 0
			if i > 0 && !isKept { // the first is not in entry_sources
				drop = append(drop, []any{c.entry.ID, s.Name, s.Ref})
			}
		}
		for i, s := range c.all {
			if i != longest && !slices.Contains(c.was[1:], s) {
				put = append(put, shareRow(c.entry.ID, s))
			}
		}
	}
	if err := t.ExecOf(setEntries, set, t.Revision); err != nil {
		return err
	}
	if err := t.ExecOf(dropShares, drop); err != nil {
		return err
	}
	return t.ExecOf(putShares, put)
}

func shareRow(id string, s blocks.Share) []any { return shareColumns.appendValues([]any{id}, &s) }

// entryRow returns a row of setEntries.
func entryRow(e *blocks.Entry, s blocks.Share) []any {
	return changedTerms.appendValues(shareRow(e.ID, s), &e.EntryTerms)
}

// storedHolder returns the name and the ref in the row of an entry that is added.
func storedHolder(e *blocks.Entry) blocks.Holder {
	if e.From == nil {
		return blocks.Holder{}
	}
	return *e.From
}

// Shares implements admin.EntryStore.
func (s *Store) Shares(ctx context.Context, ids ...string) (all map[string][]blocks.Share, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	err = s.db.View(ctx, func(t *db.Tx) error {
		all, err = In(t).shares(ids...)
		return err
	})
	return all, err
}

// EndShare implements admin.EntryStore.
func (s *Store) EndShare(ctx context.Context, by audit.Actor, kind blocks.Kind, id string, h blocks.Holder, reason string) (*blocks.Entry, error) {
	return changeEntries(ctx, s, by, func(t Tx) (*blocks.Entry, error) { return t.endShare(kind, id, h, reason) })
}

func (t Tx) endShare(kind blocks.Kind, id string, h blocks.Holder, reason string) (*blocks.Entry, error) {
	before, err := t.find(kind, id)
	if err != nil {
		return nil, err
	}
	was, err := t.sharesOf(before)
	if err != nil {
		return nil, err
	}
	own := blocks.ShareBy(was, h)
	switch {
	case own < 0 || !before.ActiveAt(t.Now):
		return nil, fault.New(fault.NotFound, "The source %q does not hold the %s of %q.", h.Name, kind, before.Pattern)
	case len(was) == 1:
		return t.end(kind, id, reason)
	}
	all := slices.Delete(slices.Clone(was), own, own+1)
	after, err := t.hold(before, was, all)
	if err != nil {
		return nil, err
	}
	return after, t.noteShares("update", "Ended the part of "+strconv.Quote(h.Name)+" in", reason, before, after, was, all)
}

// snapshotWith returns the audit log's form of an entry with its shares.
func snapshotWith(e *blocks.Entry, all []blocks.Share) entrySnapshot {
	snapshot := snapshotOf(e)
	if len(all) == 1 && all[0].Holder == (blocks.Holder{Name: e.Author}) {
		return snapshot
	}
	snapshot.Sources = all
	return snapshot
}

// sharesIn returns the shares of a snapshot that have not expired at now.
func (e *entrySnapshot) sharesIn(now time.Time) (all []blocks.Share) {
	sources := e.Sources
	if len(sources) == 0 {
		sources = []blocks.Share{{Holder: blocks.Holder{Name: e.Author}, Reason: e.Reason, Author: e.Author, Source: blocks.Source(e.Source),
			PolicyID: e.PolicyID, Level: int(e.Level), Expires: e.Expires}}
	}
	for _, s := range sources {
		if s.Expires.IsZero() || now.Before(s.Expires) {
			all = append(all, s)
		}
	}
	return all
}

// maxNames bounds the names in a summary.
const maxNames = 10

func namesOf(all []blocks.Share) string {
	names := blocks.NamesOf(all)
	if more := len(names) - maxNames; more > 0 {
		names = append(names[:maxNames:maxNames], strconv.Itoa(more)+" more")
	}
	return strings.Join(names, ", ")
}
