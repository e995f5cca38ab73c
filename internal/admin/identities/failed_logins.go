package identities

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
)

// failedKinds is how many pairs of user and address are kept apart between two
// flushes; what comes beside them is counted together. It bounds both the
// memory and the records that a guesser can cause.
const failedKinds = 8

// FailedLogins counts the logins that failed, for the audit: one record for each
// user and address and flush, and one for all others. A name that no user has is
// recorded nowhere, since people type passwords there. It is safe for use by
// many goroutines. The zero value is ready for use.
type FailedLogins struct {
	mu     sync.Mutex
	counts map[failedLogin]*failedCount
	others *failedCount
}

// failedLogin is what failures are counted by. user is zero where no user has
// the name, and where it was not looked up.
type failedLogin struct {
	id, name string
	address  identity.KnownAddress
}

// failedCount is what the audit keeps of them.
type failedCount struct {
	Wrong   int64     `json:"wrong"`   // name or password were wrong
	Refused int64     `json:"refused"` // too many before it; nothing was looked at
	First   time.Time `json:"first_at"`
	Last    time.Time `json:"last_at"`
}

// Wrong counts a login whose name or password was wrong; user is nil where there
// is none of that name.
func (f *FailedLogins) Wrong(user *identity.User, from netip.Addr, at time.Time) {
	what := failedLogin{address: identity.KnownAddressOf(from)}
	if user != nil {
		what.id, what.name = user.ID, user.Name
	}
	f.note(what, at, func(c *failedCount) { c.Wrong++ })
}

// Refused counts a login that had to wait instead.
func (f *FailedLogins) Refused(from netip.Addr, at time.Time) {
	f.note(failedLogin{address: identity.KnownAddressOf(from)}, at, func(c *failedCount) { c.Refused++ })
}

func (f *FailedLogins) note(what failedLogin, at time.Time, add func(*failedCount)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	count, known := f.counts[what]
	switch {
	case known:
	case len(f.counts) < failedKinds:
		if f.counts == nil {
			f.counts = map[failedLogin]*failedCount{}
		}
		count = &failedCount{First: at}
		f.counts[what] = count
	default:
		if f.others == nil {
			f.others = &failedCount{First: at}
		}
		count = f.others
	}
	count.Last = at
	add(count)
}

// Flush records what was counted since the last flush. What cannot be recorded
// is kept for the next.
func (f *FailedLogins) Flush(ctx context.Context, to audit.Recorder) error {
	f.mu.Lock()
	counts, others := f.counts, f.others
	f.counts, f.others = nil, nil
	f.mu.Unlock()
	kinds := make([]failedLogin, 0, len(counts))
	for what := range counts {
		kinds = append(kinds, what)
	}
	slices.SortFunc(kinds, func(a, b failedLogin) int {
		return cmp.Or(counts[a].First.Compare(counts[b].First), cmp.Compare(b.name, a.name))
	})
	for i, what := range kinds {
		if err := record(ctx, to, what, "", counts[what]); err != nil {
			f.keep(kinds[i:], counts, others)
			return err
		}
	}
	if others == nil {
		return nil
	}
	if err := record(ctx, to, failedLogin{}, " from other addresses or as other users", others); err != nil {
		f.keep(nil, nil, others)
		return err
	}
	return nil
}

// keep adds what could not be recorded to what was counted since.
func (f *FailedLogins) keep(kinds []failedLogin, counts map[failedLogin]*failedCount, others *failedCount) {
	for _, what := range kinds {
		f.add(what, counts[what])
	}
	if others != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.others == nil {
			f.others = &failedCount{First: others.First}
		}
		f.others.merge(others)
	}
}

func (f *FailedLogins) add(what failedLogin, before *failedCount) {
	f.note(what, before.Last, func(c *failedCount) { c.merge(before) })
}

func (c *failedCount) merge(before *failedCount) {
	c.Wrong, c.Refused = c.Wrong+before.Wrong, c.Refused+before.Refused
	if before.First.Before(c.First) {
		c.First = before.First
	}
	if before.Last.After(c.Last) {
		c.Last = before.Last
	}
}

func record(ctx context.Context, to audit.Recorder, what failedLogin, suffix string, c *failedCount) error {
	after, err := json.Marshal(c)
	if err != nil {
		return err
	}
	as := ""
	if what.name != "" {
		as = fmt.Sprintf(" as %q", what.name)
	}
	by := audit.SystemActor("login")
	by.Address = strings.TrimPrefix(string(what.address), "ip:")
	return to.AddRecord(ctx, audit.Record{
		Actor: by, Action: "session.login_failed", Object: "user", ObjectID: what.id,
		Summary: counted(c) + as + suffix + ".", After: after,
	})
}

func counted(c *failedCount) string {
	n := c.Wrong + c.Refused
	text := strconv.FormatInt(n, 10) + " failed logins"
	if n == 1 {
		text = "1 failed login"
	}
	if c.Refused > 0 {
		text += fmt.Sprintf(", %d of them refused unread", c.Refused)
	}
	return text
}
