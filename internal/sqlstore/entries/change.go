package entries

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/wire"
)

// Add adds e and fills in its ID, Created and Revision. on decides what happens if the pattern
// has an active entry of the same kind.
func (t Tx) Add(e blocks.Entry, on blocks.Conflict) (added blocks.Added, err error) {
	if e.ID, err = db.NewID(); err != nil {
		return added, err
	}
	e.Created, e.Revision, e.Expires = blocks.MomentOf(t.Now), t.Revision, db.FromMS(db.ToMS(e.Expires))
	if e.Author == "" {
		e.Author = t.By.Name
	}
	if e.Source == "" {
		e.Source = blocks.Manual
	}
	if err := checkEntry(&e, t.Now); err != nil {
		return added, err
	}
	before, err := t.holder(e.Kind, e.Pattern, e.Scope)
	switch {
	case err != nil:
		return added, err
	case before == nil:
		added = blocks.Added{Entry: &e, Outcome: blocks.Created}
		if err = t.insert(&e); err == nil {
			err = t.note("add", "Added", "", nil, &e)
		}
		return added, err
	case before.Action != e.Action && on != blocks.Replace && on != blocks.Keep:
		return added, taken(before)
	case e.From != nil || on == blocks.Extend:
		return t.join(before, e, on)
	case on == blocks.Keep:
		return blocks.Added{Entry: before, Outcome: blocks.Unchanged, Before: before}, nil
	case on == blocks.Replace:
		return t.replace(before, &e)
	case on == blocks.Fail || on == "":
		return added, taken(before)
	}
	return added, fault.Field("on_conflict", "must be fail, keep, extend or replace")
}

// taken returns the error that a pattern has an active entry.
func taken(e *blocks.Entry) error {
	conflict := fault.New(fault.Conflict, "The pattern %q has the active %s %s.", e.Pattern, e.Kind, e.ID)
	conflict.Detail = map[string]any{"id": e.ID}
	return conflict
}

// join makes e a share of the active entry of its pattern. on decides what happens if the holder
// has a share already.
func (t Tx) join(before *blocks.Entry, e blocks.Entry, on blocks.Conflict) (added blocks.Added, err error) {
	was, err := t.sharesOf(before)
	if err != nil {
		return added, err
	}
	share := e.ShareOf()
	if (on == blocks.Fail || on == "") && blocks.ShareBy(was, share.Holder) >= 0 {
		return added, taken(before)
	}
	all, outcome := blocks.Join(was, share, on)
	past := map[blocks.Outcome]string{
		blocks.Joined: "Added the source " + strconv.Quote(share.Name) + " to", blocks.Extended: "Extended",
		blocks.Replaced: "Replaced the part of " + strconv.Quote(share.Name) + " in",
	}[outcome]
	if outcome == blocks.Unchanged {
		return blocks.Added{Entry: before, Outcome: outcome, Before: before}, nil
	}
	after, err := t.hold(before, was, all)
	if err != nil {
		return added, err
	}
	return blocks.Added{Entry: after, Outcome: outcome, Before: before}, t.noteShares("extend", past, "", before, after, was, all)
}

func (t Tx) replace(before, e *blocks.Entry) (blocks.Added, error) {
	added := blocks.Added{Entry: e, Outcome: blocks.Replaced, Before: before}
	was, err := t.sharesOf(before)
	if err != nil {
		return added, err
	}
	if _, err := t.Exec(endEntry, before.ID, db.ToMS(t.Now), t.By.Name, t.Revision); err != nil {
		return added, err
	}
	if err := t.insert(e); err != nil {
		return added, err
	}
	return added, t.noteShares("replace", "Replaced", "", before, e, was, []blocks.Share{e.ShareOf()})
}

// update changes an active entry.
func (t Tx) update(kind blocks.Kind, id string, p wire.EntryPatch) (*blocks.Entry, error) {
	before, err := t.find(kind, id)
	if err != nil {
		return nil, err
	}
	if !before.ActiveAt(t.Now) {
		return nil, notActive(before)
	}
	if p.Revision != 0 {
		if err := checkRevision(before, p.Revision); err != nil {
			return nil, err
		}
	}
	p.ExpiresAt.Value = wire.At(db.FromMS(db.ToMS(p.ExpiresAt.Value.Time)))
	after := *before
	after.Apply(p)
	if err := checkEntry(&after, t.Now); err != nil {
		return nil, err
	}
	if after == *before {
		return before, db.ErrUnchanged
	}
	was, err := t.sharesOf(before)
	if err != nil {
		return nil, err
	}
	// The operator decides of the whole entry: no source holds it longer.
	all := slices.Clone(was)
	for i := range all {
		if i == 0 {
			all[i].Reason, all[i].Expires = after.Reason, after.Expires
		} else if blocks.IsLater(all[i].Expires, after.Expires) {
			all[i].Expires = after.Expires
		}
	}
	held, err := t.hold(&after, was, all)
	if err != nil {
		return nil, err
	}
	return held, t.noteShares("update", "Changed", "", before, held, was, all)
}

// checkRevision returns a fault unless e is at that revision.
func checkRevision(e *blocks.Entry, revision int64) error {
	if e.Revision == revision {
		return nil
	}
	err := fault.New(fault.Outdated, "The %s is at revision %d, not %d: it was changed since you read it; read it again.", e.Kind, e.Revision, revision)
	err.Detail = map[string]any{"revision": e.Revision}
	return err
}

// end ends an active entry.
func (t Tx) end(kind blocks.Kind, id, reason string) (*blocks.Entry, error) {
	if err := db.CheckText("reason", reason); err != nil {
		return nil, err
	}
	before, err := t.find(kind, id)
	if err != nil {
		return nil, err
	}
	if !before.ActiveAt(t.Now) {
		return nil, notActive(before)
	}
	after := *before
	after.End, after.Revision = blocks.EndingOf(t.Now, t.By.Name), t.Revision
	if _, err := t.Exec(endEntry, id, db.ToMS(after.Ended()), after.EndedBy(), after.Revision); err != nil {
		return nil, err
	}
	all, err := t.sharesOf(before)
	if err != nil {
		return nil, err
	}
	past := "Ended"
	if len(all) > 1 {
		past = fmt.Sprintf("Ended, for all %d sources (%s),", len(all), namesOf(all))
	}
	return &after, t.noteShares("end", past, reason, before, &after, all, all)
}

// restore makes an ended entry active again until its former expiry. It does not change an
// entry that is still active.
func (t Tx) restore(kind blocks.Kind, id string) (*blocks.Entry, error) {
	before, err := t.find(kind, id)
	if err != nil || before.End == nil && before.ActiveAt(t.Now) {
		return before, err
	}
	if before.ExpiredAt(t.Now) {
		return nil, expiredSince(before)
	}
	active, err := t.holder(kind, before.Pattern, before.Scope)
	if err != nil {
		return nil, err
	}
	if active != nil {
		return nil, taken(active)
	}
	after := *before
	after.End, after.Revision = nil, t.Revision
	if _, err := t.Exec(restoreEntry, id, after.Revision); err != nil {
		return nil, err
	}
	all, err := t.sharesOf(before)
	if err != nil {
		return nil, err
	}
	return &after, t.noteShares("restore", "Restored", "", before, &after, all, all)
}

// expiredSince returns the error that an entry cannot be restored because it would have
// expired.
func expiredSince(e *blocks.Entry) error {
	return fault.New(fault.Conflict, "The %s of %q would have ended at %s; add a new one instead.",
		e.Kind, e.Pattern, e.Expires.UTC().Format("2006-01-02T15:04:05Z"))
}
