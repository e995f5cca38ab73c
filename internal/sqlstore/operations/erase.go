package operations

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/wire"
)

// Erasure implements admin.ErasureStore.
type Erasure struct{ db *db.DB }

// NewErasure returns the store that erases keys from a database.
func NewErasure(d *db.DB) *Erasure { return &Erasure{d} }

// eraseAction is the action of the record of an erasure, which lists the records that were emptied:
// verification takes only these as erased.
const eraseAction = "key.erase"

// erasedSummary is the summary of an audit record that was emptied.
const erasedSummary = "Erased: this record was about a key that was erased."

// isErased reports whether a record has the marks of an erasure. Verification wants a record of that erasure too.
func isErased(e *audit.Record) bool {
	return e.Summary == erasedSummary || strings.Contains(strings.Join([]string{e.ObjectID, e.Summary, string(e.Before), string(e.After)}, "\n"), audit.ErasedName)
}

// ofKey are the tables with rows of keys, and what the rows are called.
var ofKey = []struct{ what, table string }{
	{"offences", "offences"}, {"offences by day", "offence_days"}, {"counts of requests", "key_traffic"},
	{"escalations", "escalations"}, {"counts for escalations", "escalation_counts"}, {"steps of escalations", "escalation_events"},
	{"notes", "notes"}, {"labels", "profile_labels"},
}

// texts are the columns of other tables that may name a key, and what their rows are called.
var texts = []struct {
	what, table string
	columns     []string
}{
	{"reports", "documents", []string{"body"}},
	{"attacks", "attacks", []string{"sources"}},
	{"proposals", "proposals", []string{"evidence", "reason"}},
	{"notifications", "notifications", []string{"subject", "body", "facts"}},
}

const (
	emptyProfile = `
UPDATE profiles SET plan = '', labels = '', note = '', limit_rules = '', limit_reason = '', limit_author = '', limit_created_at = 0,
    limit_expires_at = 0, updated_at = $2, updated_by = '', deleted_at = $2, revision = $3
WHERE key = $1 AND deleted_at = 0`
	countProfile     = `SELECT count(*) FROM profiles WHERE key = $1 AND deleted_at = 0`
	deleteProposal   = `DELETE FROM proposals WHERE pattern = $1`
	countProposal    = `SELECT count(*) FROM proposals WHERE pattern = $1`
	deleteCrawler    = `DELETE FROM verified_crawlers WHERE address = $1`
	countCrawler     = `SELECT count(*) FROM verified_crawlers WHERE address = $1`
	isOld            = `place <> '' AND (ended_at > 0 AND ended_at < $2 OR expires_at < $2)`
	deleteOldEntries = `DELETE FROM entries WHERE pattern = $1 AND ` + isOld
	countOldEntries  = `SELECT count(*) FROM entries WHERE pattern = $1 AND ` + isOld
	entriesOfPattern = `SELECT kind, id, ended_at > 0 OR expires_at < $3, ` + isOld + ` FROM entries WHERE pattern = $1 ORDER BY id`
	naming           = `
SELECT id, at, actor_kind, actor_id, actor_name, actor_address, action, object, object_id, summary, before, after, revision FROM audit
WHERE object_id = $1 OR lower(summary) LIKE $2 ESCAPE '\' OR lower(before) LIKE $2 ESCAPE '\' OR lower(after) LIKE $2 ESCAPE '\'
   OR lower(before) LIKE $3 ESCAPE '\' OR lower(after) LIKE $3 ESCAPE '\' ORDER BY id`
	// A record cannot be updated, so that nothing changes one by mistake: it is deleted and written under its id.
	deleteRecord  = `DELETE FROM audit WHERE id = $1`
	rewriteRecord = `
INSERT INTO audit (id, at, actor_kind, actor_id, actor_name, actor_address, action, object, object_id, summary, before, after, revision)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`
)

// Erase implements admin.ErasureStore. A preview changes nothing.
func (s *Erasure) Erase(ctx context.Context, by audit.Actor, key keys.Key, name string, preview bool) (done wire.KeyErasure, err error) {
	ctx = db.AllowLong(ctx)
	do := func(t *db.Tx) error {
		e := &erasing{Tx: t, key: key.String(), name: name, needle: key.String(), preview: preview}
		if network, is := key.Network(); is && network.IsSingleIP() {
			e.needle = network.Addr().String()
		}
		if err := e.all(key); err != nil {
			return err
		}
		done = wire.KeyErasure{Key: key.String(), Name: name, Preview: preview, Erased: e.erased, Left: e.left}
		if preview {
			return nil
		}
		return t.Record(eraseAction, "key", name, "Erased a key, of which this is a keyed hash.", nil, erasureSnapshot{Erased: e.erased, Records: e.records})
	}
	if preview {
		return done, s.db.View(ctx, do)
	}
	return done, s.db.Change(ctx, by, do)
}

