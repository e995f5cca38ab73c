package admin

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/wire"
)

// Entries are the use cases of blocks and exemptions.
//
// A pattern that already has an active entry of the same kind is a conflict. Every front end
// handles it alike: adding fails and names the active entry, unless the request says keep,
// extend or replace. An import and a block of many keys keep the active entry, unless the
// request says extend or replace.
//
// A broad entry needs a confirmation to be added, to be extended and to be restored: the
// request repeats its pattern. The operator who ended an entry can restore it without a
// confirmation within a minute.
type Entries struct {
	Store EntryStore
	View  View
	// Traffic estimates what a block would have refused; nil if no traffic is recorded.
	Traffic TrafficEstimator
	// Offences reads counts; nil if nothing is counted.
	Offences OffenceReader
	// Propose keeps a block of a named source that needs a confirmation as a proposal, and returns
	// nil where it cannot be one; nil for no proposals.
	Propose func(ctx context.Context, block blocks.Entry, confirmReason string) (*offences.Proposal, error)
	Now     func() time.Time
}

// EntryStore stores entries. A pattern has at most one active entry of each kind. Methods that
// take a kind and an id find the entry only if it is of that kind. Changes of several entries
// are made in one transaction: all or nothing. Errors that a caller can fix are *fault.Error:
// NotFound; Conflict for adding with Fail if an entry is active (Detail["id"] names it) and for
// changing an entry that has ended; Outdated if the revision is not the expected one.
type EntryStore interface {
	// Add adds entries and fills in their ID, Created and Revision.
	Add(ctx context.Context, by audit.Actor, on blocks.Conflict, entries ...blocks.Entry) ([]blocks.Added, error)
	ByID(ctx context.Context, kind blocks.Kind, id string) (*blocks.Entry, error)
	Find(ctx context.Context, f blocks.Filter) (paging.Page[*blocks.Entry], error)
	// Each iterates over all pages of Find, for exports.
	Each(ctx context.Context, f blocks.Filter) iter.Seq2[*blocks.Entry, error]
	// Update changes an active entry: its texts, and its expiry by the instant.
	Update(ctx context.Context, by audit.Actor, kind blocks.Kind, id string, p wire.EntryPatch) (*blocks.Entry, error)
	// Shares returns all shares of entries, by id, the one that lasts longest first.
	Shares(ctx context.Context, ids ...string) (map[string][]blocks.Share, error)
	// EndShare ends the share of one holder in an active entry, and the entry if no other holds it.
	// The error is NotFound if the holder has no share in it.
	EndShare(ctx context.Context, by audit.Actor, kind blocks.Kind, id string, h blocks.Holder, reason string) (*blocks.Entry, error)
	// End ends active entries with the shares of all sources; reason, which may be empty, is for the audit log.
	End(ctx context.Context, by audit.Actor, kind blocks.Kind, reason string, ids ...string) ([]*blocks.Entry, error)
	EndUnchanged(ctx context.Context, by audit.Actor, kind blocks.Kind, revision int64, ids ...string) ([]*blocks.Entry, error)
	// Restore makes ended entries active again, with their ids and until their former expiry.
	// It does not change an entry that is still active.
	Restore(ctx context.Context, by audit.Actor, kind blocks.Kind, ids ...string) ([]*blocks.Entry, error)
	// Import adds many blocks in one transaction, in batches: all or nothing. If a pattern has
	// an active block, on decides; a block that is kept counts as unchanged. progress, which
	// may be nil, is called with the number of processed rows.
	Import(ctx context.Context, by audit.Actor, all iter.Seq2[blocks.Entry, error], on blocks.Conflict, progress func(done int)) (blocks.ImportResult, error)
}

// AddEntries is a request to add entries that differ only in their patterns.
type AddEntries struct {
	Kind blocks.Kind
	// Patterns are read as keys.Reading says, and each may be a range or a list; nil for the one Pattern.
	// Several broad patterns must be added one by one.
	Patterns []string
	wire.AddEntry
}

// Added is the result of adding an entry, with warnings about possible mistakes.
type Added struct {
	blocks.Added
	Warnings []string
}

