package admin

import (
	"cmp"
	"context"
	"slices"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

// OriginOffences are the offences of the keys of one origin.
type OriginOffences struct {
	keys.Origin // one part is set; zero for keys of unknown origin
	// Pattern selects the keys, zero if the origin is.
	Pattern        keys.Pattern
	Keys, Offences int64
	Ratio          float64 // of all offences
	IsBlocked      bool    // by a block of the pattern
}

// OriginReport sums offences by origin, the largest sum first.
type OriginReport struct {
	offences.Span
	Rows           []OriginOffences // at most maxOrigins
	Total          int              // number of origins
	Keys, Offences int64            // sums of all rows
}

// maxOrigins bounds the origins in a report.
const maxOrigins = 1000

// The kinds of origins by which offences are summed.
const (
	ByASN     = "asn"
	ByCountry = "country"
)

// Origins sums the offences that a query selects by autonomous system or by country. by is
// ByASN, also for "", or ByCountry. It reads all keys: its time grows with their number.
func (d *Detection) Origins(ctx context.Context, q offences.Query, by string) (*OriginReport, error) {
	if by != "" && by != ByASN && by != ByCountry {
		return nil, fault.Field("by", "must be one of %s, %s", ByASN, ByCountry)
	}
	if _, err := selectState(&q, d.View.Blocks(), d.now()); err != nil {
		return nil, err
	}
	r := &OriginReport{}
	sums := map[keys.Origin]*OriginOffences{}
	var err error
	r.Span, err = d.Store.EachRanked(ctx, q, func(row offences.Ranked) error {
		var o keys.Origin
		if k, err := offences.ParseKey(row.Key); err == nil {
			if o = keys.OriginOf(k); by == ByCountry {
				o.ASN = 0
			} else {
				o.Country = keys.Country{}
			}
		}
		sum := sums[o]
		if sum == nil {
			sum = &OriginOffences{Origin: o}
			sums[o] = sum
		}
		sum.Keys++
		sum.Offences += row.Offences
		r.Keys++
		r.Offences += row.Offences
		return nil
	})
	if err != nil {
		return nil, err
	}
	now := d.now()
	for _, sum := range sums {
		if all := keys.OriginPatterns(sum.Origin); len(all) > 0 {
			sum.Pattern = all[0]
			sum.IsBlocked = d.View.Blocks().Of(blocks.Block, sum.Pattern, now) != nil
		}
		sum.Ratio = float64(sum.Offences) / float64(max(1, r.Offences))
		r.Rows = append(r.Rows, *sum)
	}
	slices.SortFunc(r.Rows, func(a, b OriginOffences) int {
		return cmp.Or(cmp.Compare(b.Offences, a.Offences), cmp.Compare(a.Pattern.String(), b.Pattern.String()))
	})
	r.Total = len(r.Rows)
	r.Rows = r.Rows[:min(len(r.Rows), maxOrigins)]
	return r, nil
}

// originWarnings returns sentences about possible mistakes in an entry of an origin.
func originWarnings(kind blocks.Kind, p keys.Pattern) (all []string) {
	if _, is := p.Origin(); !is {
		return nil
	}
	switch extent, known := keys.ExtentOf(p); {
	case !known:
		all = append(all, "This node has no file that knows the addresses of "+p.String()+": it covers none until --geoip-dir names one. See docs/GEOIP.md.")
	case extent.Ranges == 0:
		all = append(all, "The files of this node have no address of "+p.String()+".")
	}
	if kind == blocks.Exemption {
		return append(all, "Bouncers are not sent this exemption: where they block a range, they block its addresses too. nftables gets it with --geoip-dir only.")
	}
	return append(all, "Bouncers are not sent this block: it refuses what asks Stint. nftables gets it with --geoip-dir only.")
}
