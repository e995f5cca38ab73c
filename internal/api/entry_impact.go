package api

import (
	"context"
	"net/http"

	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

func (h *entryHandler) surveyor() *blocklist.Surveyor {
	return &blocklist.Surveyor{View: h.catalog, Parser: h.catalog.Parser, Traffic: h.traffic, Now: h.now}
}

func (h *entryHandler) previewBlock(c *httpserver.Call) error {
	var request wire.PreviewRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	pattern, err := h.pattern("pattern", request.Pattern)
	if err != nil {
		return err
	}
	r, err := h.surveyor().Survey(c.Context(), pattern, c.Address)
	if err != nil {
		return err
	}
	answer := wire.Impact{
		Pattern: pattern.String(), Estimate: fromTraffic(r.Traffic), Hidden: r.Hidden, BlocksCaller: r.BlocksCaller,
		Exemptions: singlePage(r.Exemptions, h.wireEntry).Items,
		CoveredBy:  singlePage(r.CoveredBy, h.wireEntry).Items, Covers: singlePage(r.Covers, h.wireEntry).Items,
		ConfirmReason: wire.NullString(r.Confirm), Warnings: append(widenedWarnings(pattern), h.overlapWarnings(blocks.Block, pattern)...),
	}
	if r.Confirm != "" {
		answer.Confirm = wire.NullString(pattern.String())
	}
	return c.SendJSON(http.StatusOK, answer)
}

// confirmEntry refuses a broad entry until its pattern is sent again as
// confirmed.
func (h *entryHandler) confirmEntry(ctx context.Context, kind blocks.Kind, p, confirmed keys.Pattern) error {
	switch {
	case p == confirmed:
		return nil
	case kind == blocks.Block:
		return blocklist.NeedConfirm(p, h.surveyor().WhyConfirm(ctx, p))
	}
	return blocklist.NeedConfirm(p, blocklist.Broad(p))
}

// confirmLonger refuses a change that prolongs a broad entry until it is
// confirmed.
func (h *entryHandler) confirmLonger(ctx context.Context, e *blocks.Entry, change *entryChange) error {
	if change.Expires == nil || e.Pattern == change.confirmed {
		return nil
	}
	if change.Revision == 0 && blocklist.Broad(e.Pattern) != "" {
		change.Revision = e.Revision // a concurrent change that shortens it makes this one a prolongation
	}
	if !blocklist.Prolongs(e.Expires, *change.Expires) {
		return nil
	}
	return h.confirmEntry(ctx, e.Kind, e.Pattern, change.confirmed)
}

// maxNamed is how many things a warning names one by one.
const maxNamed = 5

// overlapWarnings names the exemptions that a block of p overlaps with, or the
// blocks that an exemption of p does.
func (h *entryHandler) overlapWarnings(kind blocks.Kind, p keys.Pattern) (warnings []string) {
	set, now := h.catalog.Blocks(), h.now()
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

// fromTraffic returns an estimate as the API shows it, nil for nil.
func fromTraffic(t *blocklist.Traffic) *wire.TrafficEstimate {
	if t == nil {
		return nil
	}
	return &wire.TrafficEstimate{
		From: wire.At(t.From), To: wire.At(t.To), Keys: t.Keys, AllKeys: t.AllKeys, Checks: t.Checks, AllChecks: t.AllChecks,
		Ratio: t.Share, RatioError: t.Error,
	}
}
