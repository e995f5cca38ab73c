package operations

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// Bots is the use case of showing the bots that came, to any node.
type Bots struct {
	Store     BotsStore
	Directory *bots.Directory
	View      BotsView
	Now       func() time.Time
}

// BotsStore has what was requested of all nodes, as admin.DetectionStore.
type BotsStore interface {
	Breakdowns(ctx context.Context, now, from, to time.Time, step time.Duration, begin func(offences.TrafficSeries), do func(start time.Time, t *breakdown.Table) error) error
}

// BotsView is what decides about bots.
type BotsView interface {
	Blocks() *blocks.Set
	Selector() *rules.Selector
}

const (
	minBotsSeen     = time.Hour
	defaultBotsSeen = 24 * time.Hour
	maxBotsSeen     = 7 * 24 * time.Hour
)

// Seen returns the bots that came, those that are known, and the state of the lists.
func (b *Bots) Seen(ctx context.Context, _ admin.Caller, in wire.BotsSeen) (wire.Bots, error) {
	last := in.Last.Std()
	switch {
	case last == 0:
		last = defaultBotsSeen
	case last < minBotsSeen || last > maxBotsSeen:
		return wire.Bots{}, fault.Field("last", "must be from 1h to 7d")
	}
	out := wire.Bots{Items: []wire.Bot{}, Agents: []wire.KnownBot{}, Lists: []wire.BotList{}}
	if err := b.addSeen(ctx, &out, last); err != nil {
		return wire.Bots{}, err
	}
	for _, a := range bots.Agents() {
		out.Agents = append(out.Agents, b.known(a))
	}
	out.Robots = bots.Robots(b.isRefused)
	for _, s := range b.Directory.Lists.States() {
		list := wire.BotList{URL: s.URL, File: s.File, Prefixes: s.Prefixes, Keys: s.Keys, Problem: s.Problem, IsIgnored: s.IsIgnored, Refused: b.Directory.Refused(s.URL)}
		if !s.Fetched.IsZero() {
			list.Fetched = wire.At(s.Fetched)
		}
		out.Lists = append(out.Lists, list)
	}
	return out, nil
}

// seenBot is what is counted apart: a bot, and how it was verified, "" if that was not kept.
type seenBot struct{ name, verified string }

// notKept is how requests of a bot were verified of which that was not kept.
const notKept = "unknown"

// addSeen adds the bots that came lately.
func (b *Bots) addSeen(ctx context.Context, out *wire.Bots, last time.Duration) error {
	botAt, _ := breakdown.Find(conditions.Bot.String())
	verifiedAt, _ := breakdown.Find(conditions.Verified.String())
	sums := map[seenBot]breakdown.Counts{}
	add := func(of seenBot, c breakdown.Counts) {
		out.Requests += c.Checks()
		if of.name != "" && c.Checks() > 0 {
			sum := sums[of]
			sum.Add(c)
			sums[of] = sum
		}
	}
	now := b.Now()
	err := b.Store.Breakdowns(ctx, now, now.Add(-last), now, 0, func(read offences.TrafficSeries) { out.Since = wire.At(read.From) }, func(_ time.Time, t *breakdown.Table) error {
		if t == nil {
			out.Unread++
			return nil
		}
		for values, row := range t.Rows {
			add(seenBot{values[botAt], values[verifiedAt]}, row.Counts)
		}
		for name, counts := range t.Rest[botAt].Values {
			add(seenBot{name, ""}, counts)
		}
		out.Requests += t.Rest[botAt].Other.Checks()
		return nil
	})
	for of, c := range sums {
		if a := bots.FindAgent(of.name); a != nil {
			verified := cmp.Or(of.verified, notKept)
			out.Items = append(out.Items, wire.Bot{KnownBot: b.known(a), Verified: verified, Pattern: b.patternOf(a, verified), Requests: c.Checks(), Refused: c.Checks() - c.Allowed})
		}
	}
	slices.SortFunc(out.Items, func(x, y wire.Bot) int {
		return cmp.Or(cmp.Compare(y.Requests, x.Requests), cmp.Compare(x.Bot, y.Bot), cmp.Compare(x.Verified, y.Verified))
	})
	return err
}

func (b *Bots) known(a *bots.Agent) wire.KnownBot {
	return wire.KnownBot{Bot: a.Name(), Operator: a.Operator.Title, Category: a.Category, Docs: a.Operator.Docs, IsRefused: b.isRefused(a)}
}

// isRefused reports whether every request of the bot is refused, if it is verified where this node can do so.
func (b *Bots) isRefused(a *bots.Agent) bool {
	identity := b.Directory.As(a, conditions.Claimed)
	if b.Directory.CanVerify(a) {
		identity.Verified = conditions.ByList
	}
	refuses := func(p *rules.Policy) bool {
		return p != nil && p.Mode == rules.Enforce && !p.IsReported() && slices.ContainsFunc(p.Rules, func(r rules.Rule) bool { return r.Limit == 0 })
	}
	selector, now := b.View.Selector(), b.Now()
	isRefused := false
	for _, key := range identity.Keys() {
		match := b.View.Blocks().Match(key, now)
		if match.Exemption != nil && identity.IsVerified() {
			return false
		}
		byPattern, _ := selector.Matched(rules.Subject{Key: key})
		p, _ := selector.Select(rules.Subject{Key: key})
		isRefused = isRefused || match.Block != nil && match.Block.Action == blocks.Refuse || bots.IsPattern(byPattern.String()) && refuses(p)
	}
	about := conditions.NewRequest("", "", a.Token, "").With(conditions.Found{Bot: a.Name(), Category: a.Category, Verified: identity.Verified})
	return isRefused || slices.ContainsFunc(selector.Policies(), func(p *rules.Policy) bool {
		return !p.When.IsZero() && refuses(p) && p.When.Meets(about) && slices.ContainsFunc(p.Match, func(m keys.Pattern) bool {
			return m.Kind() == keys.Any || m.String() == "ip:*" || slices.ContainsFunc(identity.Keys(), m.Matches)
		})
	})
}

// patternOf returns the pattern that selects the requests of a bot that were verified in a way, and no
// more than these where there is such a pattern.
func (b *Bots) patternOf(a *bots.Agent, verified string) string {
	return keys.PatternOf(b.Directory.As(a, verified).CountedKeys()[0]).String()
}
