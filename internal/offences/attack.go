package offences

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// What DetectAttack and FindAttackSource need as input.
const (
	// AttackSpan is how far back DetectAttack looks for the start of an attack.
	AttackSpan = 3 * time.Hour
	// BaselineSpan is the time from which the baseline is computed.
	BaselineSpan = 24 * time.Hour
	// SourceKeys is the number of keys, those with the most offences, that FindAttackSource
	// needs.
	SourceKeys = 256
)

const (
	// During an attack the refused rate is at least attackFactor times the baseline, and at least
	// attackMargin per second above it.
	attackFactor = 3
	attackMargin = 0.5
	// quietMinutes is how many consecutive minutes below that end the search for the beginning.
	quietMinutes = 3
	// A range is the source of an attack if at least minSourceKeys of its keys offended and had
	// half of the offences. A key is the source if it had a third of them.
	minSourceKeys = 3
)

// AttackLists is the policy in the counts of traffic of checks that lists refused which are for attacks only.
const AttackLists = -1

// Rates are checks per second.
type Rates struct{ Allowed, Limited, Challenged, Blocked float64 }

// Refused returns the refused checks per second.
func (r Rates) Refused() float64 { return r.Limited + r.Challenged + r.Blocked }

// Attack says whether more requests are refused now than normally, since when, and from which
// source.
type Attack struct {
	Now Rates
	// Baseline is the median of the hours of the last day. It is zero if HasBaseline is false,
	// because fewer than two hours had any check.
	Baseline    Rates
	HasBaseline bool
	Since       time.Time // when the attack began; zero: there is none
	// Excess is how many checks more than normal were refused since then, and Peak the highest
	// rate of refused checks per second. Both are 0 if there is no attack.
	Excess, Peak float64
	// Held is the end of the newest minute in which so much was refused, what policies and lists for
	// attacks refused included, zero for none. Such refusals begin no attack and prolong one for a
	// time only; see AttackTracker.Next.
	Held time.Time
	// Source is the main source of refused requests. It is nil if there is no attack, or if no
	// range and no key has a large enough part.
	Source *AttackSource
}

// IsActive reports whether there is an attack now.
func (a *Attack) IsActive() bool { return !a.Since.IsZero() }

// AttackSource is the range or key that has most of the offences of an attack.
type AttackSource struct {
	Pattern keys.Pattern
	Key     string  // the key that is the source, "" for a range; for net:NETWORK, Pattern is that network
	Ratio   float64 // of all offences since the attack began, 0 to 1
	Keys    int     // number of keys that offended within the range; 0 if the source is one key
	// Policy and Rule limit most of its requests; 0 and "" if all are blocked.
	Policy int64
	Rule   string
	// IsBlocked and IsExempt report whether a block or an exemption covers the whole source.
	IsBlocked, IsExempt bool
}

// DetectAttack compares the present refusals with past ones. minutes are the intervals of the
// last AttackSpan by minute, hours those of the last BaselineSpan by hour, both in order of time
// and up to now, without what was refused by policies and lists for attacks. all are the minutes
// with that. It does not set Source.
func DetectAttack(minutes, hours, all []Interval) *Attack {
	a := &Attack{Now: newestRates(minutes)}
	a.Baseline, a.HasBaseline = baseline(hours)
	for i := range all {
		if m := &all[i]; m.Rates().Refused() >= a.threshold() {
			a.Held = m.At.Add(time.Duration(m.Seconds * float64(time.Second)))
		}
	}
	if len(minutes) > 0 && a.Now.Refused() >= a.threshold() {
		a.Since = a.start(minutes)
		a.Peak = a.Now.Refused()
		for i := range minutes {
			if m := &minutes[i]; !m.At.Before(a.Since) {
				a.Excess += float64(m.Refused()) - a.Baseline.Refused()*m.Seconds
				a.Peak = max(a.Peak, m.Rates().Refused())
			}
		}
	}
	return a
}

// newestRates returns the rates of at least the last half minute.
func newestRates(minutes []Interval) Rates {
	var sum Interval
	for i := len(minutes) - 1; i >= 0 && sum.Seconds < 30; i-- {
		sum.Add(&minutes[i])
	}
	return sum.Rates()
}

