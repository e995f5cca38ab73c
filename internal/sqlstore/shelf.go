package sqlstore

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
)

// item is one row of a shelf: a block or an exemption.
type item struct {
	ID       string
	Pattern  keys.Pattern
	Reason   string
	Author   string
	Source   string // blocks only, as are the next two
	Policy   int64
	Step     int
	Created  time.Time
	Expires  time.Time // zero: for good
	Ended    time.Time // lifted or removed; zero: not
	EndedBy  string
	Revision int64
}

func (i *item) activeAt(t time.Time) bool {
	return i.Ended.IsZero() && (i.Expires.IsZero() || t.Before(i.Expires))
}

// shelf is one of the two tables of patterns that stand until they expire or
// are ended: blocks are lifted, exemptions removed, and all else is alike.
type shelf struct {
	object string // "block" or "exemption", as the audit and messages name it
	end    string // the action that ends one: "lift" or "remove"
	ended  string // the same in a sentence: "Lifted" or "Removed"

	find, holding, add, addAll, giveUp, giveUpAll, giveUpOf, move, finish string
	count, list, load, loadSince, size, middle                            string
	importHead, importSkip, importExtend, importReplace                   string
}

var (
	blockShelf     = newShelf("blocks", "block", "lift", "Lifted")
	exemptionShelf = newShelf("exemptions", "exemption", "remove", "Removed")
)

const (
	shelfColumns    = standingColumns + `, ended_at, ended_by`
	standingColumns = `id, pattern, reason, author, source, policy_id, step, created_at, expires_at, revision` // of what has not ended
	shelfInto       = `INSERT INTO {table} (id, pattern, low, high, reason, author, source, policy_id, step, created_at, expires_at, revision) `
	shelfInsert     = shelfInto + `VALUES `
)

func newShelf(table, object, end, ended string) *shelf {
	sql := func(text string) string {
		return strings.NewReplacer("{table}", table, "{columns}", shelfColumns).Replace(text)
	}
	return &shelf{
		object: object, end: end, ended: ended,

		find:    sql(`SELECT {columns} FROM {table} WHERE id = $1`),
		holding: sql(`SELECT {columns} FROM {table} WHERE pattern = $1 AND place = ''`),
		add:     sql(shelfInsert + `($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`),
		addAll:  sql(shelfInto) + bulkSelect(itemTypes) + ` ON CONFLICT (pattern, place) DO NOTHING RETURNING id`,
		// An expired row gives its pattern up without being changed in any way
		// that a node has to know.
		giveUp:    sql(`UPDATE {table} SET place = id WHERE pattern = $1 AND place = '' AND expires_at <= $2`),
		giveUpAll: sql(`UPDATE {table} SET place = id WHERE place = '' AND expires_at <= $1`),
		giveUpOf: sql(asked([]string{textColumn}, "pattern") + `
UPDATE {table} SET place = id WHERE place = '' AND expires_at <= $2 AND pattern IN (SELECT pattern FROM asked)`),
		move:   sql(`UPDATE {table} SET reason = $2, expires_at = $3, revision = $4 WHERE id = $1`),
		finish: sql(`UPDATE {table} SET ended_at = $2, ended_by = $3, place = id, revision = $4 WHERE id = $1`),

		count: sql(`SELECT count(*) FROM {table} WHERE `),
		list:  sql(`SELECT {columns} FROM {table} WHERE `),
		// The plus keeps the index of expiries out: nearly every row is wanted, and
		// in the order of ids they lie together.
		load:      sql(`SELECT ` + standingColumns + ` FROM {table} WHERE place = '' AND +expires_at > $1`),
		size:      sql(`SELECT count(*) FROM {table}`),
		middle:    sql(`SELECT id FROM {table} ORDER BY id LIMIT 1 OFFSET $1`),
		loadSince: sql(`SELECT {columns} FROM {table} WHERE revision > $1`),

		importHead:    sql(shelfInsert),
		importSkip:    ` ON CONFLICT (pattern, place) DO NOTHING RETURNING id`,
		importExtend:  sql(` ON CONFLICT (pattern, place) DO UPDATE SET expires_at = excluded.expires_at, revision = excluded.revision WHERE {table}.expires_at < excluded.expires_at RETURNING id`),
		importReplace: sql(`UPDATE {table} SET ended_at = $1, ended_by = $2, place = id, revision = $3 WHERE place = '' AND pattern IN `),
	}
}

// itemScanner reads rows of a shelf. It keeps one copy of a text that many
// rows in a row share, as the reasons and authors of an import do.
type itemScanner struct {
	standing               bool // the rows have standingColumns only
	reason, author, source string

	// What Scan fills in before it is turned into an item: fields, since
	// variables would be allocated for each row.
	pattern                 string
	created, expires, ended int64
}

func (s *itemScanner) scan(r row) (*item, error) {
	i := &item{}
	return i, s.into(i, r)
}

