package bots

import (
	"context"
	"net/netip"
	"slices"
	"time"
)

// Store keeps what the nodes of one database have verified. It is bounded by MaxShared
// and by the time for which a crawler is believed.
type Store interface {
	// PutCrawlers stores crawlers, of each address the latest verification, and forgets
	// those verified before an instant and the oldest beyond MaxShared.
	PutCrawlers(ctx context.Context, all []Crawler, forget time.Time) error
	// Crawlers returns those that were stored since an instant, at most MaxShared.
	Crawlers(ctx context.Context, since time.Time) ([]Crawler, error)
}

// MaxShared is how many crawlers a Store keeps.
const MaxShared = maxKnown

const (
	shareInterval = time.Minute
	// shareOverlap is by how much what is read again overlaps with what was read before,
	// for clocks that differ and for writes that took long.
	shareOverlap = 5 * time.Minute
	shareTimeout = 10 * time.Second
)

// share exchanges verified crawlers with the other nodes until ctx is done: it reads those
// of the others, and writes those that this node has verified since. While the database
// is unreachable the node goes by its own, and what was not written waits.
func (v *Verifier) share(ctx context.Context) {
	if v.o.AwaitStore != nil {
		v.o.AwaitStore(ctx)
	}
	ticker := time.NewTicker(shareInterval)
	defer ticker.Stop()
	for {
		v.exchange(ctx)
		select {
		case <-ctx.Done():
			v.exchange(context.WithoutCancel(ctx))
			return
		case <-ticker.C:
		}
	}
}

// exchange reads and writes once. A failure is logged once, and so is the next success.
func (v *Verifier) exchange(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, shareTimeout)
	defer cancel()
	err := v.receive(ctx)
	if err == nil {
		err = v.publish(ctx)
	}
	switch {
	case err != nil && ctx.Err() == context.Canceled: //nolint:errorlint // the node stops
	case err != nil && !v.unshared.Swap(true):
		v.o.Log.Warn("the verified crawlers cannot be shared with the other nodes; each looks up its own", "error", err)
	case err == nil && v.unshared.Swap(false):
		v.o.Log.Info("the verified crawlers are shared with the other nodes again")
	}
}

// receive takes what others have stored since the last time.
func (v *Verifier) receive(ctx context.Context) error {
	now := v.o.Now()
	since := now.Add(-verifiedFor)
	if !v.received.IsZero() {
		since = v.received.Add(-shareOverlap)
	}
	all, err := v.o.Store.Crawlers(ctx, since)
	if err != nil {
		return err
	}
	v.received = now
	v.take(all)
	return nil
}

// publish stores what this node has verified since the last time, if anything.
func (v *Verifier) publish(ctx context.Context) error {
	v.mu.Lock()
	fresh := v.fresh
	v.fresh = nil
	v.mu.Unlock()
	if len(fresh) == 0 {
		return nil
	}
	var all []Crawler
	for _, c := range fresh {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Crawler) int { return a.Address.Compare(b.Address) })
	err := v.o.Store.PutCrawlers(ctx, all, v.o.Now().Add(-verifiedFor))
	if err != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, c := range all {
			if _, newer := v.fresh[c.Address]; !newer {
				v.addFresh(c)
			}
		}
	}
	return err
}

// addFresh keeps a crawler to be stored. v.mu is held.
func (v *Verifier) addFresh(c Crawler) {
	if v.o.Store == nil || len(v.fresh) >= MaxShared {
		return
	}
	if v.fresh == nil {
		v.fresh = map[netip.Addr]Crawler{}
	}
	v.fresh[c.Address] = c
}

// take believes those crawlers that are still to be believed, of operators that are
// recognised and by the names that these have, unless more recent is known. Of an address
// that this node found to be a stranger's it looks again by itself.
func (v *Verifier) take(all []Crawler) {
	now := v.o.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range all[:min(len(all), maxKnown)] {
		i := slices.IndexFunc(v.o.Operators, func(o Operator) bool { return o.Name == c.Operator })
		until := c.Verified.Add(verifiedFor)
		if i < 0 || !v.o.Operators[i].has(c.Name) || !isPublic(c.Address) || c.Verified.After(now) || !now.Before(until) {
			continue
		}
		before, found := v.known[c.Address]
		if found && !before.Verified.Before(c.Verified) {
			continue
		}
		if found && before.Operator == "" && !before.failed && now.Before(before.until) {
			if !before.waiting && v.queue(c.Address) {
				before.waiting = true
				v.known[c.Address] = before
			}
			continue
		}
		if !found && len(v.known) >= maxKnown && !v.forget(now) {
			return
		}
		v.known[c.Address] = answer{Crawler: c, until: until, waiting: before.waiting}
		v.changed.Store(true)
	}
}
