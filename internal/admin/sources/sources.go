// Package sources contains the use cases of the lists of blocks and exemptions that a node pulls
// again and again. Package admin defines use cases.
package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/wire"
)

// Sources are the use cases.
type Sources struct {
	Store   Store
	Entries EntryStore
	Leases  Leases
	// Traffic estimates what a held pull would have refused; nil if no traffic is recorded.
	Traffic admin.TrafficEstimator
	View    admin.View
	// Refused returns how many checks each block refused since an instant, by its id; nil if
	// nothing is counted.
	Refused func(ctx context.Context, since time.Time) (map[string]int64, error)
	// Fetch downloads a list.
	Fetch func(ctx context.Context, f Request) (*Answer, error)
	// Own are the addresses of this installation, which no list blocks: those of the node and its
	// trusted proxies.
	Own  func() []netip.Prefix
	Node string // unique among the nodes
	// Alarm notifies that a list is stale or held, or that it is not any more; nil for nobody.
	Alarm func(ctx context.Context, isTrouble bool, subject, text string)
	Log   *slog.Logger
	Now   func() time.Time
	// Timeout bounds one pull, the download included; pullTimeout if zero. It may not be longer.
	Timeout time.Duration
}

// Request is a list to download. ETag and Modified are those of the answer before.
type Request struct{ URL, Header, ETag, Modified string }

// Answer is the answer of a list's server, whose body must be closed.
type Answer struct {
	Body           io.ReadCloser
	IsSame         bool // nothing has changed since the answer before
	ETag, Modified string
}

// Store stores the lists.
type Store interface {
	FindLists(ctx context.Context, secrets bool) ([]blocks.List, error)
	AddList(ctx context.Context, by audit.Actor, l blocks.List) error
	SetListState(ctx context.Context, name string, state blocks.ListState) error
	DeleteList(ctx context.Context, by audit.Actor, l blocks.List) error
}

// EntryStore stores the rows of lists.
type EntryStore interface {
	// Pull makes rows the rows of a list in one transaction: those that were in force and are
	// missing end, unless another source holds them too. decide sees what would change, and an
	// error of it leaves everything as it is.
	Pull(ctx context.Context, by audit.Actor, l blocks.ListRows, rows iter.Seq2[blocks.Entry, error], decide func(blocks.PullDiff) error) (blocks.PullDiff, error)
	// Shares returns all shares of entries, by id.
	Shares(ctx context.Context, ids ...string) (map[string][]blocks.Share, error)
}

// Leases gives one node at a time the right to pull a list.
type Leases interface {
	AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (bool, error)
	ReleaseLease(ctx context.Context, name, holder string) error
}

const (
	minEvery     = 5 * time.Minute // how often the job looks for lists that are due
	maxEvery     = 31 * 24 * time.Hour
	defaultEvery = time.Hour
)

