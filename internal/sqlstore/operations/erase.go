package operations

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/breakdown"
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
const erasedSummary = "Erased: this record named a key that was erased."

// isErased reports whether a record is emptied. Verification wants a record of that erasure too.
func isErased(e *audit.Record) bool {
	return e.Summary == erasedSummary && len(e.Before) == 0 && len(e.After) == 0
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
	recordsNaming    = `
SELECT id, at, actor_kind, actor_id, actor_name, actor_address, action, object, object_id, summary, before, after, revision FROM audit WHERE `
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
		e := &erasing{Tx: t, key: key.String(), name: name, preview: preview}
		e.network, e.isNetwork = key.Network()
		if err := e.all(); err != nil {
			return err
		}
		done = wire.KeyErasure{Key: key.String(), Name: name, Preview: preview, Erased: e.erased, Left: e.left}
		if preview {
			return nil
		}
		if err := t.ForgetCounts(); err != nil {
			return err
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
	Records []emptiedRecord   `json:"records"`
}

// emptiedRecord is a record of the audit that was emptied.
type emptiedRecord struct {
	ID   int64  `json:"id"`
	Hash string `json:"digest"` // of what is left of it, by itself
}

// erasing is one erasure.
type erasing struct {
	*db.Tx
	key, name string
	network   netip.Prefix // of a key that is an address
	isNetwork bool
	preview   bool
	erased    []wire.ErasedRows
	left      []string
	records   []emptiedRecord
}

func (e *erasing) all() error {
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
	if e.isNetwork && e.network.IsSingleIP() {
		if err := e.rows("verified crawlers", countCrawler, deleteCrawler, []any{e.network.Addr().String()}, nil); err != nil {
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
	if err := e.breakdowns(); err != nil {
		return err
	}
	if !e.isSearchable() {
		e.left = append(e.left, "Texts and the audit were not searched for it: a key without a kind, as client:alice has one, may be any word of them.")
		return e.audit()
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

// isSearchable reports whether the key is no word that texts may have for something else.
func (e *erasing) isSearchable() bool { return strings.Contains(e.key, ":") }

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
		if !e.isNamed(html.UnescapeString(string(p.text))) {
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

// breakdowns replaces the key in the tables of what was requested, which have the heaviest keys of each combination.
func (e *erasing) breakdowns() error {
	type row struct {
		span, start int64
		node        string
		data        []byte
	}
	isKey := func(text string) string {
		if text == e.key {
			return e.name
		}
		return text
	}
	value := e.replace
	if !e.isSearchable() {
		value = func(text string) string { return text }
	}
	var found []row
	unreadable, needles := 0, e.needles()
	read := func(r db.Row) (x row, err error) { return x, r.Scan(&x.span, &x.start, &x.node, &x.data) }
	err := db.Stream(e.Tx, read, `SELECT span, start, node, data FROM breakdowns`, nil, func(x row) error {
		if !slices.ContainsFunc(needles, func(n string) bool { return bytes.Contains(x.data, []byte(n)) }) {
			return nil
		}
		table, err := breakdown.Decode(x.data)
		if err != nil {
			unreadable++
			return nil //nolint:nilerr // it is said below
		}
		if without := table.Replace(value, isKey).Encode(); !bytes.Equal(without, x.data) {
			found = append(found, row{x.span, x.start, x.node, without})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if unreadable > 0 {
		e.left = append(e.left, fmt.Sprintf("%d parts of what was requested, which this version cannot read: erase the key again when all nodes have the same version.", unreadable))
	}
	e.add("parts of what was requested that name it", int64(len(found)))
	for _, x := range found {
		if e.preview {
			break
		}
		if _, err := e.Exec(`UPDATE breakdowns SET data = $4 WHERE span = $1 AND start = $2 AND node = $3`, x.span, x.start, x.node, x.data); err != nil {
			return err
		}
	}
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

// needles are texts of which one is in each text that names the key.
func (e *erasing) needles() []string {
	all := []string{e.key, quoted(e.key), url.QueryEscape(e.key)}
	if e.isNetwork {
		address := e.network.Addr().String()
		if e.network.Addr().Is6() && !e.network.IsSingleIP() { // its addresses begin with the same group
			address, _, _ = strings.Cut(address, ":")
			address += ":"
		}
		all = append(all, address)
	}
	return slices.Compact(all)
}

// selection returns a condition that columns contain one of the needles, and its arguments.
func (e *erasing) selection(columns ...string) (is string, args []any) {
	var all []string
	for _, n := range e.needles() {
		args = append(args, db.LikeExactly(n))
		for _, c := range columns {
			all = append(all, c+" LIKE $"+strconv.Itoa(len(args))+` ESCAPE '\'`)
		}
	}
	return strings.Join(all, " OR "), args
}

// texts replaces the key in texts.
func (e *erasing) texts(what, table string, columns []string) error {
	type row struct {
		id    any
		texts []string
	}
	is, args := e.selection(columns...)
	found, err := db.Each(e.Tx, func(r db.Row) (row, error) {
		one := row{texts: make([]string, len(columns))}
		into := []any{&one.id}
		for i := range one.texts {
			into = append(into, &one.texts[i])
		}
		return one, r.Scan(into...)
	}, `SELECT id, `+strings.Join(columns, ", ")+` FROM `+table+` WHERE `+is, args...)
	if err != nil {
		return err
	}
	changed := int64(0)
	for _, one := range found {
		args, set, is := []any{one.id}, make([]string, len(columns)), false
		for i, text := range one.texts {
			without := e.replaceIn(text)
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
		if _, err := e.Exec(`UPDATE `+table+` SET `+strings.Join(set, ", ")+` WHERE id = $1`, args...); err != nil {
			return err
		}
	}
	e.add(what+" that name it", changed)
	return nil
}

// aboutKeys are the objects of audit records whose id may be a key.
var aboutKeys = []string{"key", "profile"}

// audit empties the records about the key, and those that name it.
func (e *erasing) audit() error {
	is, args := e.selection("summary", "before", "after")
	if !e.isSearchable() { // its notes and its profile only
		is, args = `before LIKE $1 ESCAPE '\' OR after LIKE $1 ESCAPE '\'`, []any{db.LikeExactly(`"` + quoted(e.key) + `"`)}
	}
	args = append(args, e.key)
	found, err := db.Each(e.Tx, db.ScanRecord, recordsNaming+is+` OR object_id = $`+strconv.Itoa(len(args))+` ORDER BY id`, args...)
	if err != nil {
		return err
	}
	for _, x := range found {
		isKey := x.ObjectID == e.key && slices.Contains(aboutKeys, x.Object)
		named := e.isSearchable() && (e.isNamed(x.Summary) || e.replaceIn(string(x.Before)) != string(x.Before) || e.replaceIn(string(x.After)) != string(x.After))
		if isErased(x) || !isKey && !named && !e.isAbout(x.Before) && !e.isAbout(x.After) {
			continue
		}
		next := *x
		next.Summary, next.Before, next.After = erasedSummary, nil, nil
		if isKey {
			next.ObjectID = e.name
		}
		e.records = append(e.records, emptiedRecord{x.ID, next.Hash(audit.Hash{}).String()})
		if e.preview {
			continue
		}
		if _, err := e.Exec(deleteRecord, x.ID); err != nil {
			return err
		}
		if _, err := e.Exec(rewriteRecord, x.ID, db.ToMS(x.At), string(x.Actor.Kind), x.Actor.ID, x.Actor.Name, x.Actor.Address, x.Action, x.Object,
			next.ObjectID, next.Summary, "", "", x.Revision); err != nil {
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

// isNamed reports whether a text names the key.
func (e *erasing) isNamed(text string) bool { return e.replace(text) != text }

// replaceIn replaces the key in a text or, of JSON, in the strings that are values.
func (e *erasing) replaceIn(text string) string {
	if trimmed := strings.TrimSpace(text); trimmed == "" || (trimmed[0] != '{' && trimmed[0] != '[') {
		return e.replace(text)
	}
	out, replaced := &strings.Builder{}, false
	read, write := jsontext.NewDecoder(strings.NewReader(text)), jsontext.NewEncoder(out)
	for {
		token, err := read.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil { // no JSON
			return e.replace(text)
		}
		if kind, n := read.StackIndex(read.StackDepth()); token.Kind() == '"' && (kind != '{' || n%2 == 0) {
			before := token.String()
			if after := e.replace(before); after != before {
				token, replaced = jsontext.String(after), true
			}
		}
		if err := write.WriteToken(token); err != nil {
			return e.replace(text)
		}
	}
	if !replaced {
		return text
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// replace replaces the key in a text by its name, also within a URL, and its address. A longer key that contains it stays.
func (e *erasing) replace(text string) string {
	text = replaceWhole(text, e.key, e.name, isInKey, isInKey)
	if escaped := url.QueryEscape(e.key); escaped != e.key {
		text = replaceWhole(text, escaped, url.QueryEscape(e.name), isInNoKey, isInQueryValue)
	}
	if e.isNetwork {
		text = e.replaceAddresses(text)
	}
	return text
}

// replaceAddresses replaces the addresses of the key's network.
func (e *erasing) replaceAddresses(text string) string {
	isAddress := func(c byte) bool {
		return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' || c == '.' || c == ':'
	}
	var out strings.Builder
	for at := 0; at < len(text); {
		end := at
		for end < len(text) && isAddress(text[end]) {
			end++
		}
		if end == at {
			out.WriteByte(text[at])
			at++
			continue
		}
		out.WriteString(e.withoutAddress(text[at:end]))
		at = end
	}
	return out.String()
}

// withoutAddress returns a run of the characters of addresses without the address of the key that it is, perhaps
// with a port or with marks of a sentence around it.
func (e *erasing) withoutAddress(run string) string {
	trimmed := strings.TrimRight(run, ".")
	if !strings.HasSuffix(trimmed, "::") {
		trimmed = strings.TrimRight(trimmed, ":")
	}
	before := ""
	if strings.HasPrefix(trimmed, ":") && !strings.HasPrefix(trimmed, "::") { // behind a kind
		before, trimmed = ":", trimmed[1:]
	}
	address, err := netip.ParseAddr(trimmed)
	port := ""
	if err != nil {
		with, portErr := netip.ParseAddrPort(trimmed)
		if portErr != nil {
			return run
		}
		address, port = with.Addr(), ":"+strconv.Itoa(int(with.Port()))
	}
	if !e.network.Contains(address.Unmap()) {
		return run
	}
	return before + e.name + port + run[len(before)+len(trimmed):]
}

// replaceWhole replaces the occurrences of a key that are no part of a longer one, which goes on with a byte of
// before or behind.
func replaceWhole(text, key, by string, before, behind func(byte) bool) string {
	at := 0
	for {
		i := strings.Index(text[at:], key)
		if i < 0 {
			return text
		}
		start := at + i
		end := start + len(key)
		if (start > 0 && before(text[start-1])) || (end < len(text) && behind(text[end]) && !endsSentence(text[end:])) {
			at = start + 1
			continue
		}
		text = text[:start] + by + text[end:]
		at = start + len(by)
	}
}

// isInNoKey is before an escaped key: what is there is of the URL around it.
func isInNoKey(byte) bool { return false }

// isInQueryValue reports whether an escaped key may go on with a byte.
func isInQueryValue(c byte) bool { return isInKey(c) && c != '&' && c != '#' }

// isInKey reports whether keys may go on with a byte, but for what sentences have around them.
func isInKey(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80 || strings.IndexByte("._:/-@+=|%&#~$*", c) >= 0
}

// endsSentence reports whether a text begins with a mark after which a key is over.
func endsSentence(text string) bool {
	return (text[0] == '.' || text[0] == ':') && (len(text) == 1 || !isInKey(text[1]))
}
