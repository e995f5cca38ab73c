package api

import (
	"net/http"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// maxReason is the longest reason, in bytes.
const maxReason = 1000

// wireBlock shows a block as it stands now.
func (s *API) wireBlock(b *blocks.Block) wire.Block {
	return fromBlock(b, s.policyName(b.Policy), s.Now())
}

// policyName returns the name of a policy, "" where it is gone.
func (s *API) policyName(id int64) string {
	if p, found := s.Catalog.Selector().ByID(id); found {
		return p.Name
	}
	return ""
}

// filterParams are the query parameters of the lists of blocks and exemptions.
var filterParams = []string{"state", "author", "search", "key", "within", "order", "cursor", "limit"}

// blockParams are those of blocks alone.
var blockParams = append([]string{"source"}, filterParams...)

// blockFilter reads a filter of blocks or exemptions.
func (s *API) blockFilter(c *httpserver.Call, params []string) (blocks.Filter, error) {
	q := c.ParseQuery(params...)
	f := blocks.Filter{
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

func wirePage[T, W any](page blocks.Page[T], convert func(T) W) wire.Page[W] {
	out := wholePage(page.Items, convert)
	out.NextCursor, out.Total = wire.NullString(page.Next), &page.Total
	return out
}

func (s *API) listBlocks(c *httpserver.Call) error {
	f, err := s.blockFilter(c, blockParams)
	if err != nil {
		return err
	}
	ctx := c.Context()
	page, err := s.Blocks.FindBlocks(ctx, f)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wirePage(page, s.wireBlock))
}

func (s *API) getBlock(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	ctx := c.Context()
	b, err := s.Blocks.FindBlockByID(ctx, id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, s.wireBlock(b))
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
	var request wire.BlockRequest
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

func (s *API) addBlock(c *httpserver.Call) error {
	a, err := s.readAdded(c)
	if err != nil {
		return err
	}
	actor := c.Actor()
	ctx := c.Context()
	if err := s.confirmEntry(ctx, true, a.pattern, a.confirmed); err != nil {
		return err
	}
	done, err := s.Blocks.AddBlock(ctx, actor, blocks.Block{
		Pattern: a.pattern, Reason: a.reason, Author: actor.Name, Source: blocks.Manual, Expires: a.expires,
	}, a.conflict)
	if err != nil {
		return err
	}
	answer := wire.AddedBlock{
		Block: s.wireBlock(done.Item), Outcome: string(done.Outcome),
		Warnings: append(widenedWarnings(a.pattern), s.hiding(a.pattern)...),
	}
	if s.surveyor().HitsCaller(a.pattern, c.Address) {
		answer.Warnings = append(answer.Warnings, "This block refuses your own address, "+c.Address.String()+".")
	}
	if done.Before != nil {
		before := s.wireBlock(done.Before)
		answer.Before = &before
	}
	return sendAdded(c, done.Outcome, wire.PathBlocks+"/"+done.Item.ID, answer)
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

// hiding warns of the exemptions that hide a block of p or part of it.
func (s *API) hiding(p keys.Pattern) []string {
	var warnings []string
	for _, e := range s.Catalog.Blocks().ExemptionsTouching(p, s.Now(), maxNamed) {
		if e.Pattern.Covers(p) {
			warnings = append(warnings, "The exemption "+e.ID+" of "+e.Pattern.String()+" hides this block: it refuses nobody while that stands.")
		} else {
			warnings = append(warnings, "The exemption "+e.ID+" lets "+e.Pattern.String()+" through in spite of this block.")
		}
	}
	return warnings
}

func (s *API) changeBlock(c *httpserver.Call) error {
	id, change, err := s.readChange(c)
	if err != nil {
		return err
	}
	ctx := c.Context()
	b, err := s.Blocks.FindBlockByID(ctx, id)
	if err != nil {
		return err
	}
	if b.ActiveAt(s.Now()) { // the store refuses to change another
		if err := s.confirmLonger(ctx, true, b.Pattern, b.Expires, b.Revision, &change); err != nil {
			return err
		}
	}
	b, err = s.Blocks.UpdateBlock(ctx, c.Actor(), id, change.Update)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, s.wireBlock(b))
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
	var patch wire.EndPatch
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

func (s *API) liftBlock(c *httpserver.Call) error {
	id, reason, err := readEnd(c)
	if err != nil {
		return err
	}
	ctx := c.Context()
	b, err := s.Blocks.LiftBlock(ctx, c.Actor(), id, reason)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, s.wireBlock(b))
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