// maxAdded bounds the patterns in one request.
const maxAdded = 200

// Find returns one page of entries.
func (e *Entries) Find(ctx context.Context, f blocks.Filter) (paging.Page[*blocks.Entry], error) {
	f = e.at(f)
	if isFasterInMemory(&f) {
		return e.View.Blocks().Find(f)
	}
	total, isKnown := e.View.Blocks().Count(&f)
	isKnown = isKnown && !f.Uncounted
	f.Uncounted = f.Uncounted || isKnown
	page, err := e.Store.Find(ctx, f)
	if isKnown {
		page.Total = max(total, len(page.Items)) // another node may have added some just now
	}
	return page, err
}

// isFasterInMemory reports whether a store would look at each active entry, or at many, which takes half
// a second with a million of them, and the node's copy selects the same. It does not know all names of
// sources and authors. A mistake in the filter is for the store to explain.
func isFasterInMemory(f *blocks.Filter) bool {
	isActive := (f.State == "" || f.State == "active") && f.Key.IsZero() && f.Holder == "" && f.Author == ""
	inNetwork := f.Within.Kind() == keys.Network
	isRight := (f.Kind == "" || slices.Contains(blocks.Kinds, f.Kind)) && slices.Contains([]blocks.Order{"", blocks.ByCreated, blocks.ByExpiry}, f.Order) &&
		utf8.ValidString(f.Search) && !strings.ContainsRune(f.Search, 0)
	return isActive && isRight && (inNetwork || f.Within.IsZero() && f.Search != "")
}

// Each iterates over all pages of Find.
func (e *Entries) Each(ctx context.Context, f blocks.Filter) iter.Seq2[*blocks.Entry, error] {
	return e.Store.Each(ctx, e.at(f))
}

func (e *Entries) at(f blocks.Filter) blocks.Filter {
	if f.At.IsZero() {
		f.At = e.Now()
	}
	return f
}

// ByID returns the entry of a kind with an id. The error is NotFound if there is none.
func (e *Entries) ByID(ctx context.Context, kind blocks.Kind, id string) (*blocks.Entry, error) {
	return e.Store.ByID(ctx, kind, id)
}

// Add adds entries, all or none.
func (e *Entries) Add(ctx context.Context, c Caller, a AddEntries) ([]Added, error) {
	entries, err := e.entriesOf(ctx, c, a)
	if err != nil {
		return nil, err
	}
	added, err := e.Store.Add(ctx, c.Actor, blocks.Conflict(a.OnConflict), entries...)
	if err != nil {
		return nil, err
	}
	all := make([]Added, len(added))
	for n, one := range added {
		all[n] = Added{one, e.warnings(c, a.Kind, entries[n].Pattern)}
	}
	return all, nil
}

// entriesOf returns the entries that a request describes, or an error if the request is invalid
// or lacks a confirmation that they need.
func (e *Entries) entriesOf(ctx context.Context, c Caller, a AddEntries) ([]blocks.Entry, error) {
	if a.Patterns == nil {
		a.Patterns = []string{a.Pattern}
	}
	if len(a.Patterns) == 0 || len(a.Patterns) > maxAdded {
		return nil, fault.Field("pattern", "must be 1 to %d patterns", maxAdded)
	}
	groups := make([][]keys.Pattern, len(a.Patterns))
	var err error
	for n, text := range a.Patterns {
		if groups[n], err = e.readPatterns(ctx, "pattern", text, a.Literal); err != nil {
			return nil, err
		}
	}
	patterns := slices.Concat(groups...)
	if len(patterns) > maxAdded {
		return nil, fault.Field("pattern", "must be at most %d patterns", maxAdded)
	}
	if err := fault.CheckLine("reason", a.Reason, blocks.MaxReason); err != nil {
		return nil, err
	}
	if err := blocks.CheckTerms(a.Kind, a.EntryTerms); err != nil {
		return nil, err
	}
	if a.Source != "" {
		if err := blocks.CheckHolderName(a.Source); err != nil {
			return nil, err
		}
	}
	expires, err := ExpiryOf(a.ExpiresIn, a.ExpiresAt).At(e.Now())
	if err != nil {
		return nil, err
	}
	if err := checkConflict(blocks.Conflict(a.OnConflict), blocks.Fail, blocks.Keep, blocks.Extend, blocks.Replace); err != nil {
		return nil, err
	}
	needs := e.confirm(ctx, a.Kind, a.Confirm, groups...)
	if needs != nil && (a.Source == "" || len(patterns) != 1) {
		return nil, needs
	}
	entries := make([]blocks.Entry, 0, len(patterns))
	for n, group := range groups {
		for _, p := range group {
			entry := blocks.Entry{Kind: a.Kind, Pattern: p, EntryTerms: a.EntryTerms, Reason: a.Reason, Author: c.Actor.Name, Source: blocks.Manual, Expires: expires}
			if a.Source != "" {
				entry.From = &blocks.Holder{Name: a.Source, Ref: refOf(p, a.Patterns[n])}
			}
			entries = append(entries, entry)
		}
	}
	if needs != nil {
		return nil, e.propose(ctx, entries[0], needs)
	}
	return entries, nil
}

