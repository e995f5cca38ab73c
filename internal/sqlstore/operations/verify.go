package operations

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	readChainBefore = `SELECT id, hash FROM audit_chain WHERE id <= $1 ORDER BY id DESC LIMIT 1`
	setAnchor       = `UPDATE audit_anchor SET entry_id = $1, hash = $2 WHERE id = 1`
	deleteChain     = `DELETE FROM audit_chain WHERE id <= $1`

	// readExpired finds the newest record before the first that must be kept: the chain loses
	// its beginning, never a record in between.
	readExpired = `
SELECT coalesce((SELECT min(id) FROM audit WHERE at >= $1) - 1, (SELECT max(id) FROM audit), 0)`
	readNthRecord = `SELECT id FROM audit ORDER BY id LIMIT 1 OFFSET $1`
	deleteEntries = `DELETE FROM audit WHERE id <= $1`

	readChained = `
SELECT a.id, a.at, a.actor_kind, a.actor_id, a.actor_name, a.actor_address, a.action, a.object, a.object_id,
       a.summary, a.before, a.after, a.revision, c.hash
FROM audit a LEFT JOIN audit_chain c ON c.id = a.id WHERE a.id > $1 ORDER BY a.id LIMIT $2`
)

// expireAction is the action of the record that retention writes about the deleted records. The
// record contains the anchor, so that the chain itself contains it.
const expireAction = "audit.expire"

// expired is the content of the record that retention writes.
type expired struct {
	Records int64  `json:"records"`
	Through int64  `json:"through"`
	Hash    string `json:"hash,omitzero"`
}

// maxExpired is how many records one transaction deletes: it locks the revision, for which every
// other change waits.
const maxExpired = 20_000

// DeleteRecordsBefore is the retention of the audit log: it deletes the records from before an
// instant and returns their number, also after an error. If clocks differ, an older record may
// follow a newer one; it stays until the newer one is deleted.
func (s *Retention) DeleteRecordsBefore(ctx context.Context, before time.Time) (removed int64, err error) {
	for last := int64(maxExpired); last == maxExpired; removed += last {
		last = 0 // a transaction may run twice, and fail
		err = s.db.Change(ctx, audit.SystemActor("retention"), func(t *db.Tx) (err error) {
			last, err = deleteOldest(t, before)
			return err
		})
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// deleteOldest deletes up to maxExpired records from before an instant, moves the anchor behind
// them, and records that.
func deleteOldest(t *db.Tx, before time.Time) (removed int64, err error) {
	if err := t.ChainAudit(); err != nil {
		return 0, err
	}
	left := expired{}
	if _, err := t.One(readExpired, []any{db.ToMS(before)}, &left.Through); err != nil {
		return 0, err
	}
	var last int64
	more, err := t.One(readNthRecord, []any{maxExpired - 1}, &last)
	if err != nil {
		return 0, err
	}
	if more {
		left.Through = min(left.Through, last)
	}
	removed, err = t.Exec(deleteEntries, left.Through)
	if err != nil {
		return 0, err
	}
	if removed == 0 {
		return 0, db.ErrUnchanged
	}
	anchor, moved, err := t.Link(readChainBefore, left.Through)
	if err != nil {
		return 0, err
	}
	if moved {
		left.Through, left.Hash = anchor.ID, anchor.Hash.String()
		if _, err := t.Exec(setAnchor, anchor.ID, anchor.Hash[:]); err != nil {
			return 0, err
		}
		if _, err := t.Exec(deleteChain, anchor.ID); err != nil {
			return 0, err
		}
	}
	left.Records = removed
	summary := fmt.Sprintf("Retention removed %s from before %s.", phrase.Count(removed, "audit record"), phrase.At(before))
	return removed, t.Record(expireAction, "audit", strconv.FormatInt(left.Through, 10), summary, nil, left)
}

// chained is a record and its hash in the chain, nil if it has none.
type chained struct {
	*audit.Record
	hash []byte
}

func scanChained(r db.Row) (c chained, err error) {
	c.Record, err = db.ScanRecord(extended{r, &c.hash})
	return c, err
}

// extended scans additional columns after those of the scan function.
type extended struct {
	db.Row
	more any
}

func (e extended) Scan(into ...any) error { return e.Row.Scan(append(into, e.more)...) }

// VerifyAudit implements audit.Verifier. It reads one state of the database with short
// statements.
func (s *Audit) VerifyAudit(ctx context.Context, kept audit.Link) (v audit.Verification, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		c := verification{kept: kept}
		if err := c.read(t); err != nil {
			return err
		}
		v = c.result()
		return nil
	})
	return v, err
}

