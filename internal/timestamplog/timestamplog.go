// Package timestamplog is the contract of the logs that decide checks. A log
// holds, for one policy and one key, the times of the allowed requests. A rule
// N/W refuses a request of cost c exactly when the (N - c + 1)-th newest time is
// younger than W, so one log serves a whole stack of rules and no clock boundary
// matters. The method is DomainTools' "Rate Limiting with Redis".
//
// Packages memlog and redislog implement Log, and package refusalcache is a Log
// in front of another. Package logtest is the suite that all of them pass. The
// guarantees below quote its tests by name; its property test, "any sequence of
// requests, reservations, clock moves, resets and changes of policy is answered
// as brute force answers it", checks all of them against a brute-force model.
//
// # Guarantees
//
// They hold for every Result whose Err is nil. Times are Unix milliseconds on
// the log's one clock, never on a caller's.
//
//  1. Never more than N. In any half-open window of length W the cost of the
//     allowed requests totals at most N, however many callers and nodes there
//     are. A reservation counts at the time it is for.
//     Tests: "many callers over time never exceed a limit and are never needlessly refused",
//     "a reservation counts in every window around it as any request does",
//     "many callers get reservations of their own, and no window exceeds its limit".
//  2. All or nothing. A request is logged, with its whole cost, if and only if
//     every rule allows it. A refused request uses no quota, unless
//     Options.CountRefused or Request.ChargeAlways is set. A request with Request.Uncharged
//     uses none if it is allowed either.
//     Tests: "an uncharged request among several refuses all and is charged nothing",
//     "an uncharged request in a batch is answered as any other and is charged nothing",
//     "a cost is logged whole or not at all",
//     "many callers of one key are allowed exactly the limit".
//  3. Exact wait. The same request succeeds at RetryAt if nobody else came, and
//     is refused a millisecond earlier.
//     Tests: "waiting until RetryAt always succeeds under the default stack",
//     "each rule reports its own wait for this cost".
//  4. Charged once. No request is charged twice. One whose Err is set was charged
//     at most once. One that is sent again under a known ID is not charged again.
//     Tests: "a request that many callers send at once is charged once",
//     "a context that has ended leaves requests unanswered".
//  5. First come, first served. Reservations are for times in the order in which
//     they were asked for, also against requests that do not wait.
//     Tests: "reservations come in the order in which they were asked for",
//     "a request that does not wait is refused while a reservation lies ahead, though there is room".
//  6. Bounded memory. An entry is kept until it is trimmed, cancelled or expired
//     (see Retention below), and a log without entries does not exist.
//     Tests: "a log forgets what its window and its largest limit do not need",
//     "a log expires when its newest entry leaves the longest window",
//     "a log without entries does not exist".
//  7. A clock that steps back does not open a limit, and a client who waited until
//     RetryAt is refused at most once more.
//     Tests: "a clock that steps back does not open the limit",
//     "a clock that steps back an hour refuses a client who waited at most once more".
//  8. Logs are separate. Keys, policies and generations never share entries,
//     whatever bytes a key holds.
//     Tests: "keys do not share logs, however they are spelt",
//     "policies do not share logs", "generations do not share logs".
//
// # Retention
//
// Every push drops the entries that are as old as Retention.Window and, of those
// that are not ahead of now, all but the newest Retention.Entries, its own
// included. Entries ahead of now are not trimmed and do not count towards
// Retention.Entries: cancelling a reservation must not bring back room that a
// trimmed entry took. A log expires as a whole once its newest entry is as old
// as the Retention.Window of the last push or clock correction.
//
// # Different values
//
// Under distinct rules an entry is one value, stored as its hash, and its time is when the
// value was last allowed. A rule N/W allows a value exactly when at most N - 1 other values
// are younger than W, so no window of length W holds more than N different values. A value
// that already counts is allowed again; only its time moves to now. A request has one value,
// whatever its cost. A refused request leaves the time of its value unchanged. All guarantees
// above hold for these entries, which take 16 bytes in memory and about 30 on Redis. Such a
// log takes no reservations.
// Tests: "a value that counts is allowed again and moves its time, and a new one is refused while the limit is full",
// "any sequence of values, clock moves, resets and changes of policy is answered as brute force answers it".
//
// # Points
//
// Under algorithms.PointLog a charge has an amount, in points, and Request.Value is an
// algorithms.Tag: the item of evidence, and the hash of a value that is charged at most once
// while its charge is younger than the longest window. A request whose value was charged is
// allowed and charges nothing. A request that forgives is always allowed, and takes up to its
// cost from the newest charges of its item. Requests with ChargeAlways report evidence, and an
// Uncharged one of cost 1 is refused while the points of a window total its limit. Charges are
// neither merged nor rounded, and a log has at most as many as its largest limit. Tests: "points
// are charged once for a value, fill the limit and are forgiven by item", and a brute-force model
// in package algorithms.
//
// # Holds
//
// Under algorithms.AmountLog a request with Hold holds its cost for a time. An open hold counts in every
// window, and takes one place under each rule that limits what is concurrent. It ends once: it is
// settled with what was used, or it expires. Up to what was held then counts from the time at which the
// hold was taken, as if only that had been charged; what was used beyond it is charged at the time of the
// settlement, even if it exceeds a limit. What an expired hold leaves charged says its tag: all or
// nothing. So what is charged and what is held never exceed a limit together when a request is allowed.
// RetryAt is exact if nobody settles, since holds expire in the log. A log has at most
// algorithms.MaxHolds holds. A settlement that is sent again within IDLifetime gets the same answer. One
// that comes after the hold has expired charges what is not charged yet, once, as long as the
// log remembers the hold. A hold keeps who asked for it, Request.Source, until it ends, whatever renews it. Memory
// knows the names of sources that asked lately, and of a loaded snapshot those that ask again. Tests: "open holds
// say who asked for them, also after they were renewed", "holds are settled once, at their own time, and expire by the log's
// clock", "an open hold takes a place until it is settled or expires", "holds of several logs are taken
// together", and a brute-force model in package algorithms.
//
// # Periods of the calendar
//
// Under algorithms.AmountLog a rule may count since the present day or month of a time zone began, by the
// log's clock. Never more than its limit is charged and held in one period when a request is allowed, and
// RetryAt is the beginning of the next one if waiting helps. Amounts are never merged across the beginning of
// a period, and a clock that steps back moves none out of the present one. Test: "a rule of the calendar
// begins again with its period, and refuses until then".
//
// # Clock correction
//
// A clock that steps back leaves entries in the future. They would stay longer than promised
// and keep limits closed for as long. Before a Log decides a request with rules, it therefore
// checks two distances: no entry that was made for the present may be ahead of now, and no
// entry that was made for a reservation may be further ahead than MaxWait. If an entry breaks
// this, the whole log is shifted back by the smallest amount that restores both. The distances
// between entries stay the same, and known IDs are shifted with them. The correction is kept
// even if the request is refused. A peek and Timestamps answer as if the log had been
// corrected and write nothing; Cancel frees nothing in a log that needs a correction. A step
// that leaves no entry too far ahead is not noticed: it only makes reservations wait longer.
// The state of a counter that is further ahead than its rules allow is brought back to that
// bound.
package timestamplog

