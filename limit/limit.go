package limit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// ErrUnavailable is matched by the error of a call that Redis did not answer in time. What was to be charged may be
// charged, once. A call whose own context has ended returns the error of that context.
var ErrUnavailable = timestamplog.ErrUnreachable

// Never is the RetryAfter of a request that the rules never allow, as under "0/s".
const Never = time.Duration(math.MaxInt64)

// Limiter limits how many requests each key may make. It is safe for concurrent use.
type Limiter struct {
	store   *Store
	policy  *rules.Policy
	request timestamplog.Request // of cost 1, without a key
	texts   []string             // of the rules
	most    int                  // the largest cost
	asks    sync.Pool            // of *ask
}

// ask is one call of the log. Its memory is reused.
type ask struct {
	requests [1]timestamplog.Request
	results  [1]timestamplog.Result
}

// New returns a limiter whose rules must all allow a request. All limiters of one name in one store share their
// counts, also if their rules differ, as while a new version of a program is rolled out.
//
// The name has at most 64 of a-z, 0-9, dash and underscore. The error says which rule is wrong, and what would be right.
func New(store *Store, name string, allRules ...string) (*Limiter, error) {
	if store.err != nil {
		return nil, fmt.Errorf("limit: %w", store.err)
	}
	if err := rules.CheckName(name); err != nil {
		return nil, fmt.Errorf("limit: the name %q %w", name, err)
	}
	if len(allRules) == 0 {
		return nil, errors.New(`limit: there is no rule; write for example "20/min"`)
	}
	stack, err := rules.ParseStack(allRules)
	if err != nil {
		return nil, fmt.Errorf("limit: %w", err)
	}
	if stack.CountsPoints() || stack.Distinct() != "" {
		return nil, fmt.Errorf("limit: %s: points and different values need a server", stack)
	}
	p := &rules.Policy{ID: policyID(name), Name: name, Version: 1, Rules: stack, Algorithm: rules.AlgorithmFor(stack, nil)}
	if p.CountsAmounts() {
		p.Generation = 1 // amounts are stored in another form than requests
	}
	l := &Limiter{store: store, policy: p, request: timestamplog.RequestOf(p, "", 1), texts: stack.Strings(), most: p.LargestCost()}
	l.asks.New = func() any { return new(ask) }
	return l, nil
}

// policyID returns the number of the limiters of a name. Those of a server's policies count from 1, and never come near.
func policyID(name string) int64 {
	hash := sha256.Sum256([]byte(name))
	return int64(binary.BigEndian.Uint64(hash[:])>>2 | 1<<61) //nolint:gosec // the highest bit is 0
}

// Rules returns the rules as they are counted, those of the shortest window first.
func (l *Limiter) Rules() []string { return slices.Clone(l.texts) }

// Result is the answer to a request.
type Result struct {
	Allowed bool
	// RetryAfter is after what time the same request is allowed, if nobody else uses the key; 0 for an allowed one, Never
	// if the rules never allow it.
	RetryAfter time.Duration
	// Rule is the rule that makes a refused request wait longest, "" for an allowed one.
	Rule string
}

// State is what is left of one rule.
type State struct {
	Rule       string
	Limit      int
	Remaining  int           // how much the rule still allows
	ResetAfter time.Duration // until the whole limit is available again, if nobody uses the key
}

// Allow asks whether one request of a key may be made now, and charges it if so.
func (l *Limiter) Allow(ctx context.Context, key string) (Result, error) {
	return l.AllowN(ctx, key, 1)
}

// AllowN asks for a request that costs n, all or nothing. A cost above the smallest limit is an error, unless that limit is 0. Rules of what is concurrent need Hold.
func (l *Limiter) AllowN(ctx context.Context, key string, n int) (Result, error) {
	if l.policy.Rules.Concurrent() > 0 {
		return Result{}, fmt.Errorf("limit: the rules %s limit what is concurrent; use Hold", l.policy.Rules)
	}
	a, err := l.prepare(key, n)
	if err != nil {
		return Result{}, err
	}
	defer l.asks.Put(a)
	answer, err := l.decide(ctx, a)
	if err != nil {
		return Result{}, err
	}
	return l.resultOf(answer), nil
}