// checkConflict checks that on is "" or one of allowed.
func checkConflict(on blocks.Conflict, allowed ...blocks.Conflict) error {
	names := make([]string, len(allowed))
	for n, one := range allowed {
		if names[n] = string(one); on == "" || on == one {
			return nil
		}
	}
	last := len(names) - 1
	return fault.Field("on_conflict", "must be %s or %s", strings.Join(names[:last], ", "), names[last])
}

// Update changes an active entry. The confirmation is needed to extend a broad one.
func (e *Entries) Update(ctx context.Context, c Caller, kind blocks.Kind, id string, p wire.EntryPatch) (*blocks.Entry, error) {
	if p == (wire.EntryPatch{Revision: p.Revision, Confirm: p.Confirm}) {
		var names []string
		for name := range p.Texts() {
			names = append(names, name)
		}
		return nil, fault.New(fault.Invalid, "Nothing to change: send %s, expires_in or expires_at.", strings.Join(names, ", "))
	}
	if p.Revision < 0 {
		return nil, fault.Field("revision", "must be the revision that you have read, or be omitted")
	}
	if err := fault.CheckLine("reason", p.Reason.Value, blocks.MaxReason); err != nil {
		return nil, err
	}
	var err error
	if p.ExpiresAt, err = ExpiryChange(p.ExpiresIn, p.ExpiresAt, e.Now()); err != nil {
		return nil, err
	}
	before, err := e.Store.ByID(ctx, kind, id)
	if err != nil {
		return nil, err
	}
	if before.ActiveAt(e.Now()) && p.ExpiresAt.Given { // the store refuses to change an ended entry
		if p.Revision == 0 && BroadReason(before.Pattern) != "" {
			// A concurrent change that shortens the entry would make this change an
			// extension.
			p.Revision = before.Revision
		}
		if blocks.IsLater(p.ExpiresAt.Value.Time, before.Expires) {
			err = e.confirm(ctx, kind, p.Confirm, []keys.Pattern{before.Pattern})
		} else {
			err = e.confirm(ctx, kind, p.Confirm) // it must be a pattern
		}
		if err != nil {
			return nil, err
		}
	}
	return e.Store.Update(ctx, c.Actor, kind, id, p)
}

// propose returns the error for a block of a named source that needs a confirmation: a program
// cannot give it, so an operator gets a proposal.
func (e *Entries) propose(ctx context.Context, block blocks.Entry, needs error) error {
	var mistake *fault.Error
	if e.Propose == nil || block.Kind != blocks.Block || block.EntryTerms != (wire.EntryTerms{}) || !errors.As(needs, &mistake) || mistake.Code != fault.NeedConfirm {
		return needs
	}
	reason, _ := mistake.Detail["confirm_reason"].(string)
	p, err := e.Propose(ctx, block, reason)
	if err != nil || p == nil {
		return errors.Join(needs, err)
	}
	proposed := fault.New(fault.Proposed, "Not blocked: %s. The request is kept as the proposal %s, which an operator can accept.", reason, p.ID)
	proposed.Detail = maps.Clone(mistake.Detail)
	proposed.Detail["proposal"] = p.ID
	return proposed
}