import (
	"context"
	"math"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

// Bounds of requests.
const (
	// MaxCost is the largest cost of one request.
	MaxCost = 1000
	// MaxUsage is the largest cost of a request with ChargeAlways. It is the largest limit of a
	// rule, because no rule could ever charge more.
	MaxUsage = rules.MaxLimit
	// MaxWait is the longest wait that a request may offer, in milliseconds.
	MaxWait = int64(time.Hour / time.Millisecond)
	// MaxReserved is how many entries of one log, counted by cost, may be ahead
	// of now. A counter has no entries and no such bound.
	MaxReserved = 10_000
	// MaxID is the longest Request.ID in bytes.
	MaxID = 64
	// MaxSource is the longest Request.Source in bytes.
	MaxSource = 64
	// IDLifetime is how long the ID of a charged request is known after the time it was charged
	// for, in milliseconds. The ID stays known for that long even if its log expires earlier.
	IDLifetime = int64(time.Minute / time.Millisecond)
	// MaxCounts is the largest Reservation.Counts. Each cancelled charge is remembered for that long at most.
	MaxCounts = int64(10 * time.Minute / time.Millisecond)
	// MaxCombined is the largest number of requests in one DecideAll.
	MaxCombined = 32
)

// Never is the RetryAt of a request that a rule always refuses.
const Never int64 = math.MaxInt64

// Log decides requests. The package comment lists what every implementation
// guarantees. A Log is safe for concurrent use.
type Log interface {
	// Decide answers each request, in order, as if it came alone. results must be
	// as long as requests; each element is overwritten, and the memory of its
	// States is reused. A request that could not be answered carries its own
	// Err: the error of ctx, or one that matches ErrUnreachable. It may then have
	// been charged once. A request with an empty stack of rules is allowed, and
	// neither reads nor writes anything.
	//
	// Reservations. A request with a MaxWait may be allowed for a time ahead: the
	// latest of now, the newest entry and, for each rule, the boundary entry plus
	// the window. The reservation is granted, and the entry made for that time,
	// if the time is at most MaxWait ahead and the entries ahead of now, including
	// the new ones, total at most MaxReserved. A request without MaxWait is refused
	// while reservations are ahead. States then describe the window that ends at
	// the newest reservation.
	//
	// Idempotent replay. A request with a known ID is answered Allowed and
	// Replayed, with its original ReservedAt and cost and the current States. An ID belongs
	// to one LogID. A refused request and a peek store no ID, and a peek does not
	// look one up. A replayed request still causes a clock correction if one is needed.
	//
	// Refused requests. If Options.CountRefused is set, a refused request that is
	// neither a peek nor Uncharged is logged like an allowed one, within the retention.
	// RetryAt and States include it, and its ID is not stored.
	//
	// Usage. If Request.ChargeAlways is set, a refused request that is not a peek is
	// charged the largest part of its cost that every rule has left now: the smallest
	// Remaining, and nothing while reservations are ahead. Its ID is not stored.
	// RetryAt and States are those of the whole cost after that charge. If
	// Options.CountRefused is set too, the refused request is logged as above, with
	// at most Retention.Entries of its cost. All algorithms support this.
	//
	// A counter algorithm does the same with its state in place of entries:
	// it advances the state to the newest reservation and adds the request there.
	// MaxReserved does not apply to it.
	Decide(ctx context.Context, requests []Request, results []Result)

	// DecideAll answers 1 to MaxCombined requests about different logs as one:
	// each is logged if and only if all are allowed, and then all for one common
	// time, the latest of theirs. The smallest MaxWait applies to all. Each result
	// describes its own rules: a request that its rules allow while another is refused
	// is Allowed with a ReservedAt, and was not charged. If one request is a peek, all
	// are treated as peeks. An Uncharged request is allowed or refused like the others
	// and never charged. A request whose ID is known keeps its time, and the others get
	// no earlier time.
	//
	// Refused requests are not counted, except those with ChargeAlways. If any request
	// is refused and none is a peek, each request with ChargeAlways is charged what its
	// own rules have left, or its whole cost if they allow it. Its ID is not stored.
	//
	// An error means that none was answered. It is ErrCrossSlot if no single call
	// can reach the logs, and nothing was charged; otherwise the error of ctx or
	// one that matches ErrUnreachable, and all may have been charged once.
	DecideAll(ctx context.Context, requests []Request, results []Result) error

	// Cancel cancels a reservation and reports whether that freed room. A log
	// drops as many entries of that time as the reservation cost. A counter
	// returns to its earlier state if nothing was reserved after it; otherwise the
	// reservation lapses unused. The ID of a cancelled reservation is forgotten.
	// Cancel returns false without an error for a reservation that was cancelled before,
	// whose time has passed, or whose ID, time and cost the log does not
	// know, as after a clock correction or a reset.
	//
	// Charges. If Reservation.Counts is set, Cancel cancels the charge also after its time,
	// until that much later, and remembers for as long that it did; with another cost it is
	// another charge. The log must then be
	// one that keeps entries or amounts, under Options without CountRefused. It finds
	// the charge by its time alone, which Cancel therefore trusts: the log of amounts takes it
	// from the oldest runs that may contain it, so that what remains counts no shorter. A clock
	// correction moves the charge away from its time, and a reset forgets it. Cancel then frees
	// nothing, or another charge of that very time in its place.
	Cancel(ctx context.Context, r Reservation) (freed bool, err error)

	// Timestamps returns the times that a log holds, newest first and at most
	// limit of them, and the log's present time. It returns only the entries that are
	// younger than the window after which the log expires, reservations included, and
	// none for a counter or a log that does not exist. It writes nothing.
	Timestamps(ctx context.Context, id LogID, limit int) (times []int64, now int64, err error)

	// Charges returns what a log of points or of amounts holds, the newest first and without open holds, and
	// the log's present time. It returns only the charges that are younger than window, in milliseconds, and
	// none for another kind of log. It writes nothing.
	Charges(ctx context.Context, id LogID, window int64) (charges []algorithms.Charge, now int64, err error)

	// Settle ends or renews a hold, once, and reports what became of it. It changes nothing for a hold
	// that the log does not know. An error means that it may have been done; repeating it is safe.
	Settle(ctx context.Context, s Settlement) (Settled, error)

	// Holds returns the open holds of a log, the oldest first, and the log's present time. It writes
	// nothing.
	Holds(ctx context.Context, id LogID) (open []Hold, now int64, err error)

	// Reset deletes a log with its known IDs and reports whether it existed.
	Reset(ctx context.Context, id LogID) (existed bool, err error)

	// Now returns the present time of the log's clock, in whole milliseconds.
	Now(ctx context.Context) (time.Time, error)

	// Outages returns the servers that do not decide at present, the longest
	// outage first. Requests about their logs fail at once. A request counts
	// towards an outage if its context's deadline passed, but not if its context
	// was cancelled, because then its caller went away. Outages does not block.
	Outages() []Outage
}

// LogID names one log: one key under one policy. When a policy's generation changes, its old
// logs are no longer read and expire.
type LogID struct {
	Policy     int64  // see IsInternal
	Generation int64  // of the policy, with the bit furtherKey set for its further keys
	Key        string // canonical
}

// IsInternal reports whether the log belongs to a limit of Stint's own, such as that on guessing
// passwords. The policy ids of these limits are negative, and the number of their logs is fixed.
func (id LogID) IsInternal() bool { return id.Policy < 0 && id.Policy > LogsOfChallenges }

// LogsOfChallenges is the largest policy id of logs about challenges. Clients make as many of these as they
// please, so that memory does not keep them.
const LogsOfChallenges int64 = -100

// furtherKey is the bit that Generation has in the logs of further keys. The same key may be a
// further key of a policy and also one that the policy selects. The two are counted separately,
// each with the retention of its own rules. Two further keys of one policy never have the same
// key.
const furtherKey = 1 << 62

// LogIDOf returns the ID of key's log under p.
func LogIDOf(p *rules.Policy, key string) LogID {
	id := LogID{Policy: p.ID, Generation: p.Generation, Key: key}
	if p.Derived != nil {
		id.Generation ^= furtherKey
	}
	return id
}

// Reservation is a granted request whose time may be ahead. See Log.Cancel.
type Reservation struct {
	LogID
	At   int64  // the time it is for, Unix milliseconds on the log's clock
	Cost int    // the cost of the request
	ID   string // of the request that made the reservation
	// Counts is for how many milliseconds from At on the charge may be cancelled, up to
	// MaxCounts; 0 for a reservation that may be cancelled only before At.
	Counts int64
}
