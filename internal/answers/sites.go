package answers

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/keyhash"
	"github.com/stint-dev/stint/internal/keys"
)

// Bounds of Sites. Whoever is reported may choose the host.
const (
	maxHosts       = 64
	clientsOfAHost = 1024
	// MaxHost is the longest host, in bytes, as of a name in DNS.
	MaxHost = 253
	// MaxStored is how many sites a Store keeps, beside those of which an operator has named paths.
	MaxStored = 256
	// MaxOwn is how many patterns an operator may name of one site.
	MaxOwn = 32

	exchangeInterval = time.Minute
	exchangeTimeout  = 10 * time.Second
)

// SitesOptions make Sites.
type SitesOptions struct {
	// Lists reports whether a host is that of one of the sites; nil for all hosts.
	Lists func(host string) bool
	// Secret returns the secret under which the names of clients are hashed: nobody can read from what is
	// kept who has asked.
	Secret func() []byte
	Now    func() time.Time
	Log    *slog.Logger
	// Store keeps what is known, and shares it with the other nodes. AwaitStore returns when it can be
	// used, or ctx is done; nil for at once.
	Store      SiteStore
	AwaitStore func(ctx context.Context)
}

// StoredSite is what a SiteStore has of a site.
type StoredSite struct {
	Host      string   // "" for requests whose host is not known
	Own       []string // patterns of paths that an operator has named the site's own
	Forgotten time.Time
	Known     SiteState
}

// SiteStore keeps what the nodes of one database know of sites.
type SiteStore interface {
	Sites(ctx context.Context) ([]StoredSite, error)
	// PutSites replaces what is known of sites, and nothing of what operators have said.
	PutSites(ctx context.Context, all []StoredSite) error
}

// Sites are the sites whose answers are reported to a node, by their hosts. A site that is not among
// SitesOptions.Lists, or for which there is no room, is learned as one with the others of this kind. It is safe for
// concurrent use; a nil one learns nothing.
type Sites struct {
	o        SitesOptions
	targets  targets
	names    keyhash.PerSecret[keyhash.Hash]
	unshared atomic.Bool // the store could not be read or written

	mu  sync.Mutex
	all map[string]*heard
}

// heard is a site of which answers were reported.
type heard struct {
	StoredSite
	outcomes Outcomes
	site     *Site
	answers  int64 // since the start
}

// NewSites returns Sites that know nothing.
func NewSites(o SitesOptions) *Sites { return &Sites{o: o, all: map[string]*heard{}} }

var unlearned = sync.OnceValue(func() Outcomes { return DefaultOutcomes(nil) })

// Learn takes the answer of a site to a request into account, and returns its outcomes. host is in
// lower case and without port, "" if it is not known.
func (s *Sites) Learn(host string, a Answer) []string {
	if s == nil {
		return unlearned().Append(nil, &a)
	}
	s.mu.Lock()
	at := s.find(host)
	at.answers++
	s.mu.Unlock()
	at.outcomes.Learn(&a)
	return at.outcomes.Append(nil, &a)
}

// find returns the site of a host. s.mu is held.
func (s *Sites) find(host string) *heard {
	if host != "" && (len(host) > MaxHost || s.o.Lists != nil && !s.o.Lists(host)) {
		host = ""
	}
	if at := s.all[host]; at != nil {
		return at
	}
	if len(s.all) >= maxHosts && host != "" && !s.makeRoom() {
		return s.find("")
	}
	site := newSite(&s.targets, clientsOfAHost, s.nameOf)
	at := &heard{StoredSite: StoredSite{Host: host}, site: site, outcomes: DefaultOutcomes(site)}
	s.all[host] = at
	return at
}

// makeRoom forgets the site with the fewest answers of which nothing is known, and reports whether there
// was one. s.mu is held.
func (s *Sites) makeRoom() bool {
	fewest, found := "", false
	for host, at := range s.all {
		if host == "" || len(at.Own) > 0 || !at.site.Report().IsZero() || found && at.answers >= s.all[fewest].answers {
			continue
		}
		fewest, found = host, true
	}
	delete(s.all, fewest)
	return found
}

const clientsLabel = "clients of sites"

