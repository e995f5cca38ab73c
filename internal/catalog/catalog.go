// Package catalog is a node's copy of what decides checks: policies, blocks, exemptions, tokens
// and the shared settings. It follows the revision of the database, so that it misses no change
// however late that commits. While the database is unreachable, it keeps the last known state.
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
	"github.com/stint-dev/stint/internal/supervise"
)

// Settings are the settings that all nodes of one database share.
type Settings struct {
	IPv6Bits int
	// Secret is what the nodes derive the keys of their hashes and MACs from, as those of refusal
	// ids, of handles and of shards; 32 bytes, created with the database.
	Secret []byte
}

// Changes are the changes in the database after a revision.
type Changes struct {
	Position
	// Settings is nil if they have not changed.
	Settings *Settings
	// Policies holds all existing policies, not only changed ones, since a selector is built from
	// all. It is filled in only if PoliciesChanged is set.
	PoliciesChanged bool
	Policies        []*rules.Policy
	// Entries are the active blocks and exemptions, in any order. After a revision they are the
	// changed ones, including those that have ended.
	Entries iter.Seq2[*blocks.Entry, error]
	Tokens  []*identity.Token
	// UsersChanged reports that a user was changed or deleted, or a session ended.
	UsersChanged bool
	// ChannelsChanged reports that notification channels or silences were changed. The catalog
	// does not hold these.
	ChannelsChanged bool
	// KnownLogins holds all known logins if KnownLoginsChanged is set.
	KnownLoginsChanged bool
	KnownLogins        []identity.KnownLogin
	// Profiles are the profiles of keys with a plan or a limit of their own. After a revision
	// they are the changed ones; deleted ones have neither. nil if none has changed.
	Profiles iter.Seq2[*profiles.Profile, error]
}

// PollInterval is how often a node asks for changes if nothing notifies it. It is short because
// open streams must end within a second after their token or session is revoked.
const PollInterval = 500 * time.Millisecond

// Catalog holds the last known state; see New. It is safe for concurrent use.
type Catalog struct {
	source Source
	now    func() time.Time

	refresh   sync.Mutex   // serializes reads of the source
	refreshes refreshGroup // callers that wait for refresh
	known     bool         // guarded by refresh: everything was read once, so reading changes is enough
	revision  atomic.Int64
	server    int64     // Server of the last position that was read
	followed  time.Time // guarded by refresh: the time of the last read of the source
	current   time.Time // guarded by refresh: the same of the last read that succeeded
	loaded    atomic.Bool
	failing   atomic.Pointer[failure]
	// unconfirmed is set by Adopt and reset once the database was read.
	unconfirmed atomic.Pointer[unconfirmed]
	wake        chan struct{}

	parser   atomic.Pointer[keys.Parser]
	settings atomic.Pointer[Settings]
	selector atomic.Pointer[rules.Selector] // for no attack
	attack   atomic.Bool
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

// Changed describes what a refresh changed.
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

// Selector returns the last known policies, as they apply with or without an attack.
func (c *Catalog) Selector() *rules.Selector { return c.selector.Load().During(c.attack.Load()) }

// InAttack reports whether an attack goes on; see SetAttack.
func (c *Catalog) InAttack() bool { return c.attack.Load() }

// SetAttack says whether an attack goes on, which puts the policies in force that are only for
// attacks. It is false until it is called: a node that does not know applies none of them.
func (c *Catalog) SetAttack(on bool) { c.attack.Store(on) }

// Blocks returns the last known blocks and exemptions.
func (c *Catalog) Blocks() *blocks.Set { return c.blocks.Load() }

// Profiles returns the last known plans and own limits of keys.
func (c *Catalog) Profiles() *profiles.Set { return c.profiles.Load() }

// Subject returns k with its plan, as policies select it.
func (c *Catalog) Subject(k keys.Key) rules.Subject {
	return profiles.Subject(k, c.profiles.Load().Find(k))
}

// Parser returns a parser of keys and patterns with the shared settings.
func (c *Catalog) Parser() keys.Parser { return *c.parser.Load() }

// Settings returns the shared settings.
func (c *Catalog) Settings() Settings { return *c.settings.Load() }

// TokenByHash returns the token whose secret has the SHA-256 hash.
func (c *Catalog) TokenByHash(hash [32]byte) (*identity.Token, bool) {
	t, found := (*c.tokens.Load())[hash]
	return t, found
}

// KnownLogin reports whether a user, anyone if that is "", has recently logged in from an
// address.
func (c *Catalog) KnownLogin(user string, address identity.KnownAddress) bool {
	return c.logins.Load().Has(identity.KnownPair{User: user, Address: address}, c.now())
}

// UsersRevision returns the last known revision that changed or deleted a user or ended a
// session. As long as it stays the same, what was read about users and sessions is current.
func (c *Catalog) UsersRevision() int64 { return c.users.Load() }

// Loaded reports whether the database has ever been read or a saved state adopted. Until then a
// node cannot decide anything.
func (c *Catalog) Loaded() bool { return c.loaded.Load() }

// Revision returns the last revision that was applied.
func (c *Catalog) Revision() int64 { return c.revision.Load() }

// Failing returns why refreshing fails and since when, or a nil error.
func (c *Catalog) Failing() (time.Time, error) {
	if f := c.failing.Load(); f != nil {
		return f.since, f.err
	}
	return time.Time{}, nil
}

// OnChange calls f after every refresh that changed something, one call at a time. f must not
// block: no other refresh begins before it returns.
func (c *Catalog) OnChange(f func(Changed)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, f)
}

