package chart

import (
	"time"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
)

// Budget draws what counts for the fullest window of a policy of amounts: how it came together, and how it
// leaves the window again if nothing more is charged.
type Budget struct {
	Rule     string // "1M tokens/1d"
	Limit    int
	Columns  []budgetColumn
	Points   []budgetPoint // the same as a list, without those that repeat the one before
	NowX     string
	From     format.Moment
	Now      format.Moment
	To       format.Moment // of a window that slides, else without ISO
	LimitY   string
	HasHolds bool
	Sentence string
}

type budgetColumn struct {
	X, W          string // percent
	Charged, Held string // heights, percent
	ChargedY      string
	HeldY         string
}

type budgetPoint struct {
	At            time.Time
	Charged, Held int
}

// budgetColumns is how many columns a drawing has.
const budgetColumns = 72

// DrawBudget draws the fullest window of a policy that counts amounts; nil for other policies, and if nothing
// counts.
func DrawBudget(px *gate.PolicyExplanation, now time.Time) *Budget {
	fullest := fullestWindow(px)
	if fullest == nil {
		return nil
	}
	rule, held := fullest.Rule, 0
	for _, h := range px.Holds {
		held += h.Amount
	}
	counting := newestOf(px.Charged, max(0, fullest.Used-held))
	from, to := now, now
	if rule.Calendar == "" {
		from, to = now.Add(-rule.Window), now.Add(rule.Window)
	} else if len(counting) > 0 {
		from = counting[0].At
	}
	for _, h := range px.Holds {
		if h.Taken.Before(from) && rule.Calendar != "" {
			from = h.Taken
		}
	}
	length := max(time.Millisecond, to.Sub(from))
	at := func(t time.Time) (p budgetPoint) {
		p.At = t
		for _, c := range counting {
			if !c.At.After(t) && (!t.After(now) || c.At.Add(rule.Window).After(t)) {
				p.Charged += c.Amount
			}
		}
		for _, h := range px.Holds {
			ends := h.Expires
			if counted := h.Taken.Add(rule.Window); px.Policy.Expiry() == rules.ExpiryKeeps && counted.After(ends) {
				ends = counted
			}
			if !h.Taken.After(t) && (!t.After(now) || ends.After(t)) {
				p.Held += h.Amount
			}
		}
		return p
	}
	b := &Budget{Rule: format.Rule(rule), Limit: rule.Limit, From: format.Short(from, now), Now: format.Short(now, now), HasHolds: held > 0, NowX: Percent(float64(now.Sub(from)) / float64(length))}
	if to.After(now) {
		b.To = format.Short(to, now)
	}
	points := make([]budgetPoint, budgetColumns+1)
	most := rule.Limit
	for i := range points {
		points[i] = at(from.Add(time.Duration(float64(length) * float64(i) / budgetColumns)))
		most = max(most, points[i].Charged+points[i].Held)
	}
	height := func(n int) float64 { return float64(n) / float64(max(1, most)) }
	b.LimitY = Percent(1 - height(rule.Limit))
	for i, p := range points {
		if i == 0 || p.Charged != points[i-1].Charged || p.Held != points[i-1].Held {
			b.Points = append(b.Points, p)
		}
		if i == budgetColumns || p.Charged+p.Held == 0 {
			continue
		}
		low, high := height(p.Charged), height(p.Charged+p.Held)
		b.Columns = append(b.Columns, budgetColumn{
			X: Percent(float64(i) / budgetColumns), W: Percent(1.0 / budgetColumns),
			Charged: Percent(low), ChargedY: Percent(1 - low), Held: Percent(high - low), HeldY: Percent(1 - high),
		})
	}
	b.Sentence = phrase.Number(int64(fullest.Used)) + " of " + phrase.Number(int64(rule.Limit)) + " count now"
	if held > 0 {
		b.Sentence += ", " + phrase.Number(int64(held)) + " of them held"
	}
	return b
}

// fullestWindow returns the rule with a window that is used most, nil if nothing is.
func fullestWindow(px *gate.PolicyExplanation) (fullest *gate.RuleExplanation) {
	if !px.Policy.TakesHolds() { // others keep no times
		return nil
	}
	share := 0.0
	for i := range px.Rules {
		r := &px.Rules[i]
		if its := float64(r.Used) / float64(max(1, r.Rule.Limit)); !r.Rule.IsConcurrent() && its > share {
			fullest, share = r, its
		}
	}
	return fullest
}

// newestOf returns the newest charges that total an amount, the oldest first. The log has charges that no
// longer count too.
func newestOf(charged []gate.AmountCharge, amount int) []gate.AmountCharge {
	i := len(charged)
	for i > 0 && amount > 0 {
		i--
		amount -= charged[i].Amount
	}
	return charged[i:]
}
