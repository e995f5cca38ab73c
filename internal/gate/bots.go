package gate

import (
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// findClient sets the client of a check whose key says it.
func (g *Gate) findClient(c *Check) {
	if c.Client.IsZero() && c.Key.HasClient() {
		c.Client = keys.Parser{IPv6Bits: g.view.Settings().IPv6Bits}.ClientOf(c.Key)
	}
}

// identify sets who a check is about, besides its key: its client, and its bot with what the node finds
// of the request.
func (g *Gate) identify(c *Check, selector *rules.Selector, use bots.Use) {
	g.findClient(c)
	c.countsBot = true
	c.Request, c.bot = g.bots.Describe(c.Request, c.address(), selector.AsksOrigin(), use)
}

// useOf returns what the request of a check is identified for. isRefused says that it is refused whatever
// its signature says.
func useOf(c *Check, isRefused bool) bots.Use {
	return bots.Use{ID: c.ID, IsPeek: c.Peek, IsRefused: isRefused}
}

// isRefusedUnread reports whether a block refuses a signed check, by whomever it is signed. A signature
// takes longer to verify than all else of a check: nobody can have that done from a blocked address.
func (g *Gate) isRefusedUnread(c *Check, set *blocks.Set, at time.Time) bool {
	if c.Request.Signed() == nil || set.Exempts(bots.Kind) || set.Exempts(bots.CategoryKind) {
		return false
	}
	g.findClient(c)
	about := *c
	about.bot = bots.Identity{}
	match := about.matchIn(set, at)
	return match.Refuses() && !match.Challenges() // a pass lifts a challenge
}

// appendBot appends the policies that the bot of a check, and its category, select by a pattern of bots,
// with their further keys. They count all requests of the bot, or of the category, together.
func (a *applying) appendBot(all []additional, bot bots.Identity, request *conditions.Request) []additional {
	counted := botKeys(bot, a.selector)
	if len(counted) == 0 {
		return all
	}
	var room, forKey [8]*rules.Policy
	met := a.selector.AppendFor(room[:0], request, func(p *rules.Policy) bool { return p.IsReported() || p.Rules.CanCount(a.who.Key, request, nil) })
	for i := range counted {
		key := counted[i]
		enforcing, shadow, byEnforcing, byShadow := selectBot(a.selector, key)
		for _, own := range []struct {
			p  *rules.Policy
			by keys.Pattern
		}{{enforcing, byEnforcing}, {shadow, byShadow}} {
			if bots.IsPattern(own.by.String()) && limits(own.p) {
				all = a.appendDerived(append(all, additional{policy: own.p, derived: &key}), own.p, request, false)
			}
		}
		policies := forKey[:0]
		for _, p := range met {
			if isForBot(p, key) {
				policies = append(policies, p)
			}
		}
		all = a.appendConditional(all, policies, &key, request, false)
	}
	return all
}

// botKeys returns the keys under which policies count a bot, none if no policy has a pattern of bots.
func botKeys(bot bots.Identity, selector *rules.Selector) []keys.Key {
	if !selector.HasKind(bots.Kind) && !selector.HasKind(bots.CategoryKind) {
		return nil
	}
	return bot.CountedKeys()
}

// selectBot returns the policies of a key of a bot, and the patterns that select it. Policies of the bot
// hold for those who say to be it, unless others are for those only.
func selectBot(selector *rules.Selector, key keys.Key) (enforcing, shadow *rules.Policy, byEnforcing, byShadow keys.Pattern) {
	who := rules.Subject{Key: bots.SelectedKey(key)}
	enforcing, shadow = selector.Select(who)
	byEnforcing, byShadow = selector.Matched(who)
	if who.Key == key {
		return enforcing, shadow, byEnforcing, byShadow
	}
	own, ownShadow := selector.Select(rules.Subject{Key: key})
	by, shadowBy := selector.Matched(rules.Subject{Key: key})
	if own != nil && !by.Matches(who.Key) {
		enforcing, byEnforcing = own, by
	}
	if ownShadow != nil && !shadowBy.Matches(who.Key) {
		shadow, byShadow = ownShadow, shadowBy
	}
	return enforcing, shadow, byEnforcing, byShadow
}

// isForBot reports whether a pattern of bots of p selects the key of a bot.
func isForBot(p *rules.Policy, key keys.Key) bool {
	for _, k := range [...]keys.Key{bots.SelectedKey(key), key} {
		if by := rules.MatchedBy(p, rules.Subject{Key: k}); bots.IsPattern(by.String()) {
			return true
		}
	}
	return false
}