// nameOf names a client in what is kept.
func (s *Sites) nameOf(k keys.Key) string {
	hash := s.names.Of(s.o.Secret(), func(secret []byte) keyhash.Hash { return keyhash.New(secret, clientsLabel) })
	return strconv.FormatUint(hash.Sum64(k.String()), 36)
}

// HeardSite is what is known of a site.
type HeardSite struct {
	Host string
	SiteReport
	PathsOwn []string // that an operator has named the site's own
	Answers  int64    // reported to this node since its start
}

// Heard returns the sites that are known, by host. Those of which nothing was learned, and of which an operator
// has said nothing, are among them.
func (s *Sites) Heard() []HeardSite {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []HeardSite{}
	for _, host := range slices.Sorted(maps.Keys(s.all)) {
		at := s.all[host]
		all = append(all, HeardSite{Host: host, SiteReport: at.site.Report(), PathsOwn: at.Own, Answers: at.answers})
	}
	return all
}

// Run exchanges what is known with the store until ctx is done.
func (s *Sites) Run(ctx context.Context) {
	if s == nil {
		return
	}
	if s.o.AwaitStore != nil {
		s.o.AwaitStore(ctx)
	}
	ticker := time.NewTicker(exchangeInterval)
	defer ticker.Stop()
	for {
		s.exchange(ctx)
		select {
		case <-ctx.Done():
			s.exchange(context.WithoutCancel(ctx))
			return
		case <-ticker.C:
		}
	}
}

// exchange reads and writes once. A failure is logged once, and so is the next success.
func (s *Sites) exchange(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	switch err := s.Exchange(ctx); {
	case err != nil && ctx.Err() == context.Canceled: //nolint:errorlint // the node stops
	case err != nil && !s.unshared.Swap(true):
		s.o.Log.Warn("what sites answer cannot be shared with the other nodes, nor kept over a restart", "error", err)
	case err == nil && s.unshared.Swap(false):
		s.o.Log.Info("what sites answer is shared with the other nodes again")
	}
}

// Exchange takes what other nodes have learned and what operators have said, and stores what this node
// knows beyond that.
func (s *Sites) Exchange(ctx context.Context) error {
	if s == nil {
		return nil
	}
	stored, err := s.o.Store.Sites(ctx)
	if err != nil {
		return err
	}
	var fresh []StoredSite
	now := s.o.Now()
	s.mu.Lock()
	known := map[string]SiteState{}
	slices.SortStableFunc(stored, func(a, b StoredSite) int { return cmp.Compare(min(1, len(b.Own)), min(1, len(a.Own))) })
	for i := range stored {
		row := &stored[i]
		if at := s.find(row.Host); at.Host == row.Host {
			at.take(row)
			known[row.Host] = row.Known
		}
	}
	for host, at := range s.all {
		if state := at.site.State(now); !state.equals(known[host]) {
			fresh = append(fresh, StoredSite{Host: host, Known: *state})
		}
	}
	s.mu.Unlock()
	if len(fresh) == 0 {
		return nil
	}
	slices.SortFunc(fresh, func(a, b StoredSite) int { return strings.Compare(a.Host, b.Host) })
	return s.o.Store.PutSites(ctx, fresh)
}

// take takes over what is stored of a site.
func (h *heard) take(row *StoredSite) {
	if !slices.Equal(h.Own, row.Own) && CheckOwn(row.Own) == nil {
		h.Own = row.Own
		h.site.setOwn(row.Own)
	}
	if row.Forgotten.After(h.Forgotten) {
		h.Forgotten = row.Forgotten
		h.site.forget(row.Forgotten)
	}
	_ = h.site.Restore(&row.Known) // the site teaches again what is damaged of it
	h.site.forget(h.Forgotten)     // a node that has not read it yet may have stored more
}

// equals reports whether two states know the same.
func (known *SiteState) equals(other SiteState) bool {
	isRecent := func(a, b int64) bool { return a-b < exchangeInterval.Milliseconds() }
	return slices.Equal(known.Canaries, other.Canaries) && maps.EqualFunc(known.LoggedIn, other.LoggedIn, isRecent) &&
		maps.EqualFunc(known.Programs, other.Programs, func(a, b *program) bool { return isRecent(a.Last, b.Last) && maps.Equal(a.By, b.By) })
}
