// Package firewall keeps sets of nftables equal to the active blocks of a Stint server.
// The ranges are computed by pure functions; Sync alone reads the server and runs nft.
package firewall

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/wire"
)

// Source is the Stint server.
type Source interface {
	// Entries returns all active blocks and exemptions.
	Entries(context.Context) ([]wire.Entry, error)
	// Changes ranges over changes as they happen, until the connection or the context
	// ends; the last error says why. It calls opened once no later change can be missed.
	// A nil change means that changes are missing.
	Changes(ctx context.Context, opened func()) iter.Seq2[*wire.AuditEntry, error]
	// Addresses returns the addresses of the server, which are never refused.
	Addresses(context.Context) ([]netip.Addr, error)
}

// Options control a Sync.
type Options struct {
	Layout Layout
	Never  []netip.Prefix // networks that are never refused
	// Origins knows the networks of asn: and country:, nil if nothing does.
	Origins NetworksOf
	// CompareEvery is how often everything is read again, from the server and from the
	// kernel, and compared.
	CompareEvery time.Duration
	// Progress, if not nil, gets what was done.
	Progress *Progress
	// Logf writes one line for people. Nothing in it is chosen by an attacker.
	Logf func(format string, args ...any)
}

// Sync keeps the sets equal to the blocks. Create it with New. Its methods must not be
// called concurrently.
type Sync struct {
	o      Options
	source Source

	known   entries
	listed  bool           // known is complete
	own     []netip.Prefix // the server's addresses
	written []Range        // the elements of the sets
	exact   bool           // written is what was written last, without errors
	next    time.Time      // when an exemption expires, zero for never

	// lag is the longest that nft has taken to write. Elements may time out so much later
	// than their blocks, since a timeout begins when it is written. Without it large sets
	// would be written again at each comparison.
	lag time.Duration
}

// New returns a Sync. The layout must be valid.
func New(source Source, o Options) *Sync { return &Sync{o: o, source: source, known: entries{}} }

const (
	minPause = time.Second      // before connecting again
	maxPause = 10 * time.Second // the pause doubles up to it
	steady   = time.Minute      // a stream that was open for so long resets the pause
)

// DryRun returns the commands that would make the sets equal to the blocks now.
func (s *Sync) DryRun(ctx context.Context) (string, error) {
	current, err := s.o.Layout.read(ctx)
	if err != nil {
		return "", err
	}
	found := s.list(ctx)
	if found.err != nil {
		return "", found.err
	}
	s.replace(found, nil)
	return s.comparison(current, time.Now(), true).script, nil
}

// Removal returns the commands that remove everything that was created by the layout, and
// nothing else; it is empty if there is nothing to remove.
func Removal(ctx context.Context, l Layout) (string, error) {
	current, err := l.read(ctx)
	if err != nil {
		return "", err
	}
	return l.removal(current), nil
}

// Remove executes the commands of Removal.
func Remove(ctx context.Context, l Layout) error {
	script, err := Removal(ctx, l)
	if err != nil || script == "" {
		return err
	}
	return run(ctx, script)
}

// Run follows the server until ctx ends, which is not an error. The sets stay then. It
// returns an error if nft cannot be used or the server rejects the token at the start;
// later failures are logged and tried again.
func (s *Sync) Run(ctx context.Context) error {
	if _, err := s.o.Layout.read(ctx); err != nil {
		return ignoreEnd(ctx, err)
	}
	found := s.list(ctx)
	var problem *wire.Problem
	if errors.As(found.err, &problem) && problem.Status < 500 {
		return found.err
	}
	if found.err == nil {
		s.replace(found, nil)
		if err := s.compare(ctx, true); err != nil {
			return ignoreEnd(ctx, err)
		}
	}
	follow := follower{Sync: s, messages: make(chan message, 1024), lists: make(chan listing, 1)}
	return follow.run(ctx)
}

// ignoreEnd returns nil if ctx has ended, else err.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// listing is everything that was read from the server.
type listing struct {
	entries []wire.Entry
	own     []netip.Prefix
	err     error
}

func (s *Sync) list(ctx context.Context) (found listing) {
	addresses, err := s.source.Addresses(ctx)
	if err != nil {
		return listing{err: err}
	}
	for _, a := range addresses {
		a = a.Unmap().WithZone("")
		found.own = append(found.own, netip.PrefixFrom(a, a.BitLen()))
	}
	found.entries, found.err = s.source.Entries(ctx)
	return found
}