// OnOutage calls f when refreshing begins to fail, with a zero ended, and when it succeeds again.
// It must be called before the first Refresh. f must not block.
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
		_ = c.Refresh(ctx) // the error is kept in Failing, which health and pages show
	}
}

// Refresh applies what has changed. A change that was acknowledged before Refresh was called
// applies to every check after it returns.
func (c *Catalog) Refresh(ctx context.Context) error {
	return c.refreshes.share(ctx, func(begin func()) error {
		c.refresh.Lock()
		defer c.refresh.Unlock()
		begin()
		return c.follow(ctx)
	})
}

// Reload reads everything again, after the whole database was replaced. Checks use the old state
// until the new one is complete. If Reload fails, the next Refresh reads everything too.
func (c *Catalog) Reload(ctx context.Context) error {
	c.refresh.Lock()
	defer c.refresh.Unlock()
	c.known = false
	return c.follow(ctx)
}

// view is the state to which changes are applied.
type view struct {
	blocks   *blocks.Set
	tokens   map[[32]byte]*identity.Token
	profiles *profiles.Set
	unused   bool   // whether no check uses the blocks yet
	goesOn   func() // called while entries are read
}

// MaxStall is how long a refresh waits for the source to go on. No bound is on the whole: a large
// list takes as long as it takes.
const MaxStall = 10 * time.Second

// maxStepBack is how far the clock may be set back before everything is read again.
const maxStepBack = time.Second

// maxBehind is for how long the source may be unreachable before everything is read again:
// retention deletes what has ended, and with it the news of its end. The job that does so keeps
// all of it for longer than this.
const maxBehind = 12 * time.Hour

func (c *Catalog) follow(ctx context.Context) error {
	// What had expired according to a clock that was ahead was not read, or has been swept.
	now := c.now().Round(0) // without the monotonic clock reading, which would hide the step
	if now.Add(maxStepBack).Before(c.followed) || now.Sub(c.current) > maxBehind {
		c.known = false
	}
	c.followed = now
	reading, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	stall := time.AfterFunc(MaxStall, func() { supervise.Do("stall of a refresh", func() { giveUp(context.DeadlineExceeded) }) })
	defer stall.Stop()
	goesOn := func() { stall.Reset(MaxStall) }
	changed, err := read(reading, c, goesOn)
	if errors.Is(err, ErrOtherHistory) {
		c.known = false
		goesOn()
		changed, err = read(reading, c, goesOn)
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("refresh from the database: %w", err) // the caller's context ended, which says nothing about the database
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
	c.current = now
	ended := c.failing.Swap(nil)
	// A database at revision 0 has its tables but is not seeded yet. It has no policies, so
	// nothing may be allowed.
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
	// Profiles come before policies, so that a plan that both introduce is known to the policies.
	if what.Profiles, err = v.profiles.Apply(ch.Profiles); err != nil {
		return nil, err
	}
	c.profiles.Store(v.profiles)
	if ch.PoliciesChanged {
		c.selector.Store(rules.NewSelector(ch.Policies).Continue(c.selector.Load()))
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

// applyEntries applies all, which may be nil, to the blocks of v and returns their number. Checks
// use the blocks concurrently unless v is unused. Exemptions are applied first, so that a pattern
// that one change exempts and blocks is not refused in between. Ended entries are applied last,
// so that a pattern whose block is replaced is not allowed in between.
func applyEntries(v view, all iter.Seq2[*blocks.Entry, error], now time.Time) (count int, err error) {
	if all == nil {
		return 0, nil
	}
	set := v.blocks
	var active, ended []*blocks.Entry // active blocks and ended entries are applied after the exemptions
	for e, err := range all {
		if err != nil {
			return count, err
		}
		if count++; count%1024 == 0 {
			v.goesOn()
		}
		switch {
		case v.unused: // at once, while the next entries are read
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

// with returns the tokens of v by hash, with the changed ones added or replaced.
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
