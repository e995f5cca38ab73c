package adminui

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

// pulse says what happens now, to whom and since when.
type pulse struct {
	Now   rates
	Usual rates
	// Known says that there is enough of a past to know what is usual.
	Known bool
	// Since is when refusals rose beyond what is usual; zero for not.
	Since  time.Time
	Checks int64 // of the span
	From   *culprit
}

// rates are checks a second.
type rates struct{ Allowed, Limited, Blocked float64 }

// Refused returns the refused part.
func (r rates) Refused() float64 { return r.Limited + r.Blocked }

// culprit is who is behind most of what is refused.
type culprit struct {
	Pattern keys.Pattern
	Share   float64 // of all offences since it began
	Keys    int     // that offended within a wider range; 0 where it is one key
	Size    string  // "256 addresses"
	Rule    string  // that refuses most of it, canonical; "" for a block
	Policy  string
	Blocked bool // all of it is
	Exempt  bool
}

const (
	usualSpan = 24 * time.Hour
	minutesOf = 3 * time.Hour // that are looked at for a beginning
	// An attack is three times what is usual, and at least half a request a
	// second beyond it.
	unusualTimes = 3
	unusualMore  = 0.5
	// quietMinutes in a row end it.
	quietMinutes = 3
)

// findPulse reads what happens. minutes are the points of the last minutesOf,
// by minute, up to now.
func (h *overviewHandler) findPulse(ctx context.Context, minutes []areaPoint, now time.Time) (*pulse, error) {
	p := &pulse{Now: present(minutes)}
	to := now.Truncate(time.Hour)
	hours, err := h.offenders.Traffic(ctx, 0, to.Add(-usualSpan), to, time.Hour)
	if err != nil {
		return nil, err
	}
	p.usual(areaPoints(hours, span{From: to.Add(-usualSpan), To: to}, time.Hour))
	if p.Now.Refused() < p.threshold() {
		return p, nil
	}
	p.Since = p.beginning(minutes)
	p.From, err = h.findCulprit(ctx, p.Since, now)
	return p, err
}

// present returns the rates of the newest part, together with the one before
// where it has only begun.
func present(minutes []areaPoint) rates {
	var sum areaPoint
	for i := len(minutes) - 1; i >= 0 && sum.Seconds < 30; i-- {
		sum.add(&minutes[i])
	}
	return rates{sum.rate(sum.Allowed), sum.rate(sum.Limited), sum.rate(sum.Blocked)}
}

// usual takes the medians of the hours that had any check: an attack of some
// hours does not change them.
func (p *pulse) usual(hours []areaPoint) {
	var allowed, limited, blocked []float64
	for i := range hours {
		h := &hours[i]
		if h.Allowed+h.refused() > 0 {
			allowed = append(allowed, h.rate(h.Allowed))
			limited = append(limited, h.rate(h.Limited))
			blocked = append(blocked, h.rate(h.Blocked))
		}
	}
	if p.Known = len(allowed) >= 2; p.Known {
		p.Usual = rates{median(allowed), median(limited), median(blocked)}
	}
}