var listName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,49}$`)

// List returns the sources.
func (s *Sources) List(ctx context.Context, _ admin.Caller, _ wire.None) (wire.Page[wire.BlockSource], error) {
	all, err := s.Store.FindLists(ctx, false)
	if err != nil {
		return wire.Page[wire.BlockSource]{}, err
	}
	refused := s.refused(ctx)
	return wire.WholePage(all, func(l blocks.List) wire.BlockSource { return s.wireSource(&l, refused) }), nil
}

// Get returns one source.
func (s *Sources) Get(ctx context.Context, _ admin.Caller, in wire.ByName) (wire.BlockSource, error) {
	l, err := s.find(ctx, in.Name)
	if err != nil {
		return wire.BlockSource{}, err
	}
	return s.wireSource(&l, s.refused(ctx)), nil
}

func (s *Sources) find(ctx context.Context, name string) (blocks.List, error) {
	all, err := s.Store.FindLists(ctx, true)
	if err != nil {
		return blocks.List{}, err
	}
	for _, l := range all {
		if l.Name == name {
			return l, nil
		}
	}
	return blocks.List{}, fault.New(fault.NotFound, "There is no source with the name %q.", name)
}

// Add stores a source and pulls it. A list that cannot be pulled now is added nevertheless, with its
// problem.
func (s *Sources) Add(ctx context.Context, by admin.Caller, r wire.BlockSourceRequest) (none wire.BlockSource, err error) {
	l, err := listOf(r)
	if err != nil {
		return none, err
	}
	if err := s.Store.AddList(ctx, by.Actor, l); err != nil {
		return none, err
	}
	if _, err := s.pullNow(ctx, by, l.Name, false); err != nil && !fault.Is(err, fault.Conflict) {
		return none, err
	}
	return s.after(ctx, by, l.Name)
}

// listOf returns the list of a request, with what the catalogue says of it. Its error is a
// *fault.Error.
func listOf(r wire.BlockSourceRequest) (l blocks.List, err error) {
	l = blocks.List{Name: r.Name, URL: r.URL, As: blocks.ListUse(r.As), Format: r.Format, Column: r.Column, Header: r.Header, Every: time.Duration(r.Every)}
	if !listName.MatchString(l.Name) {
		return l, fault.Field("name", "must be 1 to 50 of a-z, 0-9 and hyphens, and not begin with a hyphen")
	}
	known := knownByName(l.Name)
	if l.URL == "" && known == nil {
		return l, fault.Field("url", "is missing, and the catalogue has no list of that name")
	}
	if known != nil && (l.URL == "" || l.URL == known.URL) {
		fillFrom(&l, known)
		if known.Header != "" && l.Header == "" {
			return l, fault.Field("header", "is missing; the publisher needs the header %s", known.Header)
		}
	}
	setDefaults(&l)
	return l, check(&l)
}

func check(l *blocks.List) error {
	u, err := url.Parse(l.URL)
	switch {
	case strings.HasPrefix(l.URL, "/") || strings.HasPrefix(l.URL, "file:"):
		return fault.Field("url", "is a file; a server reads no files for its operators: import it (block import FILE --source %s), or serve it over HTTP", l.Name)
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || len(l.URL) > 2000:
		return fault.Field("url", "must be an http or https URL of at most 2000 bytes")
	case u.User != nil:
		return fault.Field("url", "holds a password, which everybody who sees the sources would see; send it as header, such as Authorization: Basic ...")
	case !slices.Contains(blocks.Uses, l.As):
		return fault.Field("as", "must be block, challenge, exempt, shadow or attack")
	case !slices.Contains([]string{string(blocklist.Auto), string(blocklist.CSV), string(blocklist.JSON), string(blocklist.Plain)}, l.Format):
		return fault.Field("format", "must be auto, csv, json or plain")
	case l.Every < minEvery || l.Every > maxEvery:
		return fault.Field("every", "must be 5m to 31d")
	}
	if err := fault.CheckLine("column", l.Column, 100); err != nil {
		return err
	}
	if err := fault.CheckLine("header", l.Header, 1000); err != nil {
		return err
	}
	if name, value, found := strings.Cut(l.Header, ":"); l.Header != "" && (!found || !headerName.MatchString(name) || strings.TrimSpace(value) == "") {
		return fault.Field("header", "must be a name and a value, such as Key: abc")
	}
	return nil
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9-]{1,50}$`)

// Pull pulls a list now.
func (s *Sources) Pull(ctx context.Context, by admin.Caller, in wire.ByName) (wire.BlockSource, error) {
	return s.pullNow(ctx, by, in.Name, false)
}

// Agree pulls a list whose last pull is held, and puts it in force.
func (s *Sources) Agree(ctx context.Context, by admin.Caller, in wire.ByName) (wire.BlockSource, error) {
	return s.pullNow(ctx, by, in.Name, true)
}

func (s *Sources) pullNow(ctx context.Context, by admin.Caller, name string, agreed bool) (none wire.BlockSource, err error) {
	// A pull takes longer than a request may, and goes on if the operator does not wait for it.
	err = s.withLease(context.WithoutCancel(ctx), name, func(ctx context.Context) error {
		l, err := s.find(ctx, name)
		if err != nil {
			return err
		}
		if agreed && l.State.Held == nil {
			return fault.New(fault.Conflict, "Nothing of the source %q is held.", name)
		}
		return s.pull(ctx, by.Actor, &l, agreed)
	})
	if err != nil {
		return none, err
	}
	return s.after(ctx, by, name)
}

// after returns a list after it was pulled, also where that took longer than the request may: it was
// pulled, and an error would say that nothing was changed.
func (s *Sources) after(ctx context.Context, by admin.Caller, name string) (wire.BlockSource, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return s.Get(ctx, by, wire.ByName{Name: name})
}

// Remove ends the rows of a list and deletes it.
func (s *Sources) Remove(ctx context.Context, by admin.Caller, in wire.ByName) (none wire.None, err error) {
	return none, s.withLease(context.WithoutCancel(ctx), in.Name, func(ctx context.Context) error {
		l, err := s.find(ctx, in.Name)
		if err != nil {
			return err
		}
		noRows := func(func(blocks.Entry, error) bool) {}
		if _, err := s.Entries.Pull(ctx, by.Actor, l.RowsOf(), noRows, func(blocks.PullDiff) error { return nil }); err != nil {
			return err
		}
		return s.Store.DeleteList(ctx, by.Actor, l)
	})
}

