package api

import (
	"context"
	"github.com/stint-dev/stint/internal/httpserver"
	"net/http"

	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

func (s *API) surveyor() *blocklist.Surveyor {
	return &blocklist.Surveyor{View: s.Catalog, Parser: s.Catalog.Parser, Traffic: s.Traffic, Now: s.Now}
}

func (s *API) previewBlock(c *httpserver.Call) error {
	var request wire.PreviewRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	pattern, err := s.pattern("pattern", request.Pattern)
	if err != nil {
		return err
	}
	ctx := c.Context()
	r, err := s.surveyor().Survey(ctx, pattern, c.Address)
	if err != nil {
		return err
	}
	answer := wire.Impact{
		Pattern: pattern.String(), Estimate: fromTraffic(r.Traffic), Hidden: r.Hidden, BlocksCaller: r.BlocksCaller,
		Exemptions: wholePage(r.Exemptions, s.wireEntry).Items,
		CoveredBy:  wholePage(r.CoveredBy, s.wireEntry).Items, Covers: wholePage(r.Covers, s.wireEntry).Items,
		ConfirmReason: wire.NullString(r.Confirm), Warnings: append(widenedWarnings(pattern), s.overlapWarnings(blocks.Block, pattern)...),
	}
	if r.Confirm != "" {
		answer.Confirm = wire.NullString(pattern.String())
	}
	return c.SendJSON(http.StatusOK, answer)
}

// confirmEntry refuses a broad entry until its pattern is sent again as
// confirmed.
func (s *API) confirmEntry(ctx context.Context, kind blocks.Kind, p, confirmed keys.Pattern) error {
	switch {
	case p == confirmed:
		return nil
	case kind == blocks.Block:
		return blocklist.NeedConfirm(p, s.surveyor().WhyConfirm(ctx, p))
	}
	return blocklist.NeedConfirm(p, blocklist.Broad(p))
}

// confirmLonger refuses a change that prolongs a broad entry until it is
// confirmed.
func (s *API) confirmLonger(ctx context.Context, e *blocks.Entry, change *entryChange) error {
	if change.Expires == nil || e.Pattern == change.confirmed {
		return nil
	}
	if change.Revision == 0 && blocklist.Broad(e.Pattern) != "" {
		change.Revision = e.Revision // a concurrent change that shortens it makes this one a prolongation
	}
	if !blocklist.Prolongs(e.Expires, *change.Expires) {
		return nil
	}
	return s.confirmEntry(ctx, e.Kind, e.Pattern, change.confirmed)
}