// verification is one pass over the chain.
type verification struct {
	audit.Verification
	kept     audit.Link
	attested bool // a record in the chain names the anchor
	found    bool // the kept head is in the chain
	// emptied are the records that do not fit because they were emptied, with the hash of what is left of them, and
	// erased what records of erasures say about such records.
	emptied []emptiedRecord
	erased  map[int64]string
}

func (c *verification) read(t *db.Tx) error {
	var err error
	if c.Anchor, _, err = t.Link(db.ReadAnchor); err != nil {
		return err
	}
	c.Head = c.Anchor
	c.attested = c.Anchor.Hash == audit.Hash{}
	c.compare()
	for last := int64(0); ; {
		page, err := db.Each(t, scanChained, readChained, last, db.ChainBatch)
		if err != nil {
			return err
		}
		for _, e := range page {
			c.take(e)
		}
		if len(page) < db.ChainBatch {
			break
		}
		last = page[len(page)-1].ID
	}
	newest, found, err := t.Link(db.ReadChainHead)
	if err == nil && found && newest.ID > c.Head.ID {
		c.fail(newest.ID, "Record %d was removed.", newest.ID)
	}
	return err
}

func (c *verification) take(e chained) {
	switch {
	case e.ID <= c.Anchor.ID:
		if c.Anchor.Hash != (audit.Hash{}) {
			c.fail(e.ID, "Record %d comes before what retention has removed.", e.ID)
		}
		c.Uncovered++
		return
	case e.hash == nil:
		c.Pending++
		return
	case c.Pending > 0:
		c.fail(e.ID, "A record before %d is not in the chain.", e.ID)
	}
	want := e.Hash(c.Head.Hash)
	fits := string(e.hash) == string(want[:])
	if !fits && len(e.hash) == len(want) && isErased(e.Record) {
		// What it held is gone; its hash stays, so that the records after it fit.
		c.emptied = append(c.emptied, emptiedRecord{e.ID, e.Record.Hash(audit.Hash{}).String()})
		want = audit.Hash(e.hash)
	}
	if string(e.hash) != string(want[:]) {
		c.fail(e.ID, "Record %d does not fit: it, or one before it, was changed, removed or added.", e.ID)
	}
	if c.Records == 0 {
		c.First = e.At
	}
	c.Records++
	c.Head = audit.Link{ID: e.ID, Hash: want}
	if e.Action == expireAction && e.ObjectID == strconv.FormatInt(c.Anchor.ID, 10) &&
		strings.Contains(string(e.After), `"`+c.Anchor.Hash.String()+`"`) {
		c.attested = true
	}
	if e.Action == eraseAction && fits { // its own content is proven
		c.explain(e.Record)
	}
	c.compare()
}

// explain takes the records that an erasure names as erased by it.
func (c *verification) explain(e *audit.Record) {
	var done erasureSnapshot
	if json.Unmarshal(e.After, &done) != nil {
		return
	}
	if c.erased == nil {
		c.erased = map[int64]string{}
	}
	for _, r := range done.Records { // the newest erasure of a record says what is left of it
		c.erased[r.ID] = r.Hash
	}
}

// compare checks whether the current link of the chain is the kept head.
func (c *verification) compare() {
	if c.kept.Hash == c.Head.Hash && c.Head.Hash != (audit.Hash{}) && (c.kept.ID == 0 || c.kept.ID == c.Head.ID) {
		c.found = true
	}
}

// fail keeps only the first problem, since later ones follow from it.
func (c *verification) fail(id int64, format string, args ...any) {
	if c.Problem == "" {
		c.ProblemID, c.Problem = id, fmt.Sprintf(format, args...)
	}
}

func (c *verification) result() audit.Verification {
	if !c.attested {
		c.fail(0, "The chain begins after record %d, and no record says that retention removed it.", c.Anchor.ID)
	}
	for _, r := range c.emptied {
		if c.erased[r.ID] != r.Hash {
			c.fail(r.ID, "Record %d was changed: it is emptied, and no record says that an erasure did so.", r.ID)
		}
	}
	switch {
	case c.kept == audit.Link{}:
		c.Kept = audit.HeadNotGiven
	case c.found:
		c.Kept = audit.HeadInChain
	case c.kept.ID > 0 && c.kept.ID < c.Anchor.ID && c.Anchor.Hash != (audit.Hash{}):
		c.Kept = audit.HeadExpired
	default:
		c.Kept = audit.HeadMissing
		c.fail(c.kept.ID, "The head that was kept is not in the chain: records up to it were changed or removed since.")
	}
	c.Intact = c.Problem == ""
	return c.Verification
}
