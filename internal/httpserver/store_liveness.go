package httpserver

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/supervise"
)

// DefaultMaxSilence is for how long a node's database may answer nothing until the requests that
// read it are answered without it. A database that is slow and works answers some call of a node
// more often, since each node asks it for changes twice a second.
const DefaultMaxSilence = 3 * time.Second

// errSilent ends the context of a request. It is a context.DeadlineExceeded, so that
// stores report it as that.
var errSilent = fmt.Errorf("the database answers nothing: %w", context.DeadlineExceeded)

// StoreLiveness decides whether the database has answered nothing for so long that nobody waits
// for it. With the zero value it never is.
type StoreLiveness struct {
	// LastAnswer returns when the database last answered any call of this node, zero for never;
	// nil if that is not known.
	LastAnswer func() time.Time
	// Max is how long the database may answer nothing until what a request reads is given up, and
	// changes that come after; both take HandlerTimeout otherwise. 0 means DefaultMaxSilence.
	Max time.Duration
}

// IsKnown reports whether it is known when the database last answered.
func (s StoreLiveness) IsKnown() bool { return s.LastAnswer != nil }

// Since returns when the database last answered, zero for never or if that is not known, and
// whether it is silent.
func (s StoreLiveness) Since() (last time.Time, isSilent bool) {
	if !s.IsKnown() {
		return time.Time{}, false
	}
	last = s.LastAnswer()
	return last, time.Since(last) >= s.max()
}

func (s StoreLiveness) max() time.Duration { return cmp.Or(s.Max, DefaultMaxSilence) }

// storeContext returns the context of a request. It ends after HandlerTimeout, or once the database
// has answered nothing for StoreLiveness.Max. If that was so before, it lasts for a third of it, in
// which a database that is back answers. A change that was begun before has HandlerTimeout in any
// case: its caller may have to find out what came of it, which takes longer than to wait.
func storeContext(s StoreLiveness, parent context.Context, reads bool) (context.Context, context.CancelFunc) {
	limited, cancelLimited := context.WithTimeout(parent, HandlerTimeout)
	if _, isSilent := s.Since(); !s.IsKnown() || !reads && !isSilent {
		return limited, cancelLimited
	}
	ctx, cancel := context.WithCancelCause(limited)
	go supervise.Do("silence of the database", func() {
		look := time.NewTicker(s.max() / 3)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
				if _, isSilent := s.Since(); isSilent {
					cancel(errSilent)
				}
			}
		}
	})
	return ctx, func() { cancel(nil); cancelLimited() }
}
