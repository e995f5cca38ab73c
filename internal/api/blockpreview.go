package api

import (
	"context"
	"net/http"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/blocklist"
)

func (s *Server) surveyor() *blocklist.Surveyor {
	return &blocklist.Surveyor{View: s.Catalog, Parser: s.Catalog.Parser, Traffic: s.Traffic, Now: s.Now}
}

func (s *Server) previewBlock(c *Call) error {
	var request v1.PreviewRequest
	if err := decodeJSON(c, &request); err != nil {
		return err
	}
	pattern, err := s.pattern("pattern", request.Pattern)
	if err != nil {
		return err
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	r, err := s.surveyor().Survey(ctx, pattern, c.Address)
	if err != nil {
		return err
	}
	answer := v1.BlockPreview{
		Pattern: pattern.String(), Estimate: v1.FromTraffic(r.Traffic), Hidden: r.Hidden, HitsCaller: r.HitsCaller,
		Exemptions: wholePage(r.Exemptions, s.wireExemption).Items,
		Covering:   wholePage(r.Covering, s.wireBlock).Items, Covered: wholePage(r.Covered, s.wireBlock).Items,
		Why: v1.NullString(r.Confirm), Warnings: append(v1.WidenedWarnings(pattern), s.hiding(pattern)...),
	}
	if r.Confirm != "" {
		answer.Confirm = v1.NullString(pattern.String())
	}
	return sendJSON(c, http.StatusOK, answer)
}

// confirmBlock refuses a block that is wide until it is confirmed.
func (s *Server) confirmBlock(ctx context.Context, c *Call, a added) error {
	if blocklist.Single(a.pattern) || a.confirmed == a.pattern {
		return nil
	}
	r, err := s.surveyor().Survey(ctx, a.pattern, c.Address)
	if err != nil {
		// Not knowing its share of the traffic must keep nobody from blocking an
		// attacker while the database is in trouble.
		return blocklist.NeedConfirm(a.pattern, blocklist.Broad(a.pattern))
	}
	return blocklist.NeedConfirm(a.pattern, r.Confirm)
}