// baseline returns the medians of the hours that had any check, so that an
// attack of some hours does not change them.
func baseline(hours []Interval) (Rates, bool) {
	var allowed, limited, challenged, blocked []float64
	for i := range hours {
		if h := &hours[i]; h.Allowed+h.Refused() > 0 {
			allowed = append(allowed, h.Rate(h.Allowed))
			limited = append(limited, h.Rate(h.Limited))
			challenged = append(challenged, h.Rate(h.Challenged))
			blocked = append(blocked, h.Rate(h.Blocked))
		}
	}
	if len(allowed) < 2 {
		return Rates{}, false
	}
	return Rates{lowerMedian(allowed), lowerMedian(limited), lowerMedian(challenged), lowerMedian(blocked)}, true
}

// lowerMedian returns the lower of the two middle values: of two hours, one of them under attack,
// the other is the baseline.
func lowerMedian(all []float64) float64 {
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

func (a *Attack) threshold() float64 {
	return max(attackFactor*a.Baseline.Refused(), a.Baseline.Refused()+attackMargin)
}

// start searches backwards from now for the first minute of the attack.
func (a *Attack) start(minutes []Interval) time.Time {
	since, quiet := minutes[len(minutes)-1].At, 0
	for i := len(minutes) - 1; i >= 0 && quiet < quietMinutes; i-- {
		if m := &minutes[i]; m.Rates().Refused() >= a.threshold() {
			since, quiet = m.At, 0
		} else {
			quiet++
		}
	}
	return since
}

// FindAttackSource returns the range or key with most of the offences since an attack began, nil
// for none. rows are the keys with the most offences, sorted by offences, most first. total is
// the number of offences of all keys. Keys for which isFurther returns true are not clients but
// further keys of policies. Of these, a network may be the source, but not a value, because it
// may be the victim of the attack.
func FindAttackSource(rows []Ranked, total int64, isFurther func(keys.Key) bool) *AttackSource {
	if total == 0 {
		return nil
	}
	type group struct {
		sum  int64
		keys int
	}
	groups := map[netip.Prefix]*group{}
	var first *AttackSource
	hasEnough := false
	for _, row := range rows {
		k, err := ParseKey(row.Key)
		if err != nil {
			continue
		}
		pattern := keys.PatternOf(k)
		network, isNetwork := k.Network()
		further := isFurther(k)
		if further {
			if network, isNetwork = CountedNetwork(row.Key); !isNetwork {
				continue
			}
			pattern = keys.NetworkPattern(network)
		}
		if first == nil {
			first = &AttackSource{Pattern: pattern, Key: row.Key, Ratio: float64(row.Offences) / float64(total)}
			hasEnough = 3*row.Offences >= total
		}
		around, is := neighbourhood(network)
		if !isNetwork || !is {
			continue
		}
		if groups[around] == nil {
			groups[around] = &group{}
		}
		groups[around].sum += row.Offences
		if !further {
			groups[around].keys++
		}
	}
	var best *AttackSource
	var bestSum int64
	for network, g := range groups {
		if g.keys >= minSourceKeys && 2*g.sum >= total && g.sum > bestSum {
			best = &AttackSource{Pattern: keys.NetworkPattern(network), Ratio: float64(g.sum) / float64(total), Keys: g.keys}
			bestSum = g.sum
		}
	}
	if best == nil && hasEnough {
		return first
	}
	return best
}

// CountedNetwork returns the network in the key of a network, which a policy counts as a further
// key; false for every other key.
func CountedNetwork(key string) (netip.Prefix, bool) {
	text, is := strings.CutPrefix(key, rules.Network+":")
	if !is {
		return netip.Prefix{}, false
	}
	network, err := netip.ParsePrefix(text)
	return network, err == nil
}

// neighbourhood returns the /24 or /48 that contains an address or network, false for larger
// networks and the zero value.
func neighbourhood(network netip.Prefix) (netip.Prefix, bool) {
	bits := 24
	if network.Addr().Is6() {
		bits = 48
	}
	if network.Bits() < bits {
		return network, false
	}
	return netip.PrefixFrom(network.Addr(), bits).Masked(), true
}

// SetRule sets the rule that limits most of the source's requests.
func (s *AttackSource) SetRule(details []Detail) {
	type rule struct {
		policy int64
		text   string
	}
	sums, largest := map[rule]int64{}, int64(0)
	for _, d := range details {
		if d.Kind != Limited {
			continue
		}
		id := rule{d.Policy, d.RefusedBy}
		if sums[id] += d.Count; sums[id] > largest {
			largest, s.Policy, s.Rule = sums[id], d.Policy, d.RefusedBy
		}
	}
}
