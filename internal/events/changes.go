package events

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/supervise"
)

// Follower publishes the changes of all nodes, which it reads from the audit log.
type Follower struct {
	Hub   *Hub
	Audit audit.Store

	wake chan struct{}
	last int64
}

// NewFollower returns a follower; see Changed and Run.
func NewFollower(h *Hub, store audit.Store) *Follower {
	return &Follower{Hub: h, Audit: store, wake: make(chan struct{}, 1)}
}

// Changed is the callback for catalog.OnChange. It never blocks.
func (f *Follower) Changed(catalog.Changed) {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// retryAfter is how long to wait after an error of reading the audit log.
const retryAfter = time.Second

// Run publishes the changes that are made after its start, until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	for !f.begin(ctx) {
		if supervise.Sleep(ctx, retryAfter) != nil {
			return
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		for f.follow(ctx) != nil {
			if supervise.Sleep(ctx, retryAfter) != nil {
				return
			}
		}
	}
}

// begin finds the newest entry. Changes after it are published.
func (f *Follower) begin(ctx context.Context) bool {
	page, err := f.Audit.FindRecords(ctx, audit.Filter{Limit: 1})
	if err != nil {
		return false
	}
	if len(page.Records) > 0 {
		f.last = page.Records[0].ID
	}
	return true
}

// maxMissed bounds the missed changes that are read after an interruption.
const maxMissed = 1000

// follow publishes the entries after the last published one, the oldest first. If the database went
// back to an earlier state, it begins with the next change.
func (f *Follower) follow(ctx context.Context) error {
	var fresh []*audit.Record
	var newest int64
	whole := true
	for e, err := range f.Audit.EachRecord(ctx, audit.Filter{}) {
		if err != nil {
			return err
		}
		newest = max(newest, e.ID)
		if e.ID <= f.last {
			break
		}
		if len(fresh) == maxMissed {
			whole = false
			break
		}
		fresh = append(fresh, e)
	}
	if newest < f.last {
		f.Hub.Publish(Event{Kind: Notice, Text: "Changes are missing: the database went back to an earlier state, as after a failover or the restore of a backup."})
		f.last = newest
		return nil
	}
	slices.Reverse(fresh)
	if !whole {
		f.Hub.Publish(Event{Kind: Notice, Text: "Changes are missing: more were made at once than are shown; the audit has them all."})
	}
	for _, e := range fresh {
		f.Hub.Publish(changeOf(e))
		f.last = e.ID
	}
	return nil
}

func changeOf(e *audit.Record) Event {
	event := Event{Kind: Change, At: e.At, Entry: e}
	if e.Object != "block" && e.Object != "exemption" {
		return event
	}
	event.Kind = Block
	for _, state := range [][]byte{e.Before, e.After} {
		var selects struct {
			Pattern string `json:"pattern"`
		}
		if len(state) == 0 || json.Unmarshal(state, &selects) != nil {
			continue // an import names no pattern
		}
		if p, err := (keys.Parser{}).Pattern(selects.Pattern); err == nil && !slices.Contains(event.Patterns, p) {
			event.Patterns = append(event.Patterns, p)
		}
	}
	return event
}
