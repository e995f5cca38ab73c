package api

import (
	"context"
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/httpserver"
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
	answer := wire.BlockPreview{
		Pattern: pattern.String(), Estimate: fromTraffic(r.Traffic), Hidden: r.Hidden, HitsCaller: r.HitsCaller,
		Exemptions: wholePage(r.Exemptions, s.wireExemption).Items,
		Covering:   wholePage(r.Covering, s.wireBlock).Items, Covered: wholePage(r.Covered, s.wireBlock).Items,
		Why: wire.NullString(r.Confirm), Warnings: append(widenedWarnings(pattern), s.hiding(pattern)...),
	}
	if r.Confirm != "" {
		answer.Confirm = wire.NullString(pattern.String())
	}
	return c.SendJSON(http.StatusOK, answer)
}

// confirmEntry refuses to let a broad block, or a broad exemption, stand
// (longer) until its pattern is sent again as confirmed.
func (s *API) confirmEntry(ctx context.Context, isBlock bool, p, confirmed keys.Pattern) error {
	switch {
	case p == confirmed:
		return nil
	case isBlock:
		return blocklist.NeedConfirm(p, s.surveyor().WhyConfirm(ctx, p))
	}
	return blocklist.NeedConfirm(p, blocklist.Broad(p))
}

// confirmLonger refuses a change that prolongs what is broad until it is
// confirmed. from is its present end, and revision its present one.
func (s *API) confirmLonger(ctx context.Context, isBlock bool, p keys.Pattern, from time.Time, revision int64, change *entryChange) error {
	if change.Expires == nil || p == change.confirmed {
		return nil
	}
	if change.Revision == 0 && blocklist.Broad(p) != "" {
		change.Revision = revision // whoever shortens it meanwhile makes this a longer one
	}
	if !blocklist.Prolongs(from, *change.Expires) {
		return nil
	}
	return s.confirmEntry(ctx, isBlock, p, change.confirmed)
}