// Peek returns what is left of each rule of a key, and charges nothing.
func (l *Limiter) Peek(ctx context.Context, key string) (states []State, err error) {
	a, err := l.prepare(key, 1)
	if err != nil {
		return nil, err
	}
	defer l.asks.Put(a)
	a.requests[0].Peek, a.requests[0].Detail = true, true
	answer, err := l.decide(ctx, a)
	if err != nil {
		return nil, err
	}
	for i, s := range answer.States {
		states = append(states, State{l.texts[i], l.policy.Rules[i].Limit, s.Remaining, milliseconds(s.ResetAfterMS)})
	}
	return states, nil
}

// Reset forgets what a key has used.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	k, err := keys.Parser{}.Key(key)
	if err != nil {
		return fmt.Errorf("limit: %w", err)
	}
	limited, cancel := l.store.limited(ctx)
	defer cancel()
	_, err = l.store.log.Reset(limited, timestamplog.LogIDOf(l.policy, k.String()))
	return errorOf(ctx, err)
}

// prepare returns the request of a key, which decide asks the log. It must be put back.
func (l *Limiter) prepare(key string, cost int) (*ask, error) {
	k, err := keys.Parser{}.Key(key)
	if err != nil {
		return nil, fmt.Errorf("limit: %w", err)
	}
	if err := l.checkCost(cost); err != nil {
		return nil, err
	}
	a := l.asks.Get().(*ask)
	a.requests[0] = l.request
	a.requests[0].Key, a.requests[0].Cost = k.String(), cost
	return a, nil
}

func (l *Limiter) decide(ctx context.Context, a *ask) (*timestamplog.Result, error) {
	limited, cancel := l.store.limited(ctx)
	defer cancel()
	l.store.log.Decide(limited, a.requests[:], a.results[:])
	return &a.results[0], errorOf(ctx, a.results[0].Err)
}

// errorOf returns the error of a call: that of its own context, if that has ended.
func errorOf(ctx context.Context, err error) error {
	if ended := ctx.Err(); err != nil && ended != nil {
		return ended
	}
	return err
}

func (l *Limiter) checkCost(cost int) error {
	switch {
	case cost < 1:
		return fmt.Errorf("limit: the cost %d is less than 1", cost)
	case cost > l.most && l.most > 0:
		return fmt.Errorf("limit: the cost %d is more than %d, the most that the rules %s allow at once", cost, l.most, l.policy.Rules)
	}
	return nil
}

func (l *Limiter) resultOf(a *timestamplog.Result) Result {
	if a.Allowed {
		return Result{Allowed: true}
	}
	r := Result{RetryAfter: Never}
	if a.Rule >= 0 {
		r.Rule = l.texts[a.Rule]
	}
	if a.RetryAt != timestamplog.Never {
		r.RetryAfter = milliseconds(a.RetryAt - a.Now)
	}
	return r
}

// milliseconds returns a time of the log, Never for one that does not come.
func milliseconds(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return Never
	}
	return time.Duration(ms) * time.Millisecond
}

// Reservation is a request that is charged for a time ahead. Its zero value is none.
type Reservation struct {
	limiter *Limiter
	made    timestamplog.Reservation
	from    time.Time // when the answer came
	delay   time.Duration
}

// Delay returns how long the caller has to wait from now on, 0 if it may go ahead.
func (r *Reservation) Delay() time.Duration { return max(0, r.delay-time.Since(r.from)) }

// Cancel gives the reservation back if its time has not come, and reports whether that freed room.
func (r *Reservation) Cancel(ctx context.Context) (freed bool, err error) {
	if r.limiter == nil {
		return false, nil
	}
	limited, cancel := r.limiter.store.limited(ctx)
	defer cancel()
	freed, err = r.limiter.store.log.Cancel(limited, r.made)
	return freed, errorOf(ctx, err)
}