// erasureSnapshot is the form of an erasure in the audit log.
type erasureSnapshot struct {
	Erased  []wire.ErasedRows `json:"erased"`
	Records []int64           `json:"records"` // of the audit, which were emptied
}

// erasing is one erasure.
type erasing struct {
	*db.Tx
	key, name string
	needle    string // what texts are searched for: the address of a key that is one, or the key
	preview   bool
	erased    []wire.ErasedRows
	left      []string
	records   []int64
}

func (e *erasing) all(key keys.Key) error {
	e.erased, e.left = []wire.ErasedRows{}, []string{}
	for _, of := range ofKey {
		if err := e.rows(of.what, `SELECT count(*) FROM `+of.table+` WHERE key = $1`, `DELETE FROM `+of.table+` WHERE key = $1`, []any{e.key}, nil); err != nil {
			return err
		}
	}
	now := db.ToMS(e.Now)
	if err := e.rows("plan, labels, note and limit", countProfile, emptyProfile, []any{e.key}, []any{now, e.Revision}); err != nil {
		return err
	}
	if err := e.rows("proposals", countProposal, deleteProposal, []any{e.key}, nil); err != nil {
		return err
	}
	if network, is := key.Network(); is && network.IsSingleIP() {
		if err := e.rows("verified crawlers", countCrawler, deleteCrawler, []any{network.Addr().String()}, nil); err != nil {
			return err
		}
	}
	before := db.ToMS(e.Now.Add(-keepUnlisted))
	if err := e.rows("blocks and exemptions that ended", countOldEntries, deleteOldEntries, []any{e.key, before}, nil); err != nil {
		return err
	}
	if err := e.entriesLeft(before); err != nil {
		return err
	}
	for _, in := range texts {
		if err := e.texts(in.what, in.table, in.columns); err != nil {
			return err
		}
	}
	if err := e.pages(); err != nil {
		return err
	}
	return e.audit()
}

// pages removes the pages of notifications that name the key, which are reports that were sent long ago.
func (e *erasing) pages() error {
	type page struct {
		id   int64
		text []byte
	}
	removed := int64(0)
	found, err := db.Each(e.Tx, func(r db.Row) (p page, err error) { return p, r.Scan(&p.id, &p.text) }, `SELECT id, page FROM notifications WHERE page IS NOT NULL`)
	if err != nil {
		return err
	}
	for _, p := range found {
		if e.replace(string(p.text)) == string(p.text) {
			continue
		}
		removed++
		if e.preview {
			continue
		}
		if _, err := e.Exec(`UPDATE notifications SET page = NULL WHERE id = $1`, p.id); err != nil {
			return err
		}
	}
	e.add("attached reports", removed)
	return nil
}

// rows counts rows or, unless it is a preview, deletes them.
func (e *erasing) rows(what, count, statement string, args, more []any) error {
	var n int64
	var err error
	if e.preview {
		_, err = e.One(count, args, &n)
	} else {
		n, err = e.Exec(statement, append(args, more...)...)
	}
	e.add(what, n)
	return err
}

func (e *erasing) add(what string, n int64) {
	if n > 0 {
		e.erased = append(e.erased, wire.ErasedRows{What: what, Rows: n})
	}
}

// entriesLeft says which blocks and exemptions name the key and stay.
func (e *erasing) entriesLeft(before int64) error {
	type entry struct {
		kind, id        string
		ended, isErased bool
	}
	all, err := db.Each(e.Tx, func(r db.Row) (x entry, err error) {
		return x, r.Scan(&x.kind, &x.id, &x.ended, &x.isErased)
	}, entriesOfPattern, e.key, before, db.ToMS(e.Now))
	for _, x := range all {
		switch {
		case x.isErased:
		case x.ended:
			e.left = append(e.left, fmt.Sprintf("The %s %s ended less than %d days ago and is kept until every node and bouncer knows: erase the key again later.", x.kind, x.id, int(keepUnlisted/(24*time.Hour))))
		default:
			e.left = append(e.left, fmt.Sprintf("The %s %s is active and stays: end it first if it shall not apply.", x.kind, x.id))
		}
	}
	return err
}

