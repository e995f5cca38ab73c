package api

import (
	"github.com/stint-dev/stint/internal/httpserver"
	"net/http"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// maxReason is the longest reason, in bytes.
const maxReason = 1000

// wireEntry returns a block or exemption as it is now.
func (s *API) wireEntry(e *blocks.Entry) wire.Entry {
	return fromEntry(e, s.policyName(e.PolicyID), s.Now())
}

// policyName returns the name of a policy, "" where it is gone.
func (s *API) policyName(id int64) string {
	if p, found := s.Catalog.Selector().ByID(id); found {
		return p.Name
	}
	return ""
}

// filterParams are the query parameters of the lists of entries.
var filterParams = []string{"state", "source", "author", "search", "key", "within", "order", "cursor", "limit"}

// entryFilter reads a filter of the entries of a kind.
func (s *API) entryFilter(c *httpserver.Call, kind blocks.Kind, params []string) (blocks.Filter, error) {
	q := c.ParseQuery(params...)
	f := blocks.Filter{
		Kind:   kind,
		State:  q.OneOf("state", "active", "ended", "all"),
		Source: blocks.Source(q.OneOf("source", string(blocks.Manual), string(blocks.Automatic), string(blocks.Imported))),
		Author: q.Line("author"),
		Search: q.Line("search"),
		Order:  blocks.Order(q.OneOf("order", string(blocks.ByCreated), string(blocks.ByExpiry))),
		Cursor: q.Line("cursor"),
		Limit:  q.Limit(),
		At:     s.Now(),
	}
	if q.Err() != nil {
		return f, q.Err()
	}
	var err error
	if q.Given("key") {
		if f.Key, err = s.key(q.Raw("key")); err != nil {
			return f, err
		}
	}
	if q.Given("within") {
		f.Within, err = s.pattern("within", q.Raw("within"))
	}
	return f, err
}

func (s *API) key(text string) (keys.Key, error) {
	key, err := s.Catalog.Parser().Key(text)
	if err != nil {
		return key, fault.Field("key", "%s", strings.TrimPrefix(err.Error(), "the key "))
	}
	return key, nil
}

func (s *API) pattern(field, text string) (keys.Pattern, error) {
	pattern, err := s.Catalog.Parser().Pattern(text)
	if err != nil {
		return pattern, fault.Field(field, "%s", strings.TrimPrefix(err.Error(), "the pattern "))
	}
	return pattern, nil
}

// ofKind returns a handler of the entries of one kind.
func ofKind(kind blocks.Kind, h func(*httpserver.Call, blocks.Kind) error) httpserver.Handler {
	return func(c *httpserver.Call) error { return h(c, kind) }
}

// entryPath returns the path of the entries of a kind.
func entryPath(kind blocks.Kind) string {
	if kind == blocks.Exemption {
		return wire.PathExemptions
	}
	return wire.PathBlocks
}

func (s *API) listEntries(c *httpserver.Call, kind blocks.Kind) error {
	f, err := s.entryFilter(c, kind, filterParams)
	if err != nil {
		return err
	}
	ctx := c.Context()
	page, err := s.Entries.Find(ctx, f)
	if err != nil {
		return err
	}
	out := wholePage(page.Items, s.wireEntry)
	out.NextCursor, out.Total = wire.NullString(page.Next), &page.Total
	return c.SendJSON(http.StatusOK, out)
}

func (s *API) getEntry(c *httpserver.Call, kind blocks.Kind) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	ctx := c.Context()
	e, err := s.Entries.ByID(ctx, kind, id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, s.wireEntry(e))
}

// added is what a request to add a block or an exemption comes to.
type added struct {
	pattern  keys.Pattern
	reason   string
	expires  time.Time
	conflict blocks.Conflict
	// confirmed is the pattern that was sent as confirmation, zero for none.
	confirmed keys.Pattern
}