func (s *itemScanner) into(i *item, r row) error {
	places := [...]any{&i.ID, &s.pattern, &i.Reason, &i.Author, &i.Source, &i.Policy, &i.Step,
		&s.created, &s.expires, &i.Revision, &s.ended, &i.EndedBy}
	wanted := places[:]
	if s.standing {
		wanted = places[:len(places)-2]
	}
	err := r.Scan(wanted...)
	if err != nil {
		return err
	}
	// A stored pattern is canonical: it reads alike under every setting.
	if i.Pattern, err = (keys.Parser{}).Pattern(s.pattern); err != nil {
		return fmt.Errorf("row %s: %w", i.ID, err)
	}
	i.Created, i.Expires, i.Ended = fromMS(s.created), expiryFromMS(s.expires), fromMS(s.ended)
	s.reason, s.author, s.source = share(i.Reason, s.reason), share(i.Author, s.author), share(i.Source, s.source)
	i.Reason, i.Author, i.Source = s.reason, s.author, s.source
	return nil
}

func share(text, known string) string {
	if text == known {
		return known
	}
	return text
}

func (t *tx) item(query string, args ...any) (*item, error) {
	all, err := each(t, new(itemScanner).scan, query, args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// findItem returns one by its id, or NotFound.
func (t *tx) findItem(s *shelf, id string) (*item, error) {
	if checkText("id", id) != nil {
		return nil, s.none(id)
	}
	i, err := t.item(s.find, id)
	if err == nil && i == nil {
		err = s.none(id)
	}
	return i, err
}

func (s *shelf) none(id string) error {
	return fault.New(fault.NotFound, "There is no %s with the id %q.", s.object, id)
}

// bounds returns the first and last address of a network as 16 bytes each, so
// that networks within another are one range; nil for other patterns.
func bounds(p keys.Pattern) (low, high []byte) {
	network, is := p.Network()
	if !is {
		return nil, nil
	}
	first := network.Masked().Addr().As16()
	last := first
	bits := network.Bits() + 128 - network.Addr().BitLen()
	for bit := bits; bit < 128; bit++ {
		last[bit/8] |= 1 << (7 - bit%8)
	}
	return first[:], last[:]
}

// mapped is where IPv4 addresses stand among 16-byte ones.
var mappedLow, mappedHigh = func() (low, high []byte) {
	return bounds(keys.NetworkPattern(netip.MustParsePrefix("0.0.0.0/0")))
}()

// addItem adds i to a shelf, whose ID, Created and Revision it fills in, and
// does what on says where its pattern is taken.
func (t *tx) addItem(s *shelf, i item, on blocks.Conflict) (added blocks.Added[*item], err error) {
	if i.ID, err = newID(); err != nil {
		return added, err
	}
	i.Created, i.Revision = t.now, t.revision
	if i.Author == "" {
		i.Author = t.by.Name
	}
	if err := s.check(&i, t.now); err != nil {
		return added, err
	}
	before, err := t.holder(s, i.Pattern)
	switch {
	case err != nil:
		return added, err
	case before == nil:
		summary := fmt.Sprintf("Added the %s of %q.", s.object, i.Pattern)
		return blocks.Added[*item]{Item: &i, Outcome: blocks.Created},
			orFirst(t.insertItem(s, &i), func() error { return t.recordItem(s, "add", summary, nil, &i) })
	case on == blocks.Extend:
		return t.extendItem(s, before, i.Expires)
	case on == blocks.Replace:
		return t.replaceItem(s, before, &i)
	case on == blocks.Fail || on == "":
		e := fault.New(fault.Conflict, "The pattern %q has the active %s %s.", i.Pattern, s.object, before.ID)
		e.Detail = map[string]any{"id": before.ID}
		return added, e
	}
	return added, fault.Field("on_conflict", "must be fail, extend or replace")
}

// holder returns the row that stands under a pattern, nil if none does.
func (t *tx) holder(s *shelf, p keys.Pattern) (*item, error) {
	i, err := t.item(s.holding, p.String())
	if err != nil || i == nil || i.activeAt(t.now) {
		return i, err
	}
	_, err = t.exec(s.giveUp, p.String(), toMS(t.now))
	return nil, err
}

func orFirst(err error, next func() error) error {
	if err != nil {
		return err
	}
	return next()
}

func (s *shelf) check(i *item, now time.Time) error {
	if i.Pattern.IsZero() {
		return fault.Field("pattern", "is missing")
	}
	if !i.Expires.IsZero() && !now.Before(i.Expires) {
		return fault.Field("expires_at", "must lie in the future")
	}
	if err := checkText("reason", i.Reason); err != nil {
		return err
	}
	return checkText("author", i.Author)
}

func (t *tx) insertItem(s *shelf, i *item) error {
	_, err := t.exec(s.add, i.columns()...)
	return err
}

// columns returns what shelfInsert inserts, in its order.
func (i *item) columns() []any {
	low, high := bounds(i.Pattern)
	return []any{i.ID, i.Pattern.String(), low, high, i.Reason, i.Author, i.Source, i.Policy, i.Step,
		toMS(i.Created), expiryToMS(i.Expires), i.Revision}
}

func (t *tx) extendItem(s *shelf, before *item, expires time.Time) (blocks.Added[*item], error) {
	if expiryToMS(expires) <= expiryToMS(before.Expires) {
		return blocks.Added[*item]{Item: before, Outcome: blocks.Unchanged, Before: before}, errUnchanged
	}
	after := *before
	after.Expires, after.Revision = fromMS(toMS(expires)), t.revision
	added := blocks.Added[*item]{Item: &after, Outcome: blocks.Extended, Before: before}
	if _, err := t.exec(s.move, after.ID, after.Reason, expiryToMS(after.Expires), after.Revision); err != nil {
		return added, err
	}
	return added, t.recordItem(s, "extend", fmt.Sprintf("Extended the %s of %q.", s.object, after.Pattern), before, &after)
}

func (t *tx) replaceItem(s *shelf, before, i *item) (blocks.Added[*item], error) {
	added := blocks.Added[*item]{Item: i, Outcome: blocks.Replaced, Before: before}
	if _, err := t.exec(s.finish, before.ID, toMS(t.now), t.by.Name, t.revision); err != nil {
		return added, err
	}
	if err := t.insertItem(s, i); err != nil {
		return added, err
	}
	return added, t.recordItem(s, "replace", fmt.Sprintf("Replaced the %s of %q.", s.object, i.Pattern), before, i)
}

// updateItem changes one in place.
func (t *tx) updateItem(s *shelf, id string, u blocks.Update) (*item, error) {
	before, err := t.findItem(s, id)
	if err != nil {
		return nil, err
	}
	if !before.activeAt(t.now) {
		return nil, s.over(before)
	}
	if u.Revision != 0 && u.Revision != before.Revision {
		e := fault.New(fault.Outdated, "The %s is at revision %d, not %d: somebody changed it meanwhile; read it again.", s.object, before.Revision, u.Revision)
		e.Detail = map[string]any{"revision": before.Revision}
		return nil, e
	}
	after := *before
	if u.Reason != nil {
		after.Reason = *u.Reason
	}
	if u.Expires != nil {
		after.Expires = fromMS(toMS(*u.Expires))
	}
	if err := s.check(&after, t.now); err != nil {
		return nil, err
	}
	if after == *before {
		return before, errUnchanged
	}
	after.Revision = t.revision
	if _, err := t.exec(s.move, after.ID, after.Reason, expiryToMS(after.Expires), after.Revision); err != nil {
		return nil, err
	}
	return &after, t.recordItem(s, "update", fmt.Sprintf("Changed the %s of %q.", s.object, after.Pattern), before, &after)
}

// endItem lifts or removes one.
func (t *tx) endItem(s *shelf, id, reason string) (*item, error) {
	if err := checkText("reason", reason); err != nil {
		return nil, err
	}
	before, err := t.findItem(s, id)
	if err != nil {
		return nil, err
	}
	if !before.activeAt(t.now) {
		return nil, s.over(before)
	}
	after := *before
	after.Ended, after.EndedBy, after.Revision = t.now, t.by.Name, t.revision
	if _, err := t.exec(s.finish, id, toMS(after.Ended), after.EndedBy, after.Revision); err != nil {
		return nil, err
	}
	summary := fmt.Sprintf("%s the %s of %q.", s.ended, s.object, after.Pattern)
	if reason != "" {
		summary = fmt.Sprintf("%s the %s of %q: %q.", s.ended, s.object, after.Pattern, reason)
	}
	return &after, t.recordItem(s, s.end, summary, before, &after)
}

// over says that one has ended already.
func (s *shelf) over(i *item) error {
	if i.Ended.IsZero() {
		return fault.New(fault.Conflict, "The %s expired at %s.", s.object, i.Expires.Format(time.RFC3339))
	}
	return fault.New(fault.Conflict, "The %s was ended at %s by %q.", s.object, i.Ended.Format(time.RFC3339), i.EndedBy)
}

// itemSnapshot is what the audit keeps of a block or exemption.
type itemSnapshot struct {
	ID      string    `json:"id"`
	Pattern string    `json:"pattern"`
	Reason  string    `json:"reason"`
	Author  string    `json:"author"`
	Source  string    `json:"source,omitzero"`
	Policy  int64     `json:"policy_id,omitzero"`
	Step    int       `json:"step,omitzero"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at,omitzero"` // left out: for good
	Ended   time.Time `json:"ended_at,omitzero"`
	EndedBy string    `json:"ended_by,omitzero"`
}

func (t *tx) recordItem(s *shelf, action, summary string, before, after *item) error {
	return t.record(s.object+"."+action, s.object, after.ID, summary, snapshotOf(before), snapshotOf(after))
}

// snapshotOf returns what the audit keeps of i, nil for none.
func snapshotOf(i *item) any {
	if i == nil {
		return nil
	}
	return itemSnapshot{i.ID, i.Pattern.String(), i.Reason, i.Author, i.Source, i.Policy, i.Step,
		i.Created, i.Expires, i.Ended, i.EndedBy}
}