// refOf returns what a source called a pattern that was read from a text: its address where that
// was widened to the network of its client, "" otherwise.
func refOf(p keys.Pattern, text string) string {
	if !p.Widened() {
		return ""
	}
	text = strings.TrimSpace(text)
	if address, err := netip.ParseAddr(strings.TrimPrefix(text, "ip:")); err == nil {
		return "ip:" + address.WithZone("").String()
	}
	return text
}

// Shares returns all shares of entries, by id, the one that lasts longest first.
func (e *Entries) Shares(ctx context.Context, ids ...string) (map[string][]blocks.Share, error) {
	return e.Store.Shares(ctx, ids...)
}

// EndShare ends the share of the source of a name in an active entry; the entry goes on while
// another source holds it. called is the pattern as the source added it, "" for that of the
// entry. The error is NotFound if the source has no such share.
func (e *Entries) EndShare(ctx context.Context, c Caller, kind blocks.Kind, id, source, called, reason string) (*blocks.Entry, error) {
	if err := fault.CheckLine("reason", reason, blocks.MaxReason); err != nil {
		return nil, err
	}
	if err := fault.CheckLine("source", source, blocks.MaxReason); err != nil {
		return nil, err
	}
	h := blocks.Holder{Name: source}
	if called != "" {
		all, err := e.readPatterns(ctx, "pattern", called, true)
		if err != nil {
			return nil, err
		}
		if len(all) == 1 {
			h.Ref = refOf(all[0], called)
		}
	}
	return e.Store.EndShare(ctx, c.Actor, kind, id, h, reason)
}

// End ends active entries, all or none. reason, which may be "", is for the audit log.
func (e *Entries) End(ctx context.Context, c Caller, kind blocks.Kind, reason string, ids ...string) ([]*blocks.Entry, error) {
	if err := checkIDs(ids); err != nil {
		return nil, err
	}
	if err := fault.CheckLine("reason", reason, blocks.MaxReason); err != nil {
		return nil, err
	}
	return e.Store.End(ctx, c.Actor, kind, reason, ids...)
}

// EndUnchanged ends active entries, all or none. It is for undoing their addition: if one of them
// is no longer at the revision of the addition, it returns a fault of the code Outdated.
func (e *Entries) EndUnchanged(ctx context.Context, c Caller, kind blocks.Kind, revision int64, ids ...string) ([]*blocks.Entry, error) {
	if err := checkIDs(ids); err != nil {
		return nil, err
	}
	return e.Store.EndUnchanged(ctx, c.Actor, kind, revision, ids...)
}

// undoTime is how long after ending an entry the same operator can restore it without a
// confirmation, so that a mistake can be undone at once. The entry was active a minute ago.
const undoTime = time.Minute

// Restore makes ended entries active again until their former expiry, all or none. It does not
// change entries that are still active. confirm repeats the pattern that needs a confirmation.
func (e *Entries) Restore(ctx context.Context, c Caller, kind blocks.Kind, confirm string, ids ...string) ([]*blocks.Entry, error) {
	if err := checkIDs(ids); err != nil {
		return nil, err
	}
	var patterns [][]keys.Pattern
	now := e.Now()
	for _, id := range ids {
		ended, err := e.Store.ByID(ctx, kind, id)
		if err != nil {
			return nil, err
		}
		isOwn := ended.EndedBy() == c.Actor.Name && now.Sub(ended.Ended()) <= undoTime
		if !isOwn && !ended.Ended().IsZero() && !ended.ExpiredAt(now) {
			patterns = append(patterns, []keys.Pattern{ended.Pattern})
		}
	}
	if err := e.confirm(ctx, kind, confirm, patterns...); err != nil {
		return nil, err
	}
	return e.Store.Restore(ctx, c.Actor, kind, ids...)
}

func checkIDs(ids []string) error {
	if len(ids) == 0 || len(ids) > maxAdded {
		return fault.Field("id", "must be 1 to %d ids", maxAdded)
	}
	return nil
}
