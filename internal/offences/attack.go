package offences

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// What DetectAttack and FindAttackSource need.
const (
	// AttackSpan is how far back the start of an attack is looked for.
	AttackSpan = 3 * time.Hour
	// BaselineSpan is what the baseline is computed from.
	BaselineSpan = 24 * time.Hour
	// SourceKeys is how many of the keys with the most offences FindAttackSource
	// needs.
	SourceKeys = 256
)

const (
	// An attack refuses attackFactor times the baseline, and at least
	// attackMargin per second more than it.
	attackFactor = 3
	attackMargin = 0.5
	// quietMinutes in a row below that are the time before the attack.
	quietMinutes = 3
	// A range is the source of an attack if minSourceKeys or more of its keys
	// offended and had half of the offences; a key, if it had a third of them.
	minSourceKeys = 3
)

// Rates are checks per second.
type Rates struct{ Allowed, Limited, Blocked float64 }

// Refused returns the refused checks per second.
func (r Rates) Refused() float64 { return r.Limited + r.Blocked }

// Attack says whether more is refused now than normally, since when and whose
// requests these are.
type Attack struct {
	Now Rates
	// Baseline is the median of the hours of the last day; zero where
	// HasBaseline is false because fewer than two hours had any check.
	Baseline    Rates
	HasBaseline bool
	Since       time.Time // when the attack began; zero: there is none
	// Source is who is refused most; nil where there is no attack, or where no
	// range and no key has a large enough part of it.
	Source *AttackSource
}

// IsActive reports whether there is an attack now.
func (a *Attack) IsActive() bool { return !a.Since.IsZero() }

// AttackSource is the range or key that has most of the offences of an attack.
type AttackSource struct {
	Pattern keys.Pattern
	Key     string  // the source, "" where that is a range; Pattern is its network where it is net:NETWORK
	Ratio   float64 // of all offences since the attack began, 0 to 1
	Keys    int     // that offended within the range; 0 where the source is one key
	// Policy and Rule limit most of its requests; 0 and "" where all are blocked.
	Policy int64
	Rule   string
	// IsBlocked and IsExempt say that a block or an exemption covers all of it.
	IsBlocked, IsExempt bool
}

// DetectAttack compares the refusals of now with those of the past. minutes
// are the intervals of the last AttackSpan by minute, hours those of the last
// BaselineSpan by hour, both in order and up to now. It does not set Source.
func DetectAttack(minutes, hours []Interval) *Attack {
	a := &Attack{Now: newestRates(minutes)}
	a.Baseline, a.HasBaseline = baseline(hours)
	if len(minutes) > 0 && a.Now.Refused() >= a.threshold() {
		a.Since = a.start(minutes)
	}
	return a
}

// newestRates returns the rates of the newest half minute or more.
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
	var allowed, limited, blocked []float64
	for i := range hours {
		if h := &hours[i]; h.Allowed+h.Refused() > 0 {
			allowed = append(allowed, h.Rate(h.Allowed))
			limited = append(limited, h.Rate(h.Limited))
			blocked = append(blocked, h.Rate(h.Blocked))
		}
	}
	if len(allowed) < 2 {
		return Rates{}, false
	}
	return Rates{lowerMedian(allowed), lowerMedian(limited), lowerMedian(blocked)}, true
}

// lowerMedian returns the lower of the two values in the middle: of two hours,
// one of them under attack, the other is the baseline.
func lowerMedian(all []float64) float64 {
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

func (a *Attack) threshold() float64 {
	return max(attackFactor*a.Baseline.Refused(), a.Baseline.Refused()+attackMargin)
}

// start goes back from now to the first minute of the attack.
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

// FindAttackSource returns the range or key that has most of the offences since
// an attack began, nil for none. rows are the keys with the most offences, the
// first has the most; total is the offences of all keys. Keys that isFurther selects
// are not those of clients but what policies count besides: of these a network is a
// source, and a value is not, since it may name who is attacked.
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

// CountedNetwork returns the network that a counted key names, which is that of a client as a
// policy's further key; false for every other key.
func CountedNetwork(key string) (netip.Prefix, bool) {
	text, is := strings.CutPrefix(key, rules.Network+":")
	if !is {
		return netip.Prefix{}, false
	}
	network, err := netip.ParsePrefix(text)
	return network, err == nil
}

// neighbourhood returns the /24 or /48 around an address or network, false for wider
// networks and for none.
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
