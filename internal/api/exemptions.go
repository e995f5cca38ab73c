package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

func (s *API) wireExemption(e *blocks.Exemption) wire.Exemption { return fromExemption(e, s.Now()) }

func (s *API) listExemptions(c *httpserver.Call) error {
	f, err := s.blockFilter(c, filterParams)
	if err != nil {
		return err
	}
	ctx := c.Context()
	page, err := s.Blocks.FindExemptions(ctx, f)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wirePage(page, s.wireExemption))
}

func (s *API) getExemption(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	ctx := c.Context()
	e, err := s.Blocks.FindExemptionByID(ctx, id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, s.wireExemption(e))
}

func (s *API) addExemption(c *httpserver.Call) error {
	a, err := s.readAdded(c)
	if err != nil {
		return err
	}
	actor := c.Actor()
	ctx := c.Context()
	if err := s.confirmEntry(ctx, false, a.pattern, a.confirmed); err != nil {
		return err
	}
	done, err := s.Blocks.AddExemption(ctx, actor, blocks.Exemption{
		Pattern: a.pattern, Reason: a.reason, Author: actor.Name, Expires: a.expires,
	}, a.conflict)
	if err != nil {
		return err
	}
	answer := wire.AddedExemption{
		Exemption: s.wireExemption(done.Item), Outcome: string(done.Outcome),
		Warnings: append(widenedWarnings(a.pattern), s.hidden(a.pattern)...),
	}
	if done.Before != nil {
		before := s.wireExemption(done.Before)
		answer.Before = &before
	}
	return sendAdded(c, done.Outcome, wire.PathExemptions+"/"+done.Item.ID, answer)
}

// hidden warns of the blocks that an exemption of p hides or breaks into.
func (s *API) hidden(p keys.Pattern) []string {
	var warnings []string
	for _, b := range s.Catalog.Blocks().BlocksTouching(p, s.Now(), maxNamed) {
		if p.Covers(b.Pattern) {
			warnings = append(warnings, "This exemption hides the block "+b.ID+" of "+b.Pattern.String()+".")
		} else {
			warnings = append(warnings, "This exemption lets "+p.String()+" through in spite of the block "+b.ID+" of "+b.Pattern.String()+".")
		}
	}
	return warnings
}

func (s *API) changeExemption(c *httpserver.Call) error {
	id, change, err := s.readChange(c)
	if err != nil {
		return err
	}
	ctx := c.Context()
	e, err := s.Blocks.FindExemptionByID(ctx, id)
	if err != nil {
		return err
	}
	if e.ActiveAt(s.Now()) { // the store refuses to change another
		if err := s.confirmLonger(ctx, false, e.Pattern, e.Expires, e.Revision, &change); err != nil {
			return err
		}
	}
	e, err = s.Blocks.UpdateExemption(ctx, c.Actor(), id, change.Update)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, s.wireExemption(e))
}

func (s *API) removeExemption(c *httpserver.Call) error {
	id, reason, err := readEnd(c)
	if err != nil {
		return err
	}
	ctx := c.Context()
	e, err := s.Blocks.RemoveExemption(ctx, c.Actor(), id, reason)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, s.wireExemption(e))
}