// texts replaces the key in texts.
func (e *erasing) texts(what, table string, columns []string) error {
	var is []string
	for _, c := range columns {
		is = append(is, "lower("+c+`) LIKE $1 ESCAPE '\'`, "lower("+c+`) LIKE $2 ESCAPE '\'`)
	}
	type row struct {
		id    string
		texts []string
	}
	found, err := db.Each(e.Tx, func(r db.Row) (row, error) {
		one := row{texts: make([]string, len(columns))}
		into := []any{&one.id}
		for i := range one.texts {
			into = append(into, &one.texts[i])
		}
		return one, r.Scan(into...)
	}, `SELECT CAST(id AS TEXT), `+strings.Join(columns, ", ")+` FROM `+table+` WHERE `+strings.Join(is, " OR "), db.LikeContaining(e.needle), db.LikeContaining(quoted(e.needle)))
	if err != nil {
		return err
	}
	changed := int64(0)
	for _, one := range found {
		args, set, is := []any{one.id}, make([]string, len(columns)), false
		for i, text := range one.texts {
			without := e.replace(text)
			is = is || without != text
			args = append(args, without)
			set[i] = columns[i] + " = $" + strconv.Itoa(i+2)
		}
		if !is {
			continue
		}
		changed++
		if e.preview {
			continue
		}
		if _, err := e.Exec(`UPDATE `+table+` SET `+strings.Join(set, ", ")+` WHERE CAST(id AS TEXT) = $1`, args...); err != nil {
			return err
		}
	}
	e.add(what+" that name it", changed)
	return nil
}

// audit empties the records about the key, and replaces the key in others.
func (e *erasing) audit() error {
	found, err := db.Each(e.Tx, db.ScanRecord, naming, e.key, db.LikeContaining(e.needle), db.LikeContaining(quoted(e.needle)))
	if err != nil {
		return err
	}
	for _, x := range found {
		next := *x
		next.ObjectID, next.Summary = e.replace(x.ObjectID), e.replace(x.Summary)
		before, after := e.replace(string(x.Before)), e.replace(string(x.After))
		if next.ObjectID == x.ObjectID && next.Summary == x.Summary && before == string(x.Before) && after == string(x.After) {
			continue
		}
		if x.ObjectID == e.key || e.isAbout(x.Before) || e.isAbout(x.After) {
			next.Summary, before, after = erasedSummary, "", ""
		}
		e.records = append(e.records, x.ID)
		if e.preview {
			continue
		}
		if _, err := e.Exec(deleteRecord, x.ID); err != nil {
			return err
		}
		if _, err := e.Exec(rewriteRecord, x.ID, db.ToMS(x.At), string(x.Actor.Kind), x.Actor.ID, x.Actor.Name, x.Actor.Address, x.Action, x.Object,
			next.ObjectID, next.Summary, before, after, x.Revision); err != nil {
			return err
		}
	}
	e.add("audit records", int64(len(e.records)))
	return nil
}

// isAbout reports whether a snapshot is of something of the key: a note, a profile or an entry.
func (e *erasing) isAbout(snapshot []byte) bool {
	var of struct {
		Key     string `json:"key"`
		Pattern string `json:"pattern"`
	}
	return len(snapshot) > 0 && json.Unmarshal(snapshot, &of) == nil && (of.Key == e.key || of.Pattern == e.key)
}

// quoted returns a text as it is within a string of JSON.
func quoted(text string) string {
	as, err := json.Marshal(text)
	if err != nil || len(as) < 2 {
		return text
	}
	return string(as[1 : len(as)-1])
}

// replace replaces the key in a text by its name, and its address by itself. A longer key that contains it stays.
func (e *erasing) replace(text string) string {
	for _, of := range []string{e.key, quoted(e.key), e.needle} {
		text = replaceWhole(text, of, e.name)
	}
	return text
}

// replaceWhole replaces the occurrences of a key that are no part of a longer one.
func replaceWhole(text, key, by string) string {
	at := 0
	for {
		i := strings.Index(text[at:], key)
		if i < 0 {
			return text
		}
		start := at + i
		end := start + len(key)
		if (start > 0 && isInKey(text[start-1])) || (end < len(text) && isInKey(text[end]) && !endsSentence(text[end:])) {
			at = start + 1
			continue
		}
		text = text[:start] + by + text[end:]
		at = start + len(by)
	}
}

func isInKey(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80 || strings.IndexByte("._:/-@+", c) >= 0
}

// endsSentence reports whether a text begins with a mark after which a key is over.
func endsSentence(text string) bool {
	return (text[0] == '.' || text[0] == ':') && (len(text) == 1 || !isInKey(text[1]))
}
