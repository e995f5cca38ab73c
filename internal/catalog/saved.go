package catalog

import (
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
)

// Saved is what a node keeps of the catalog to start from while its database is
// unreachable. Of the tokens it holds those that checks and bouncers may need;
// those of operators are of no use then.
type Saved struct {
	Revision int64
	Settings Settings
	Policies []*rules.Policy
	Tokens   []*identity.Token
	Entries  []*blocks.Entry     // exemptions first
	Profiles []*profiles.Profile // what decides of those with a plan or a limit that holds
}

// Snapshot returns what is known, nil where nothing has been read from the
// database by this process. Changes wait while it is taken, and checks do not.
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

// unconfirmed says that the catalog was adopted and not read from the database.
type unconfirmed struct{ asOf time.Time }

// Adopt takes over what was saved, as of an instant at which it was current,
// because the database is unreachable with err. The first Refresh that succeeds
// replaces all of it at once. It does nothing once the database has been read.
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
	_, _ = known.Apply(func(yield func(*profiles.Profile, error) bool) { // which yields no error
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

// Unconfirmed reports whether this process decides by what was saved before it
// started, and as of when that was current.
func (c *Catalog) Unconfirmed() (asOf time.Time, is bool) {
	if u := c.unconfirmed.Load(); u != nil {
		return u.asOf, true
	}
	return time.Time{}, false
}