// leaseTime is longer than a pull may take.
const leaseTime = pullTimeout + time.Minute

// withLease does something with a list while no other node does. Nobody else waits longer than
// leaseTime for a node that was killed. The error is a Conflict if another node has the list.
func (s *Sources) withLease(ctx context.Context, name string, do func(context.Context) error) error {
	lease, holder := "source:"+name, fmt.Sprintf("%s/%d", s.Node, s.Now().UnixNano())
	now := s.Now()
	held, err := s.Leases.AcquireLease(ctx, lease, holder, now, now.Add(leaseTime))
	if err != nil {
		return err
	}
	if !held {
		return fault.New(fault.Conflict, "The source %q is being pulled now; try again in a moment.", name)
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := s.Leases.ReleaseLease(ending, lease, holder); err != nil {
			s.Log.Warn("lease not released; it expires by itself", "lease", lease, "error", err)
		}
	}()
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(s.Timeout, pullTimeout))
	defer cancel()
	return do(bounded)
}

// PullDue pulls every list that is due, and says what it did. A list that cannot be pulled is no
// error: it keeps its rows, and people are notified when it is stale.
func (s *Sources) PullDue(ctx context.Context) (string, error) {
	all, err := s.Store.FindLists(ctx, false)
	if err != nil {
		return "", err
	}
	pulled, failed := 0, 0
	var errs []error
	for _, known := range all {
		if !known.IsDue(s.Now()) {
			continue
		}
		err := s.withLease(ctx, known.Name, func(ctx context.Context) error {
			l, err := s.find(ctx, known.Name)
			if err != nil || !l.IsDue(s.Now()) {
				return err // another node has pulled or removed it
			}
			pulled++
			err = s.pull(ctx, audit.SystemActor(blocks.ListHolder(l.Name)), &l, false)
			if l.State.Problem != "" {
				failed++
			}
			return err
		})
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err != nil && !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.NotFound) {
			errs = append(errs, fmt.Errorf("the source %s: %w", known.Name, err)) // the others are pulled
		}
	}
	return fmt.Sprintf("pulled %d lists, of which %d failed", pulled, failed), errors.Join(errs...)
}

// refused returns how many checks each list refused in the last day, by name; nil if that is not
// known.
func (s *Sources) refused(ctx context.Context) map[string]int64 {
	if s.Refused == nil {
		return nil
	}
	byID, err := s.Refused(ctx, s.Now().Add(-24*time.Hour))
	if err != nil {
		return nil // the sources are shown without it
	}
	ids := make([]string, 0, len(byID))
	for id := range byID {
		ids = append(ids, id)
	}
	byList := map[string]int64{}
	for some := range slices.Chunk(ids, 1000) {
		shares, err := s.Entries.Shares(ctx, some...)
		if err != nil {
			return nil
		}
		for id, all := range shares {
			for _, name := range blocks.NamesOf(all) {
				byList[name] += byID[id]
			}
		}
	}
	return byList
}

func (s *Sources) wireSource(l *blocks.List, refused map[string]int64) wire.BlockSource {
	state := l.State
	out := wire.BlockSource{
		Name: l.Name, URL: l.URL, As: string(l.As), Format: l.Format, Column: l.Column, HasHeader: l.HasHeader, Every: wire.Duration(l.Every),
		State: StateOf(l, s.Now()), Rows: state.Rows, Invalid: state.Invalid, LeftOut: state.LeftOut, Notes: append([]string{}, state.Notes...),
		Refused: refused[blocks.ListHolder(l.Name)], CheckedAt: wire.At(state.Checked), PulledAt: wire.At(state.Pulled), ChangedAt: wire.At(state.Changed),
		NextAt: wire.At(state.Checked.Add(l.Every)), Error: wire.NullString(state.Problem), Author: l.Author, CreatedAt: wire.At(l.Created),
	}
	if held := state.Held; held != nil {
		out.Held = &wire.HeldPull{Since: wire.At(held.Since), Rows: held.Rows, Added: held.Added, Ended: held.Ended}
		if held.Ratio >= 0 {
			out.Held.Ratio = &held.Ratio
		}
	}
	return out
}

// StateOf returns the state of a list in one word.
func StateOf(l *blocks.List, now time.Time) string {
	switch {
	case l.State.Held != nil:
		return "held"
	case l.IsStale(now):
		return "stale"
	case l.State.Problem != "":
		return "failing"
	case l.State.Pulled.IsZero():
		return "waiting"
	}
	return "current"
}
