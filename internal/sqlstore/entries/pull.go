package entries

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// listRows reads the rows of one holder that are in force.
const listRows = `
SELECT pattern, expires_at, action FROM entries WHERE source_name = $1 AND source_name <> '' AND kind = $2 AND scope = $3 AND place = scope AND expires_at > $4
UNION ALL SELECT e.pattern, s.expires_at, e.action FROM entry_sources s JOIN entries e ON e.id = s.entry_id
WHERE s.name = $1 AND e.kind = $2 AND e.scope = $3 AND e.place = e.scope AND s.expires_at > $4 AND e.expires_at > $4`

// pullTolerance is by how much the expiry of a row may differ from that in force: what is printed as
// the time that is left differs a little each time.
const pullTolerance = 2 * time.Minute

// patternHash identifies a pattern among the rows of a list, in less memory than its text.
type patternHash [16]byte

func hashOf(pattern string) patternHash {
	sum := sha256.Sum256([]byte(pattern))
	return patternHash(sum[:16])
}

// pulledRow is the state of a row while a list is compared with what is in force.
type pulledRow struct {
	expires int64
	action  blocks.Action
	isSame  bool // it is in force as it is
	isTaken bool // it is in the batch, or was already
}

// Pull implements sources.Entries.
func (s *Store) Pull(ctx context.Context, by audit.Actor, l blocks.ListRows, rows iter.Seq2[blocks.Entry, error], decide func(blocks.PullDiff) error) (diff blocks.PullDiff, err error) {
	ctx = db.AllowLong(ctx)
	fresh := map[patternHash]pulledRow{}
	kept, err := db.WriteTempRows(ctx, importRows(func(yield func(blocks.Entry, error) bool) {
		for e, err := range rows {
			if err == nil {
				e.Action = cmp.Or(l.Action, e.Action)
				h := hashOf(e.Pattern.String())
				if _, twice := fresh[h]; twice {
					continue
				}
				fresh[h] = pulledRow{expires: db.ExpiryToMS(e.Expires), action: e.Action}
				e.Kind, e.Scope, e.Source, e.From, e.Author = l.Kind, l.Scope, blocks.Listed, &blocks.Holder{Name: l.Holder}, l.Holder
			}
			if !yield(e, err) {
				return
			}
		}
	}, s.db.LocalNow()))
	if err != nil {
		return diff, err
	}
	defer kept.Close()
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		for h, row := range fresh { // the transaction may be repeated
			row.isSame, row.isTaken = false, false
			fresh[h] = row
		}
		diff = blocks.PullDiff{Rows: len(fresh)}
		ended, err := compare(t, l, fresh, &diff)
		if err != nil {
			return err
		}
		if err := decide(diff); err != nil {
			return err
		}
		if diff.Added+diff.Ended+diff.Changed == 0 {
			return db.ErrUnchanged
		}
		if err := In(t).endRows(l, ended); err != nil {
			return err
		}
		run := newImportRun(t, blocks.Replace, nil)
		for row, err := range kept.All() {
			if err != nil {
				return err
			}
			if fresh[hashOf(row.Pattern)].isSame {
				continue
			}
			if err := run.take(row); err != nil {
				return err
			}
			if len(run.batch) == importBatch {
				if err := run.flush(); err != nil {
					return err
				}
			}
		}
		if err := run.flush(); err != nil {
			return err
		}
		summary := fmt.Sprintf("Pulled the list %s: %s, %s added, %s ended, %s changed.", l.Holder,
			phrase.Count(diff.Rows, "row"), phrase.Number(diff.Added), phrase.Number(diff.Ended), phrase.Number(diff.Changed))
		return t.Record(string(l.Kind)+".pull", string(l.Kind), l.Holder, summary, nil, pullCounts(diff))
	})
	return diff, err
}

// pullCounts are the numbers of a pull in the audit log.
type pullCounts struct {
	Before  int `json:"before"`
	Rows    int `json:"rows"`
	Added   int `json:"added"`
	Ended   int `json:"ended"`
	Changed int `json:"changed"`
}

// compare marks the rows that are in force as they are, counts, and returns the patterns that are
// in force and not in the pull.
func compare(t *db.Tx, l blocks.ListRows, fresh map[patternHash]pulledRow, diff *blocks.PullDiff) (ended []string, err error) {
	_, err = db.Each(t, func(r db.Row) (none struct{}, err error) {
		var pattern, action string
		var expires int64
		if err := r.Scan(&pattern, &expires, &action); err != nil {
			return none, err
		}
		diff.Before++
		h := hashOf(pattern)
		row, found := fresh[h]
		switch {
		case !found:
			diff.Ended++
			ended = append(ended, pattern)
			return none, nil
		case row.isTaken:
			return none, nil
		}
		row.isTaken = true
		row.isSame = max(row.expires, expires)-min(row.expires, expires) < pullTolerance.Milliseconds() && row.action == blocks.ActionOf(action)
		if !row.isSame {
			diff.Changed++
		}
		fresh[h] = row
		return none, nil
	}, listRows, l.Holder, string(l.Kind), l.Scope, db.ToMS(t.Now))
	for _, row := range fresh {
		if !row.isTaken {
			diff.Added++
		}
	}
	return ended, err
}

// endRows ends the shares of a list in the active entries of patterns, and the entries that nobody
// else holds.
func (t Tx) endRows(l blocks.ListRows, patterns []string) error {
	for len(patterns) > 0 {
		n := min(len(patterns), importBatch)
		asked := make([][]any, n)
		for i, pattern := range patterns[:n] {
			asked[i] = []any{pattern, l.Scope}
		}
		patterns = patterns[n:]
		active, err := db.EachOf(t.Tx, new(EntryScanner).Scan, bulkOf[l.Kind].holders, asked)
		if err != nil {
			return err
		}
		ids := make([]string, len(active))
		for i, e := range active {
			ids[i] = e.ID
		}
		shares, err := t.shares(ids...)
		if err != nil {
			return err
		}
		var alone [][]any
		var others []held
		for _, e := range active {
			var left []blocks.Share
			for _, s := range shares[e.ID] {
				if s.Name != l.Holder {
					left = append(left, s)
				}
			}
			switch len(left) {
			case 0:
				alone = append(alone, []any{e.Pattern.String(), l.Scope})
			case len(shares[e.ID]):
			default:
				others = append(others, held{e, shares[e.ID], left})
			}
		}
		if err := t.ExecOf(bulkOf[l.Kind].end, alone, db.ToMS(t.Now), t.By.Name, t.Revision); err != nil {
			return err
		}
		if err := t.holdAll(others); err != nil {
			return err
		}
	}
	return nil
}