func (s *API) readAdded(c *httpserver.Call) (added, error) {
	var request wire.AddEntry
	if err := c.DecodeJSON(&request); err != nil {
		return added{}, err
	}
	pattern, err := s.pattern("pattern", request.Pattern)
	if err != nil {
		return added{}, err
	}
	if err := httpserver.CheckLine("reason", request.Reason, maxReason); err != nil {
		return added{}, err
	}
	expires, err := s.end(request.ExpiresIn, request.ExpiresAt)
	if err != nil {
		return added{}, err
	}
	conflict := blocks.Conflict(request.OnConflict)
	switch conflict {
	case "":
		conflict = blocks.Fail
	case blocks.Fail, blocks.Extend, blocks.Replace:
	default:
		return added{}, fault.Field("on_conflict", "must be fail, extend or replace")
	}
	a := added{pattern: pattern, reason: request.Reason, expires: expires, conflict: conflict}
	a.confirmed, err = s.confirmed(request.Confirm)
	return a, err
}

// confirmed reads the pattern that confirms a change, zero for none.
func (s *API) confirmed(text string) (keys.Pattern, error) {
	if text == "" {
		return keys.Pattern{}, nil
	}
	return s.pattern("confirm", text)
}

// end returns when something ends: at, or after in, or never.
func (s *API) end(in wire.Duration, at wire.Time) (time.Time, error) {
	now := s.Now()
	switch {
	case in != 0 && !at.IsZero():
		return time.Time{}, fault.Field("expires_in", "stands beside expires_at; send one of them, or neither for good")
	case in != 0:
		return now.Add(in.Std()), nil
	case !at.IsZero() && !at.After(now):
		return time.Time{}, fault.Field("expires_at", "lies in the past; now it is %s", wire.At(now))
	}
	return at.Time, nil
}

func (s *API) addEntry(c *httpserver.Call, kind blocks.Kind) error {
	a, err := s.readAdded(c)
	if err != nil {
		return err
	}
	actor := c.Actor()
	ctx := c.Context()
	if err := s.confirmEntry(ctx, kind, a.pattern, a.confirmed); err != nil {
		return err
	}
	all, err := s.Entries.Add(ctx, actor, a.conflict, blocks.Entry{
		Kind: kind, Pattern: a.pattern, Reason: a.reason, Author: actor.Name, Source: blocks.Manual, Expires: a.expires,
	})
	if err != nil {
		return err
	}
	done := all[0]
	answer := wire.AddedEntry{
		Entry: s.wireEntry(done.Entry), Outcome: string(done.Outcome),
		Warnings: append(widenedWarnings(a.pattern), s.overlapWarnings(kind, a.pattern)...),
	}
	if kind == blocks.Block && s.surveyor().BlocksCaller(a.pattern, c.Address) {
		answer.Warnings = append(answer.Warnings, "This block refuses your own address, "+c.Address.String()+".")
	}
	if done.Before != nil {
		before := s.wireEntry(done.Before)
		answer.Before = &before
	}
	return sendAdded(c, done.Outcome, entryPath(kind)+"/"+done.Entry.ID, answer)
}

// sendAdded answers 201 where something new was made.
func sendAdded(c *httpserver.Call, outcome blocks.Outcome, location string, answer any) error {
	status := http.StatusOK
	if outcome == blocks.Created || outcome == blocks.Replaced {
		status = http.StatusCreated
		c.Set(fiber.HeaderLocation, location)
	}
	return c.SendJSON(status, answer)
}

// maxNamed is how many things a warning names one by one.
const maxNamed = 5

// overlapWarnings names the exemptions that a block of p overlaps with, or the
// blocks that an exemption of p does.
func (s *API) overlapWarnings(kind blocks.Kind, p keys.Pattern) (warnings []string) {
	set, now := s.Catalog.Blocks(), s.Now()
	if kind == blocks.Block {
		for _, e := range set.Overlapping(blocks.Exemption, p, now, maxNamed) {
			if e.Pattern.Covers(p) {
				warnings = append(warnings, "The exemption "+e.ID+" of "+e.Pattern.String()+" covers this block: it refuses no request while that is active.")
			} else {
				warnings = append(warnings, "The exemption "+e.ID+" allows "+e.Pattern.String()+" in spite of this block.")
			}
		}
		return warnings
	}
	for _, b := range set.Overlapping(blocks.Block, p, now, maxNamed) {
		if p.Covers(b.Pattern) {
			warnings = append(warnings, "This exemption covers the block "+b.ID+" of "+b.Pattern.String()+", which now refuses no request.")
		} else {
			warnings = append(warnings, "This exemption allows "+p.String()+" in spite of the block "+b.ID+" of "+b.Pattern.String()+".")
		}
	}
	return warnings
}

