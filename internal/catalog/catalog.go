// Package catalog is a node's copy of what decides: policies, blocks,
// exemptions, tokens and the shared settings. It follows the database by its
// revision, so that no change is missed however late it commits, and goes on
// with the last known state while the database is gone.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
)

// Settings are what all nodes of one database share.
type Settings struct {
	IPv6Bits int
	// Secret keys the MAC of refusal ids; 32 bytes, made with the database.
	Secret []byte
}

// Changes is what the database holds beyond a revision.
type Changes struct {
	Position
	// Settings is nil where they have not changed.
	Settings *Settings
	// Policies holds every policy that exists; it is filled in only where
	// PoliciesChanged, since a selector is built whole.
	PoliciesChanged bool
	Policies        []*rules.Policy
	// Entries are the active blocks and exemptions, and of changes beyond a
	// revision the ended ones too, in any order.
	Entries iter.Seq2[*blocks.Entry, error]
	Tokens  []*identity.Token
	// UsersChanged says that a user was changed or deleted, or a session ended.
	UsersChanged bool
	// ChannelsChanged says that notification channels or silences were changed, which the
	// catalog does not hold.
	ChannelsChanged bool
	// KnownLogins holds all of them where KnownLoginsChanged is set.
	KnownLoginsChanged bool
	KnownLogins        []identity.KnownLogin
	// Profiles are those of keys with a plan or a limit of their own, and of changes beyond a
	// revision all that changed, deleted ones without both; nil where none has changed.
	Profiles iter.Seq2[*profiles.Profile, error]
}

// PollInterval is how often a node asks for changes when nothing notifies it.
// What is revoked must end open streams within a second of its revision.
const PollInterval = 500 * time.Millisecond

// Catalog is safe for use by many goroutines. See New.
type Catalog struct {
	source Source
	now    func() time.Time

	refresh   sync.Mutex   // one reader of the source at a time
	refreshes refreshGroup // what waits for it
	known     bool         // under refresh: everything was taken over once, so changes suffice
	revision  atomic.Int64
	server    int64     // of the last position that was read
	followed  time.Time // under refresh: when the source was asked last
	loaded    atomic.Bool
	failing   atomic.Pointer[failure]
	// unconfirmed is not nil from Adopt until the database was read.
	unconfirmed atomic.Pointer[unconfirmed]
	wake        chan struct{}

	parser   atomic.Pointer[keys.Parser]
	settings atomic.Pointer[Settings]
	selector atomic.Pointer[rules.Selector]
	blocks   atomic.Pointer[blocks.Set]
	profiles atomic.Pointer[profiles.Set]
	tokens   atomic.Pointer[map[[32]byte]*identity.Token]
	logins   atomic.Pointer[identity.KnownLogins]
	users    atomic.Int64 // the last revision that changed a user or ended a session

	mu        sync.Mutex
	listeners []func(Changed)
	onOutage  func(since, ended time.Time, err error)
}

type failure struct {
	since time.Time
	err   error
}

// Changed says what a refresh brought.
type Changed struct {
	Revision int64
	Policies bool
	Blocks   int
	Tokens   int
	Profiles int
	Channels bool // notification channels or silences
}

// New returns a catalog that has loaded nothing yet; see Refresh and Run.
func New(source Source, now func() time.Time) *Catalog {
	c := &Catalog{source: source, now: now, wake: make(chan struct{}, 1)}
	c.parser.Store(&keys.Parser{})
	c.settings.Store(&Settings{})
	c.selector.Store(&rules.Selector{})
	c.blocks.Store(blocks.NewSet())
	c.profiles.Store(profiles.NewSet())
	c.tokens.Store(&map[[32]byte]*identity.Token{})
	c.logins.Store(&identity.KnownLogins{})
	return c
}

// Selector returns the policies as last known.
func (c *Catalog) Selector() *rules.Selector { return c.selector.Load() }

// Blocks returns the blocks and exemptions as last known.
func (c *Catalog) Blocks() *blocks.Set { return c.blocks.Load() }