// Reserve charges a request for the first time at which all rules allow it, if that is at most maxWait
// ahead, and at most an hour. Reservations come in the order in which they are asked for. A refused result has no reservation, and its
// RetryAfter says after what time the same would be granted. Rules that count amounts or what is concurrent take no reservations.
func (l *Limiter) Reserve(ctx context.Context, key string, maxWait time.Duration) (*Reservation, Result, error) {
	return l.ReserveN(ctx, key, 1, maxWait)
}

// ReserveN reserves a request that costs n.
func (l *Limiter) ReserveN(ctx context.Context, key string, n int, maxWait time.Duration) (*Reservation, Result, error) {
	if l.policy.CountsAmounts() {
		return nil, Result{}, fmt.Errorf("limit: the rules %s count amounts, which cannot be reserved; use Wait", l.policy.Rules)
	}
	a, err := l.prepare(key, n)
	if err != nil {
		return nil, Result{}, err
	}
	defer l.asks.Put(a)
	q := &a.requests[0]
	q.MaxWait, q.ID = min(max(0, maxWait.Milliseconds()), timestamplog.MaxWait), rand.Text()
	answer, err := l.decide(ctx, a)
	if err != nil {
		return nil, Result{}, err
	}
	if !answer.Allowed {
		return nil, l.resultOf(answer), nil
	}
	return &Reservation{
		limiter: l, from: time.Now(), delay: milliseconds(answer.ReservedAt - answer.Now),
		made: timestamplog.Reservation{LogID: q.LogID, At: answer.ReservedAt, Cost: n, ID: q.ID},
	}, Result{Allowed: true}, nil
}

// Wait waits until a request of a key may be made. If that would be after the deadline of ctx, or more than an hour ahead, it returns a
// *Refused at once, and charges nothing. If ctx ends earlier, the request is cancelled.
func (l *Limiter) Wait(ctx context.Context, key string) error { return l.WaitN(ctx, key, 1) }

// WaitN waits for a request that costs n.
func (l *Limiter) WaitN(ctx context.Context, key string, n int) error {
	if l.policy.CountsAmounts() {
		return l.waitForAmount(ctx, func() (Result, error) { return l.AllowN(ctx, key, n) })
	}
	r, result, err := l.ReserveN(ctx, key, n, longestWait(ctx))
	if err != nil {
		return err
	}
	if !result.Allowed {
		return &Refused{result}
	}
	if err := supervise.Sleep(ctx, r.Delay()); err != nil {
		_, _ = r.Cancel(context.WithoutCancel(ctx)) // ctx has ended, and its error is what matters
		return err
	}
	return nil
}

// waitForAmount asks again whenever the rules say that it helps.
func (l *Limiter) waitForAmount(ctx context.Context, ask func() (Result, error)) error {
	for {
		result, err := ask()
		if err != nil || result.Allowed {
			return err
		}
		if result.RetryAfter > longestWait(ctx) {
			return &Refused{result}
		}
		if err := supervise.Sleep(ctx, max(result.RetryAfter, time.Millisecond)); err != nil {
			return err
		}
	}
}

// longestWait returns how long may be waited.
func longestWait(ctx context.Context) time.Duration {
	if deadline, has := ctx.Deadline(); has {
		return min(time.Until(deadline), time.Hour)
	}
	return time.Hour
}

// Refused is the error of Wait and Hold where the rules do not allow a request in time.
type Refused struct{ Result }

// Error implements error.
func (r *Refused) Error() string {
	if r.RetryAfter == Never {
		return "limit: " + r.Rule + " never allows the request"
	}
	return fmt.Sprintf("limit: %s allows the request in %s", r.Rule, r.RetryAfter)
}

