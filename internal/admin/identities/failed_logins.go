package identities

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/openid"
	"github.com/stint-dev/stint/internal/phrase"
)

// failedKinds is how many pairs of user and address are counted separately between two flushes;
// all others are counted together. It bounds the memory and the records that a guesser can
// cause.
const failedKinds = 8

// FailedLogins counts failed logins for the audit log: each flush writes one record for each
// pair of user and address, and one for all others. It never records a name that is not a
// user's, since people type passwords there by mistake. It is safe for concurrent use. The zero
// value is ready for use.
type FailedLogins struct {
	mu     sync.Mutex
	counts map[failedLogin]*failedCount
	others *failedCount
}

// failedLogin identifies what is counted together. The user is zero if no user has the name, or
// if the name was not looked up.
type failedLogin struct {
	id, name string
	address  identity.KnownAddress
	reason   openid.Reason // for a login with an OpenID provider, "" for one with a password
}

// failedCount is the form of the counts in the audit log.
type failedCount struct {
	Wrong     int64     `json:"wrong"`               // name or password was wrong, or the provider's response was
	WrongCode int64     `json:"wrong_code,omitzero"` // the password was right, the code was wrong
	Refused   int64     `json:"refused"`             // too many attempts; nothing was checked
	First     time.Time `json:"first_at"`
	Last      time.Time `json:"last_at"`
	// Reason is why a login with an OpenID provider failed.
	Reason openid.Reason `json:"reason,omitzero"`
}

// Wrong counts a login with a wrong name or password; user is nil if no user has the name.
func (f *FailedLogins) Wrong(user *identity.User, from netip.Addr, at time.Time) {
	what := failedLogin{address: identity.KnownAddressOf(from)}
	if user != nil {
		what.id, what.name = user.ID, user.Name
	}
	f.note(what, at, func(c *failedCount) { c.Wrong++ })
}

// OpenID counts a failed login with an OpenID provider. name is the person's name if the
// provider has confirmed it, else "".
func (f *FailedLogins) OpenID(reason openid.Reason, name string, from netip.Addr, at time.Time) {
	f.note(failedLogin{name: name, address: identity.KnownAddressOf(from), reason: reason}, at, func(c *failedCount) { c.Wrong++ })
}

// WrongCode counts a login with the right password and a wrong code.
func (f *FailedLogins) WrongCode(user *identity.User, from netip.Addr, at time.Time) {
	what := failedLogin{id: user.ID, name: user.Name, address: identity.KnownAddressOf(from)}
	f.note(what, at, func(c *failedCount) { c.WrongCode++ })
}

// Refused counts a login that was refused because of too many attempts.
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
		count = &failedCount{First: at, Reason: what.reason}
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

// Flush records what was counted since the last flush. If a record cannot be written, its
// counts are kept for the next flush.
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
		return cmp.Or(counts[a].First.Compare(counts[b].First), cmp.Compare(b.name, a.name), cmp.Compare(a.reason, b.reason))
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

// keep adds the counts that could not be recorded to the newer ones.
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
	c.Wrong, c.WrongCode, c.Refused = c.Wrong+before.Wrong, c.WrongCode+before.WrongCode, c.Refused+before.Refused
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
	if what.reason != "" {
		as += fmt.Sprintf(" with the OpenID provider: %s", what.reason)
	}
	by := audit.SystemActor("login")
	by.Address = strings.TrimPrefix(string(what.address), "ip:")
	return to.AddRecord(ctx, audit.Record{
		Actor: by, Action: "session.login_failed", Object: "user", ObjectID: what.id,
		Summary: counted(c) + as + suffix + ".", After: after,
	})
}

func counted(c *failedCount) string {
	n := c.Wrong + c.WrongCode + c.Refused
	text := phrase.Count(n, "failed login")
	if c.WrongCode > 0 {
		text += ", " + phrase.Number(c.WrongCode) + " of them with the right password and a wrong code"
	}
	if c.Refused > 0 {
		text += ", " + phrase.Number(c.Refused) + " of them refused as too many"
	}
	return text
}
