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
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// Bots is the use case of showing the bots that came to this node.
type Bots struct {
	Counts *bots.Counts
	Lists  *bots.Lists // nil for none
	View   BotsView
	Now    func() time.Time
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
		out.Items = append(out.Items, wire.Bot{KnownBot: b.known(s.Agent), Verified: s.Verified, Requests: s.Requests, Refused: s.Refused})
	}
	for _, a := range bots.Agents() {
		out.Agents = append(out.Agents, b.known(a))
	}
	out.Robots = bots.Robots(b.isRefused)
	for _, s := range b.Lists.States() {
		list := wire.BotList{URL: s.URL, File: s.File, Prefixes: s.Prefixes, Problem: s.Problem}
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

// isRefused reports whether every request that names the bot is refused, whether or not it is verified.
func (b *Bots) isRefused(a *bots.Agent) bool {
	identity := bots.Identity{Agent: a, Verified: conditions.Claimed}
	refuses := func(p *rules.Policy) bool {
		return p != nil && p.Mode == rules.Enforce && slices.ContainsFunc(p.Rules, func(r rules.Rule) bool { return r.Limit == 0 })
	}
	for _, key := range identity.Keys() {
		if match := b.View.Blocks().Match(key, b.Now()); match.Block != nil && match.Block.Action == blocks.Refuse {
			return true
		}
		byPattern, _ := b.View.Selector().Matched(rules.Subject{Key: key})
		if p, _ := b.View.Selector().Select(rules.Subject{Key: key}); bots.IsPattern(byPattern.String()) && refuses(p) {
			return true
		}
	}
	about := conditions.NewRequest("", "", a.Token, "").With(conditions.Found{Bot: a.Name(), Category: a.Category, Verified: conditions.Claimed})
	return slices.ContainsFunc(b.View.Selector().Policies(), func(p *rules.Policy) bool { return p.IsTrap() && refuses(p) && !p.When.IsZero() && p.When.Meets(about) })
}