// Hold is an amount that is held until it is settled, released or expires. An open hold counts as charged, and takes one place under a
// rule such as "16 concurrent".
type Hold struct {
	limiter *Limiter
	request timestamplog.Request
	mu      sync.Mutex
	expires time.Time
}

// errSettled is the error of a hold that was settled with another amount.
var errSettled = errors.New("limit: the hold was settled with another amount")

// ErrExpired is the error of a hold that expired before it was settled. What was used is charged, if the log still knew the hold.
var ErrExpired = errors.New("limit: the hold has expired")

// Hold holds an amount of a key for at most a day, or returns a *Refused. Settle, Release or the expiry ends it, by
// Redis's clock. The rules must have a unit ("1M tokens/1d") or limit what is concurrent ("16 concurrent").
func (l *Limiter) Hold(ctx context.Context, key string, amount int, duration time.Duration) (*Hold, error) {
	if !l.policy.TakesHolds() {
		return nil, fmt.Errorf("limit: the rules %s count requests; holds need a unit, as in \"1M tokens/1d\", or a rule such as \"16 concurrent\"", l.policy.Rules)
	}
	if err := checkDuration(duration); err != nil {
		return nil, err
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	tag := algorithms.HoldTag(binary.BigEndian.Uint64(random[:]), l.policy.Expiry() == rules.ExpiryReleases)
	a, err := l.prepare(key, amount)
	if err != nil {
		return nil, err
	}
	defer l.asks.Put(a)
	q := &a.requests[0]
	q.Hold, q.Value = duration.Milliseconds(), uint64(tag)
	answer, err := l.decide(ctx, a)
	switch {
	case err != nil:
		return nil, err
	case !answer.Allowed:
		return nil, &Refused{l.resultOf(answer)}
	}
	return &Hold{limiter: l, request: *q, expires: time.Now().Add(duration)}, nil
}

func checkDuration(duration time.Duration) error {
	if longest := algorithms.MaxHold * time.Millisecond; duration < time.Millisecond || duration > longest {
		return fmt.Errorf("limit: a hold of %s; it must last a millisecond to %s", duration, longest)
	}
	return nil
}

// Expires returns when the hold expires, by the clock of this process.
func (h *Hold) Expires() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.expires
}

// Settle charges what was used in place of what was held, also if it is more, and ends the hold. over is how much of it is beyond a limit.
// Repeating it is safe.
func (h *Hold) Settle(ctx context.Context, used int) (over int, err error) {
	if used < 0 || used > algorithms.MaxAmount {
		return 0, fmt.Errorf("limit: %d used; it must be 0 to %d", used, int64(algorithms.MaxAmount))
	}
	answer, err := h.end(ctx, timestamplog.Settlement{Used: int64(used)})
	if err == nil && answer.State == algorithms.HoldSettled && answer.Used != int64(used) {
		err = errSettled
	}
	return int(answer.Over), err
}

// Release ends the hold and charges nothing.
func (h *Hold) Release(ctx context.Context) error {
	_, err := h.Settle(ctx, 0)
	return err
}

// Extend makes the hold expire a duration from now.
func (h *Hold) Extend(ctx context.Context, duration time.Duration) error {
	if err := checkDuration(duration); err != nil {
		return err
	}
	answer, err := h.end(ctx, timestamplog.Settlement{Extend: duration.Milliseconds()})
	if err == nil && answer.State == algorithms.HoldSettled {
		return errSettled
	}
	if err == nil {
		h.mu.Lock()
		h.expires = time.Now().Add(duration)
		h.mu.Unlock()
	}
	return err
}

func (h *Hold) end(ctx context.Context, s timestamplog.Settlement) (timestamplog.Settled, error) {
	s.Request = h.request
	limited, cancel := h.limiter.store.limited(ctx)
	defer cancel()
	answer, err := h.limiter.store.log.Settle(limited, s)
	if err = errorOf(ctx, err); err == nil && (answer.State == algorithms.HoldExpired || answer.State == algorithms.HoldUnknown) {
		err = ErrExpired
	}
	return answer, err
}