// Profiles returns the plans and own limits of keys as last known.
func (c *Catalog) Profiles() *profiles.Set { return c.profiles.Load() }

// Subject returns k as policies select it, with its plan.
func (c *Catalog) Subject(k keys.Key) rules.Subject {
	return profiles.Subject(k, c.profiles.Load().Find(k))
}

// Parser returns the parser of keys and patterns under the shared settings.
func (c *Catalog) Parser() keys.Parser { return *c.parser.Load() }

// Settings returns the shared settings.
func (c *Catalog) Settings() Settings { return *c.settings.Load() }

// TokenByHash returns the token with the SHA-256 of its secret.
func (c *Catalog) TokenByHash(hash [32]byte) (*identity.Token, bool) {
	t, found := (*c.tokens.Load())[hash]
	return t, found
}

// KnownLogin reports whether a user has logged in from an address lately.
func (c *Catalog) KnownLogin(user string, address identity.KnownAddress) bool {
	return c.logins.Load().Has(identity.KnownPair{User: user, Address: address}, c.now())
}

// UsersRevision returns the last revision known that changed or deleted a user
// or ended a session: until it moves, what was read of them holds.
func (c *Catalog) UsersRevision() int64 { return c.users.Load() }

// Loaded reports whether the database has ever been read; until then a node
// can decide nothing.
func (c *Catalog) Loaded() bool { return c.loaded.Load() }

// Revision returns the last revision taken over.
func (c *Catalog) Revision() int64 { return c.revision.Load() }

// Failing returns since when refreshing fails and why, or a nil error.
func (c *Catalog) Failing() (time.Time, error) {
	if f := c.failing.Load(); f != nil {
		return f.since, f.err
	}
	return time.Time{}, nil
}

// OnChange has f called after every refresh that brought something, one call after the
// other. f must not wait: no other refresh begins before it returns.
func (c *Catalog) OnChange(f func(Changed)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, f)
}

// OnOutage has f called when refreshing begins to fail, with a zero ended, and
// when it succeeds again. It is to be called before the first Refresh; f must not
// wait.
func (c *Catalog) OnOutage(f func(since, ended time.Time, err error)) { c.onOutage = f }

// Wake asks Run to refresh now. It never blocks.
func (c *Catalog) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run refreshes until ctx ends: on every Wake and every PollInterval.
func (c *Catalog) Run(ctx context.Context) {
	poll := time.NewTicker(PollInterval)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-poll.C:
		}
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		_ = c.Refresh(attempt) // kept in Failing, which health and pages show
		cancel()
	}
}

// Refresh takes over what has changed. A change that was acknowledged before
// Refresh was called governs every check after it returns.
func (c *Catalog) Refresh(ctx context.Context) error {
	return c.refreshes.share(ctx, func(begin func()) error {
		c.refresh.Lock()
		defer c.refresh.Unlock()
		begin()
		return c.follow(ctx)
	})
}

// Reload reads everything again, for a database that was replaced whole.
// Checks go on with the old state until the new one is complete. Where it
// fails, the next Refresh begins from zero too.
func (c *Catalog) Reload(ctx context.Context) error {
	c.refresh.Lock()
	defer c.refresh.Unlock()
	c.known = false
	return c.follow(ctx)
}

// view is what a change is applied to.
type view struct {
	blocks   *blocks.Set
	tokens   map[[32]byte]*identity.Token
	profiles *profiles.Set
	unused   bool // no check uses them yet
}

// maxStepBack is how far the clock may be set back without everything being read again.
const maxStepBack = time.Second