func (s *API) changeEntry(c *httpserver.Call, kind blocks.Kind) error {
	id, change, err := s.readChange(c)
	if err != nil {
		return err
	}
	ctx := c.Context()
	e, err := s.Entries.ByID(ctx, kind, id)
	if err != nil {
		return err
	}
	if e.ActiveAt(s.Now()) { // the store refuses to change another
		if err := s.confirmLonger(ctx, e, &change); err != nil {
			return err
		}
	}
	e, err = s.Entries.Update(ctx, c.Actor(), kind, id, change.Update)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, s.wireEntry(e))
}

// entryChange is a change of a block or an exemption.
type entryChange struct {
	blocks.Update
	confirmed keys.Pattern // zero for none
}

// readChange reads a PATCH of a block or an exemption.
func (s *API) readChange(c *httpserver.Call) (id string, change entryChange, err error) {
	if id, err = c.PathParam("id"); err != nil {
		return "", change, err
	}
	var patch wire.EntryPatch
	if err = c.DecodeJSON(&patch); err != nil {
		return "", change, err
	}
	if patch.Revision < 0 {
		return "", change, fault.Field("revision", "must be the revision that you have seen, or be left out")
	}
	change.Revision = patch.Revision
	if patch.Reason.Given {
		if err = httpserver.CheckLine("reason", patch.Reason.Value, maxReason); err != nil {
			return "", change, err
		}
		change.Reason = &patch.Reason.Value
	}
	if change.confirmed, err = s.confirmed(patch.Confirm); err != nil {
		return "", change, err
	}
	change.Expires, err = s.changedEnd(patch.ExpiresIn, patch.ExpiresAt)
	if err == nil && change.Reason == nil && change.Expires == nil {
		err = fault.New(fault.Invalid, "Nothing to change: send reason, expires_in or expires_at.")
	}
	return id, change, err
}

// changedEnd returns the new end of something, nil to leave it.
func (s *API) changedEnd(in wire.Change[wire.Duration], at wire.Change[wire.Time]) (*time.Time, error) {
	if !in.Given && !at.Given {
		return nil, nil
	}
	if in.Given && at.Given {
		return nil, fault.Field("expires_in", "stands beside expires_at; send one of them")
	}
	if in.Given && in.Value == 0 {
		return nil, fault.Field("expires_in", "must be longer than nothing; send expires_at null for good")
	}
	end, err := s.end(in.Value, at.Value)
	return &end, err
}

func (s *API) endEntry(c *httpserver.Call, kind blocks.Kind) error {
	id, reason, err := readEnd(c)
	if err != nil {
		return err
	}
	ctx := c.Context()
	ended, err := s.Entries.End(ctx, c.Actor(), kind, reason, id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, s.wireEntry(ended[0]))
}

// restoreEntry makes an ended entry active again. A broad one is confirmed as
// when it is added.
func (s *API) restoreEntry(c *httpserver.Call, kind blocks.Kind) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	var request wire.RestoreRequest
	if err := c.DecodeOptional(&request); err != nil {
		return err
	}
	confirmed, err := s.confirmed(request.Confirm)
	if err != nil {
		return err
	}
	ctx := c.Context()
	e, err := s.Entries.ByID(ctx, kind, id)
	if err != nil {
		return err
	}
	if err := s.confirmEntry(ctx, kind, e.Pattern, confirmed); err != nil {
		return err
	}
	all, err := s.Entries.Restore(ctx, c.Actor(), kind, id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, s.wireEntry(all[0]))
}

// readEnd reads a DELETE of a block or an exemption: the reason stands in the
// body or, for clients that cannot send one with DELETE, in the query.
func readEnd(c *httpserver.Call) (id, reason string, err error) {
	if id, err = c.PathParam("id"); err != nil {
		return "", "", err
	}
	q := c.ParseQuery("reason")
	if reason = q.Line("reason"); q.Err() != nil {
		return "", "", q.Err()
	}
	request := wire.EndRequest{Reason: reason}
	if err = c.DecodeOptional(&request); err != nil {
		return "", "", err
	}
	return id, request.Reason, httpserver.CheckLine("reason", request.Reason, maxReason)
}
