package profiles

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

// Limit is a limit of one key's own: while it is active, its rules replace those of the
// key's policy. Blocks and policies with conditions or an outcome still apply. It is safe
// for use by many goroutines and never changed.
type Limit struct {
	Rules   rules.Stack
	Reason  string
	Author  string
	Created time.Time
	Expires time.Time // zero: until it is ended
	// applied remembers what Apply made last: nearly every check asks about one policy.
	applied atomic.Pointer[appliedLimit]
}

// defaultHold is for how long a check takes its place under a limit of what is concurrent if neither it
// nor the key's policy says so.
const defaultHold = 30 * time.Second

type appliedLimit struct{ base, made *rules.Policy }

// ActiveAt reports whether the limit holds at an instant. A nil limit never does.
func (l *Limit) ActiveAt(now time.Time) bool {
	return l != nil && (l.Expires.IsZero() || now.Before(l.Expires))
}

// Left returns for how long after now the limit holds, 0 if that is not known: for a nil limit, and
// for one that holds until it is ended. It is negative for a limit that has expired.
func (l *Limit) Left(now time.Time) time.Duration {
	if l == nil || l.Expires.IsZero() {
		return 0
	}
	return l.Expires.Sub(now)
}

// Check returns nil or a *FieldError for the first field that is wrong.
func (l *Limit) Check(now time.Time) error {
	switch {
	case len(l.Rules) == 0:
		return &FieldError{"rules", "are empty; name at least one, for example 5/s"}
	case len(l.Rules) > MaxLimitRules:
		return &FieldError{"rules", fmt.Sprintf("are %d; a limit of one key has at most %d", len(l.Rules), MaxLimitRules)}
	case slices.ContainsFunc(l.Rules, func(r rules.Rule) bool { return r.Limit == 0 }):
		return &FieldError{"rules", "have a limit of 0, which refuses everything; block the key instead"}
	case l.Rules.Distinct() != "":
		return &FieldError{"rules", "count different values; a limit of one key counts requests, for example 5/s"}
	case !l.Expires.IsZero() && !l.Expires.After(now):
		return &FieldError{"expires_at", "has passed; name a later time, or leave it out for a limit that holds until it is ended"}
	case !l.Expires.IsZero() && l.Expires.Sub(now) > MaxUntil:
		return &FieldError{"expires_at", "is more than ten years ahead; leave it out for a limit that holds until it is ended"}
	}
	if l.Reason = strings.TrimSpace(l.Reason); l.Reason == "" {
		return &FieldError{"reason", "is empty; say why the key has a limit of its own"}
	}
	if strings.ContainsAny(l.Reason, "\r\n") {
		return &FieldError{"reason", "has several lines; write one"}
	}
	return checkText("reason", l.Reason, MaxReason)
}

// NoPolicy is the name of the policy that is used where a key has a limit of its
// own and no policy applies to it. No policy can be called so.
const NoPolicy = "(own limit)"

var noPolicy = &rules.Policy{
	Name: NoPolicy, Version: 1, Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog,
}

// Apply returns base with the limit's rules, so that the key's log goes on: what was
// counted under base counts under the limit, and the other way round when it ends. base
// may be nil or off; the limit holds all the same. Under a counter with other windows,
// what was counted has no meaning, as when a policy is replaced: the key then has a log of
// its own.
func (l *Limit) Apply(base *rules.Policy) *rules.Policy {
	if a := l.applied.Load(); a != nil && a.base == base {
		return a.made
	}
	from := base
	if from == nil {
		from = noPolicy
	}
	made := *from
	made.Rules, made.Mode = l.Rules.InZone(from.Zone()), rules.Enforce
	if rules.AlgorithmFor(l.Rules, nil) == algorithms.AmountLog {
		made.Algorithm, made.Options = algorithms.AmountLog, algorithms.Options{}
	}
	if l.Rules.Concurrent() > 0 && made.Hold == 0 {
		made.Hold = defaultHold
	}
	made.Retention = from.Retention.Cover(from.Rules).Cover(l.Rules)
	sum := fnv.New64a()
	fmt.Fprint(sum, from.Version, l.Rules.Strings())
	made.Version = -1 - int64(sum.Sum64()>>1) // no policy has it: logs cache by it
	if from.MovesGeneration(&made) {
		fmt.Fprint(sum, from.Generation)
		made.Generation = int64(sum.Sum64() >> 1)
	}
	l.applied.Store(&appliedLimit{base, &made})
	return &made
}

// PolicyVersion returns the version of the policy that Apply has made a policy from: that of
// the latter says nothing to people. It is 0 if there was none, or if Apply has been called
// with another one since.
func (l *Limit) PolicyVersion(made *rules.Policy) int64 {
	if a := l.applied.Load(); a != nil && a.made == made && a.base != nil {
		return a.base.Version
	}
	return 0
}

// Equal reports whether both limits say the same; either may be nil.
func (l *Limit) Equal(other *Limit) bool {
	if l == nil || other == nil {
		return l == other
	}
	return slices.Equal(l.Rules, other.Rules) && l.Reason == other.Reason && l.Expires.Equal(other.Expires)
}
