package api

import (
	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

func (h *entryHandler) previewBlock(c *httpserver.Call, in wire.PreviewRequest) (answer wire.Impact, err error) {
	i, err := h.entries.Preview(c.Context(), callerOf(c), blocks.Block, in.Pattern, in.Literal)
	if err != nil {
		return answer, err
	}
	answer = wire.Impact{
		Pattern: i.Text(), Estimate: fromTraffic(i.Traffic), Hidden: i.IsExempt, BlocksCaller: i.BlocksCaller,
		Exemptions: wire.WholePage(i.Exemptions, h.wireEntry).Items,
		CoveredBy:  wire.WholePage(i.CoveredBy, h.wireEntry).Items, Covers: wire.WholePage(i.Covers, h.wireEntry).Items, More: i.More,
		ConfirmReason: wire.NullString(i.ConfirmReason), Warnings: notNil(i.Warnings),
	}
	if i.ConfirmReason != "" {
		answer.Confirm = wire.NullString(i.Text())
	}
	if x := i.Extent; x != nil {
		answer.Extent = &wire.OriginExtent{Ranges: x.Ranges, Addresses: x.Addresses, IPv6Networks: x.Networks6}
	}
	if n := i.Counted; n != nil {
		answer.Counted = &wire.CountedKeys{
			Keys: n.Keys, Offenders: n.Offenders, Allowed: n.Allowed, Refused: n.Refused,
			AllKeys: n.AllKeys, AllAllowed: n.AllAllowed, AllRefused: n.AllRefused, Exact: n.IsExact,
		}
	}
	if p := i.Suggested; p != nil {
		answer.Suggested = &wire.SuggestedPattern{Pattern: p.Pattern.String(), Allowed: p.Allowed, Refused: p.Refused}
	}
	return answer, nil
}

// fromTraffic returns an estimate as the API shows it, nil for nil.
func fromTraffic(t *admin.TrafficEstimate) *wire.TrafficEstimate {
	if t == nil {
		return nil
	}
	return &wire.TrafficEstimate{
		From: wire.At(t.From), To: wire.At(t.To), Keys: t.Keys, AllKeys: t.AllKeys, Checks: t.Checks, AllChecks: t.AllChecks,
		Ratio: t.Ratio, RatioError: t.Error,
	}
}