// median returns the lower of the two in the middle: of two hours, one of an
// attack, the other is usual.
func median(all []float64) float64 {
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

func (p *pulse) threshold() float64 {
	return max(unusualTimes*p.Usual.Refused(), p.Usual.Refused()+unusualMore)
}

// beginning goes back from now to the first minute of what is unusual.
func (p *pulse) beginning(minutes []areaPoint) time.Time {
	begins, quiet := minutes[len(minutes)-1].At, 0
	for i := len(minutes) - 1; i >= 0 && quiet < quietMinutes; i-- {
		if m := &minutes[i]; m.rate(m.refused()) >= p.threshold() {
			begins, quiet = m.At, 0
		} else {
			quiet++
		}
	}
	return begins
}

// culpritKeys is how many of the heaviest keys are looked at.
const culpritKeys = 256

// findCulprit returns who did most of what was refused since an instant: a
// range of addresses or a key that did at least a third, nil for nobody alone.
func (h *overviewHandler) findCulprit(ctx context.Context, since, now time.Time) (*culprit, error) {
	ranking, err := h.offenders.Store.Rank(ctx, offences.Query{From: since, To: now, Limit: culpritKeys})
	if err != nil || ranking.Offences == 0 {
		return nil, err
	}
	c := heaviest(ranking.Rows, ranking.Offences)
	if c == nil {
		return nil, nil
	}
	page := make([]string, 0, 20)
	for _, row := range ranking.Rows {
		if k, err := offences.ParseKey(row.Key); err == nil && c.Pattern.Matches(k) && len(page) < cap(page) {
			page = append(page, row.Key)
		}
	}
	details, err := h.offenders.Store.Details(ctx, offences.Query{}, page, ranking.Span, 1)
	if err != nil {
		return nil, err
	}
	c.explain(details, h.policyName)
	c.Blocked, c.Exempt = h.covered(c.Pattern, now)
	return c, nil
}

// explain fills in what refuses most of it.
func (c *culprit) explain(details []offences.Detail, policyName func(int64) string) {
	type decider struct {
		policy int64
		rule   string
	}
	sums, most := map[decider]int64{}, int64(0)
	for _, d := range details {
		if d.Kind != offences.Limited {
			continue
		}
		id := decider{d.Policy, d.RefusedBy}
		if sums[id] += d.Count; sums[id] > most {
			most, c.Rule, c.Policy = sums[id], d.RefusedBy, policyName(d.Policy)
		}
	}
}

// heaviest returns the range with three offenders or more that did half of
// everything, or the one key that did a third.
func heaviest(rows []offences.Ranked, all int64) *culprit {
	type group struct {
		sum  int64
		keys int
	}
	groups := map[netip.Prefix]*group{}
	for _, row := range rows {
		network, is := rangeAround(row.Key)
		if !is {
			continue
		}
		if groups[network] == nil {
			groups[network] = &group{}
		}
		groups[network].sum += row.Offences
		groups[network].keys++
	}
	var best *culprit
	var bestSum int64
	for network, g := range groups {
		if g.keys >= 3 && 2*g.sum >= all && g.sum > bestSum {
			pattern := keys.NetworkPattern(network)
			best, bestSum = &culprit{Pattern: pattern, Share: float64(g.sum) / float64(all), Keys: g.keys, Size: covers(pattern)}, g.sum
		}
	}
	if best != nil || 3*rows[0].Offences < all {
		return best
	}
	k, err := offences.ParseKey(rows[0].Key)
	if err != nil {
		return nil
	}
	return &culprit{Pattern: keys.PatternOf(k), Share: float64(rows[0].Offences) / float64(all)}
}

// rangeAround returns the range in which an address has its neighbours: a /24,
// or a /48.
func rangeAround(key string) (netip.Prefix, bool) {
	k, err := offences.ParseKey(key)
	if err != nil {
		return netip.Prefix{}, false
	}
	network, is := k.Network()
	if !is {
		return network, false
	}
	bits := 24
	if network.Addr().Is6() {
		bits = 48
	}
	if network.Bits() < bits {
		return network, false
	}
	return netip.PrefixFrom(network.Addr(), bits).Masked(), true
}

// covered reports whether a block, and whether an exemption, stands that covers
// all of a pattern.
func (h *overviewHandler) covered(p keys.Pattern, now time.Time) (blocked, exempt bool) {
	set := h.catalog.Blocks()
	for _, b := range set.BlocksTouching(p, now, maxTouching) {
		blocked = blocked || b.Pattern.Covers(p)
	}
	for _, e := range set.ExemptionsTouching(p, now, maxTouching) {
		exempt = exempt || e.Pattern.Covers(p)
	}
	return blocked, exempt
}

// perSecond writes a rate so that it can be read at a glance.
func perSecond(f float64) string {
	switch {
	case f >= 10 || f == 0:
		return number(int64(f + 0.5))
	case f < 0.05:
		return "<0.1"
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}

// wholePercent writes a share, 0 to 1, for a sentence.
func wholePercent(f float64) string {
	switch {
	case f > 0.995:
		return "All"
	case f < 0.01:
		return "Less than 1%"
	}
	return number(int64(100*f+0.5)) + "%"
}
