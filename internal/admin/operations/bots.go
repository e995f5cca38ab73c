package operations

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// Bots is the use case of showing the bots that came to this node.
type Bots struct {
	Counts    *bots.Counts
	Directory *bots.Directory
	View      BotsView
	Now       func() time.Time
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
func (b *Bots) Seen(_ context.Context, _ admin.Caller, in wire.BotsSeen) (wire.Bots, error) {
	last := in.Last.Std()
	switch {
	case last == 0:
		last = defaultBotsSeen
	case last < minBotsSeen || last > maxBotsSeen:
		return wire.Bots{}, fault.Field("last", "must be from 1h to 7d")
	}
	since := b.Now().Add(-last)
	out := wire.Bots{Since: wire.At(since.Truncate(time.Hour)), Items: []wire.Bot{}, Agents: []wire.KnownBot{}, Lists: []wire.BotList{}}
	for _, s := range b.Counts.Since(since) {
		out.Items = append(out.Items, wire.Bot{KnownBot: b.known(s.Agent), Verified: s.Verified, Pattern: b.patternOf(s.Agent, s.Verified), Requests: s.Requests, Refused: s.Refused})
	}
	for _, a := range bots.Agents() {
		out.Agents = append(out.Agents, b.known(a))
	}
	out.Robots = bots.Robots(b.isRefused)
	for _, s := range b.Directory.Lists.States() {
		list := wire.BotList{URL: s.URL, File: s.File, Prefixes: s.Prefixes, Keys: s.Keys, Problem: s.Problem, Refused: b.Directory.Refused(s.URL)}
		if !s.Fetched.IsZero() {
			list.Fetched = wire.At(s.Fetched)
		}
		out.Lists = append(out.Lists, list)
	}
	return out, nil
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