// replace replaces everything known by a listing, and applies the changes that came while
// it was read. It returns false if one of these says that the listing is out of date.
func (s *Sync) replace(found listing, since []*wire.AuditEntry) (current bool) {
	s.known, s.own, s.listed = make(entries, len(found.entries)), found.own, true
	for i := range found.entries {
		s.known.put(&found.entries[i], found.entries[i].Revision)
	}
	current = true
	for _, change := range since {
		current = change != nil && s.known.apply(change) && current
	}
	return current
}

// wanted returns what the sets must contain now.
func (s *Sync) wanted(now time.Time) ([]Range, Summary) {
	never := append(append([]netip.Prefix{}, s.o.Never...), s.own...)
	ranges, next, sum := s.known.wanted(now, never, s.o.Origins)
	s.next = next
	return ranges, sum
}

// update writes what has changed since the last write. If the kernel does not contain
// what was written then, it compares everything.
func (s *Sync) update(ctx context.Context) error {
	if !s.exact {
		return s.compare(ctx, false)
	}
	now := time.Now()
	wanted, sum := s.wanted(now)
	remove, add := difference(activeOf(s.written, now), wanted, 0)
	s.written = wanted
	if len(remove)+len(add) == 0 {
		return nil
	}
	err := s.write(ctx, s.o.Layout.change(remove, add, wanted, now))
	if err != nil {
		s.exact = false
		return s.compare(ctx, false)
	}
	s.o.Progress.written(sum, len(add), len(remove), false)
	s.o.Logf("Added %s, removed %d.", plural(len(add), "range"), len(remove))
	return nil
}

// write executes a script as one transaction.
func (s *Sync) write(ctx context.Context, script string) error {
	began := time.Now()
	err := run(ctx, script)
	if err == nil {
		s.lag = max(s.lag, time.Since(began))
	}
	return err
}

// activeOf returns the ranges that have not timed out.
func activeOf(ranges []Range, now time.Time) []Range {
	active := make([]Range, 0, len(ranges))
	for _, r := range ranges {
		if r.activeAt(now) {
			active = append(active, r)
		}
	}
	return active
}

// attempts is how often a comparison is tried: an element may time out between reading
// and writing, which fails the transaction.
const attempts = 4

// compare reads the sets and makes them equal to the blocks. rebuild also creates the
// chain again where it is intact, for other options than it was created with.
func (s *Sync) compare(ctx context.Context, rebuild bool) (err error) {
	for range attempts {
		var current *state
		if current, err = s.o.Layout.read(ctx); err != nil {
			break
		}
		found := s.comparison(current, time.Now(), rebuild)
		if found.script != "" {
			err = s.write(ctx, found.script)
		}
		if err == nil {
			s.exact = true
			s.o.Logf("%s", &found)
			s.o.Progress.written(found.sum, found.added, found.removed, true)
			return nil
		}
		_ = supervise.Sleep(ctx, minPause/4) // the next attempt fails if ctx has ended
	}
	s.exact = false
	return err
}

// tolerance is how far the expiry of an element may be off in a comparison: nft prints
// seconds.
const tolerance = 3 * time.Second

// comparison is how the sets differ from the blocks.
type comparison struct {
	script         string // the commands that make them equal
	sum            Summary
	added, removed int // ranges
}

// comparison compares what the kernel contains with the blocks.
func (s *Sync) comparison(current *state, now time.Time, rebuild bool) (found comparison) {
	wanted, sum := s.wanted(now)
	remove, add := difference(current.ranges, wanted, tolerance+s.lag)
	s.written = wanted
	found.sum, found.added, found.removed = sum, len(add), len(remove)
	if rebuild || !current.intact {
		found.script = s.o.Layout.structure()
	}
	found.script += s.o.Layout.change(remove, add, wanted, now)
	return found
}

// String returns a line for people.
func (c *comparison) String() string {
	line := fmt.Sprintf("Compared: %s and %s are %s of IPv4 and %d of IPv6; added %d, removed %d. Left out: %s of other keys, %d of every address.",
		plural(c.sum.Blocks, "block"), plural(c.sum.Exemptions, "exemption"), plural(c.sum.IPv4, "range"), c.sum.IPv6, c.added, c.removed,
		plural(c.sum.NotAddresses, "block"), c.sum.EveryAddress)
	if c.sum.Origins > 0 {
		line += fmt.Sprintf(" Not added, because --geoip-dir is missing or they are too large: %s and exemptions of asn: or country:.", plural(c.sum.Origins, "block"))
	}
	return line
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