func (c *Catalog) follow(ctx context.Context) error {
	// What had expired by a clock that was ahead was not read, or has been swept.
	now := c.now().Round(0) // without its monotonic reading, which would hide the step
	if now.Add(maxStepBack).Before(c.followed) {
		c.known = false
	}
	c.followed = now
	changed, err := read(ctx, c)
	if errors.Is(err, ErrOtherHistory) {
		c.known = false
		changed, err = read(ctx, c)
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("refresh from the database: %w", err) // which says nothing about the database
	}
	if err != nil {
		old := c.failing.Load()
		if old != nil {
			c.failing.Store(&failure{old.since, err})
			return fmt.Errorf("refresh from the database: %w", err)
		}
		since := c.now()
		c.failing.Store(&failure{since, err})
		if c.onOutage != nil {
			c.onOutage(since, time.Time{}, err)
		}
		return fmt.Errorf("refresh from the database: %w", err)
	}
	ended := c.failing.Swap(nil)
	// A database at revision 0 has its tables and is not seeded yet: without its
	// policies nothing may be allowed.
	if c.known || changed != nil {
		c.unconfirmed.Store(nil)
		c.loaded.Store(true)
	}
	if ended != nil && c.onOutage != nil {
		c.onOutage(ended.since, c.now(), ended.err)
	}
	if changed != nil {
		c.known = true
		c.revision.Store(changed.Revision)
		c.notify(*changed)
	}
	return nil
}

func (c *Catalog) apply(ch Changes, v view) (*Changed, error) {
	what := &Changed{Revision: ch.Revision, Policies: ch.PoliciesChanged, Tokens: len(ch.Tokens), Channels: ch.ChannelsChanged}
	now := c.now()
	if ch.Settings != nil {
		c.takeSettings(*ch.Settings)
	}
	var err error
	if what.Blocks, err = applyEntries(v, ch.Entries, now); err != nil {
		return nil, err
	}
	// Before the policies: a plan that both bring must not be unknown in between.
	if what.Profiles, err = v.profiles.Apply(ch.Profiles); err != nil {
		return nil, err
	}
	c.profiles.Store(v.profiles)
	if ch.PoliciesChanged {
		c.selector.Store(rules.NewSelector(ch.Policies))
	}
	c.blocks.Store(v.blocks)
	if len(ch.Tokens) > 0 || v.tokens == nil {
		c.tokens.Store(v.with(ch.Tokens))
	}
	if ch.KnownLoginsChanged {
		known := identity.KnownLoginsOf(ch.KnownLogins)
		c.logins.Store(&known)
	}
	if ch.UsersChanged {
		c.users.Store(ch.Revision)
	}
	return what, nil
}

func (c *Catalog) takeSettings(s Settings) {
	c.settings.Store(&s)
	c.parser.Store(&keys.Parser{IPv6Bits: s.IPv6Bits})
}

// applyEntries applies all to the blocks of v and returns how many there were. all may be
// nil. Checks use the blocks concurrently unless v is unused. Exemptions come first: a pattern exempted and
// blocked by one change must not be refused in between. Ended entries come last: a
// pattern whose block is replaced must not get through in between.
func applyEntries(v view, all iter.Seq2[*blocks.Entry, error], now time.Time) (count int, err error) {
	if all == nil {
		return 0, nil
	}
	set := v.blocks
	var active, ended []*blocks.Entry // to be applied after the exemptions
	for e, err := range all {
		if err != nil {
			return count, err
		}
		count++
		switch {
		case v.unused: // at once, while the next are read
			set.Apply(e, now)
		case !e.ActiveAt(now):
			ended = append(ended, e)
		case e.Kind == blocks.Exemption:
			set.Apply(e, now)
		default:
			active = append(active, e)
		}
	}
	for _, e := range active {
		set.Apply(e, now)
	}
	for _, e := range ended {
		set.Apply(e, now)
	}
	return count, nil
}

// with returns the tokens by hash after a change.
func (v view) with(changed []*identity.Token) *map[[32]byte]*identity.Token {
	next := make(map[[32]byte]*identity.Token, len(v.tokens)+len(changed))
	maps.Copy(next, v.tokens)
	for _, t := range changed {
		next[[32]byte(t.Hash)] = t
	}
	return &next
}

func (c *Catalog) notify(what Changed) {
	c.mu.Lock()
	listeners := c.listeners
	c.mu.Unlock()
	for _, f := range listeners {
		f(what)
	}
}
