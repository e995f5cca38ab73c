package timestamplog

import (
	"context"
	"time"
)

// A request with a MaxWait makes its reservation. The reservation is the latest of now,
// the newest entry and, for each rule, the boundary entry plus its window,
// where entries are those reserved before too; it is granted, and the entry made
// for that future instant, where it lies at most MaxWait ahead and not more than
// MaxReserved entries, by cost, would then lie ahead of now. So "never more than N" holds for the
// reservations as it does for requests, and reservations come in the order in which they were
// asked for, whoever asks on whatever node: a request without MaxWait is
// refused while a reservation lies ahead, until that reservation and its own boundaries have
// passed.
//
// Trimming counts only the entries at or before now, and keeps those ahead on
// top: a reservation is cancelled must not bring back room that a trimmed entry
// took. A log expires a window after its newest entry, also where that is ahead.
//
// Where reservations lie ahead, States say what is left at the newest of them: Remaining
// in the window that ends there, and RetryAfterMS, from Now, when this rule alone
// would let the request have its reservation. A refused request with a MaxWait has the
// RetryAt from which on its reservation would be near enough.
//
// Entries made for a reservation are told from others, so that a clock that has
// stepped back is known by an entry ahead that is no reservation, or by a reservation more
// than MaxWait ahead; the log is then moved as clock.go says.
//
// An ID belongs to one log: the same ID under another Ref is another. A refused
// request leaves none, a peek neither looks for one nor leaves one, and a reservation
// that is cancelled takes its own with it. What is answered again is Allowed
// and Repeated, with the Reservation of then and the States of now. It is known for
// IDLifetime after its reservation, also where its log has expired.
//
// Where refused requests count, a refused one that is no peek is pushed like an
// allowed one, to the bounds of the retention, and its RetryAt and States are
// those that hold then. It leaves no ID, and nothing where the retention keeps no
// entry.
//
// Under a counter the same holds with its state in place of entries: it is
// brought to the newest reservation, and what it says from there is added.

// Bounds of reservations and ids.
const (
	// MaxWait is the longest wait that a request may offer, in milliseconds.
	MaxWait = int64(time.Hour / time.Millisecond)
	// MaxReserved bounds the entries of one log that lie ahead of now.
	MaxReserved = 10_000
	// MaxID is the longest Request.ID in bytes.
	MaxID = 64
	// IDLifetime is how many milliseconds after its reservation a charged ID is known.
	IDLifetime = int64(time.Minute / time.Millisecond)
	// MaxTogether is the largest number of requests of one DecideAll.
	MaxCombined = 16
)

// Reservation is a reserved reservation that may be cancelled.
type Reservation struct {
	LogID
	At   int64  // Unix milliseconds on the log's clock
	Cost int    // that was reserved
	ID   string // of the request that reserved it
}

// Reservations are the part of a Log that looks ahead and at several keys.
type Reservations interface {
	// DecideAll answers requests about different logs, 1 to MaxTogether of
	// them, as one: each is logged if and only if all are allowed, and then for
	// one common reservation, the latest of their reservations; the smallest MaxWait counts
	// for all. Each result says what its own rules do; one that was allowed
	// while another was not has Allowed with a Reservation and was not charged.
	// A peek among them makes peeks of all; requests that are refused are
	// never counted. One whose ID is known is answered again with the reservation that
	// it has; the others', which are done with it, are not before that.
	// An outage fails all. ErrCrossSlot says that they cannot be decided together.
	DecideAll(ctx context.Context, requests []Request, results []Result) error

	// Cancel cancels a reservation and reports whether that freed room: a log
	// drops its entries, as many of that instant as the reservation cost; a counter returns to what it was if nothing was
	// reserved after it, and else lets the reservation lapse. A reservation whose time has
	// come, that was cancelled before or that the log does not know by its
	// ID, time and cost, as after a move or a reset, frees no room.
	Cancel(ctx context.Context, reservation Reservation) (bool, error)
}
