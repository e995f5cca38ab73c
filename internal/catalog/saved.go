package catalog

import (
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
)

// Saved is the part of the catalog that a node saves, to start from while its database is
// unreachable. It contains only the tokens that checks and bouncers may need, because those of
// operators are useless then.
type Saved struct {
	Revision int64
	Settings Settings
	Policies []*rules.Policy
	Tokens   []*identity.Token
	Entries  []*blocks.Entry     // exemptions first
	Profiles []*profiles.Profile // those with a plan or an active limit
}

// Snapshot returns the present state, nil if this process has not read the database yet.
// Refreshes wait until it returns, but checks do not.
func (c *Catalog) Snapshot() *Saved {
	c.refresh.Lock()
	defer c.refresh.Unlock()
	if !c.known {
		return nil
	}
	now := c.now()
	set := c.blocks.Load()
	s := &Saved{
		Revision: c.revision.Load(), Settings: *c.settings.Load(), Policies: c.selector.Load().Policies(),
		Entries: slices.AppendSeq(slices.AppendSeq(slices.Collect(set.All(blocks.Exemption, now)), set.All(blocks.Block, now)), set.AllScoped(now)),
	}
	for _, token := range *c.tokens.Load() {
		if token.ActiveAt(now) && (token.Grants(identity.Check) || token.Grants(identity.Bouncer)) {
			s.Tokens = append(s.Tokens, token)
		}
	}
	for key, m := range c.profiles.Load().All() {
		if p := (&profiles.Profile{Key: key, Plan: m.Plan, Limit: m.LimitAt(now)}); !p.IsZero() {
			s.Profiles = append(s.Profiles, p)
		}
	}
	return s
}

// unconfirmed is set if the catalog was adopted and not read from the database.
type unconfirmed struct{ asOf time.Time }

// Adopt applies a saved state, which was current at asOf, because the database is unreachable
// with err. The first Refresh that succeeds replaces all of it at once. Adopt does nothing once
// the database has been read.
func (c *Catalog) Adopt(s *Saved, asOf time.Time, err error) {
	c.refresh.Lock()
	defer c.refresh.Unlock()
	if c.known {
		return
	}
	now := c.now()
	set := blocks.NewSet()
	for _, e := range s.Entries {
		set.Apply(e, now)
	}
	tokens := make(map[[32]byte]*identity.Token, len(s.Tokens))
	for _, t := range s.Tokens {
		tokens[[32]byte(t.Hash)] = t
	}
	known := profiles.NewSet()
	_, _ = known.Apply(func(yield func(*profiles.Profile, error) bool) { // never fails: the sequence yields no error
		for _, p := range s.Profiles {
			if !yield(p, nil) {
				return
			}
		}
	})
	c.takeSettings(s.Settings)
	c.profiles.Store(known)
	c.selector.Store(rules.NewSelector(s.Policies))
	c.blocks.Store(set)
	c.tokens.Store(&tokens)
	c.revision.Store(s.Revision)
	c.failing.Store(&failure{now, err})
	c.unconfirmed.Store(&unconfirmed{asOf})
	c.loaded.Store(true)
}

// Unconfirmed reports whether this process uses a state that was saved before it started, and
// when that was current.
func (c *Catalog) Unconfirmed() (asOf time.Time, is bool) {
	if u := c.unconfirmed.Load(); u != nil {
		return u.asOf, true
	}
	return time.Time{}, false
}
