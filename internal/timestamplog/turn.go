package timestamplog

import (
	"context"
	"time"
)

// A request with a MaxWait reserves its turn. The turn is the latest of now,
// the newest entry and, for each rule, the boundary entry plus its window,
// where entries are those reserved before too; it is granted, and the entry made
// for that future instant, where it lies at most MaxWait ahead and not more than
// MaxReserved entries, by cost, would then lie ahead of now. So "never more than N" holds for the
// turns as it does for requests, and turns come in the order in which they were
// asked for, whoever asks on whatever node: a request without MaxWait is
// refused while a turn lies ahead, until that turn and its own boundaries have
// passed.
//
// Trimming counts only the entries at or before now, and keeps those ahead on
// top: a turn that is given back must not bring back room that a trimmed entry
// took. A log expires a window after its newest entry, also where that is ahead.
//
// Where turns lie ahead, States say what is left at the newest of them: Remaining
// in the window that ends there, and ResetMS, from Now, when this rule alone
// would let the request have its turn. A refused request with a MaxWait has the
// RetryAt from which on its turn would be near enough.
//
// Entries made for a turn are told from others, so that a clock that has
// stepped back is known by an entry ahead that is no turn, or by a turn more
// than MaxWait ahead; the log is then moved as clock.go says.
//
// An ID belongs to one log: the same ID under another Ref is another. A refused
// request leaves none, a peek neither looks for one nor leaves one, and a turn
// that is given back takes its own with it. What is answered again is Allowed
// and Repeated, with the Turn of then and the States of now. It is known for
// IDLifetime after its turn, also where its log has expired.
//
// Where refused requests count, a refused one that is no peek is pushed like an
// allowed one, to the bounds of the retention, and its RetryAt and States are
// those that hold then. It leaves no ID, and nothing where the retention keeps no
// entry.
//
// Under a counter the same holds with its state in place of entries: it is
// brought to the newest turn, and what it says from there is added.

// Bounds of turns and ids.
const (
	// MaxWait is the longest wait that a request may offer, in milliseconds.
	MaxWait = int64(time.Hour / time.Millisecond)
	// MaxReserved bounds the entries of one log that lie ahead of now.
	MaxReserved = 10_000
	// MaxID is the longest Request.ID in bytes.
	MaxID = 64
	// IDLifetime is how many milliseconds after its turn a charged ID is known.
	IDLifetime = int64(time.Minute / time.Millisecond)
	// MaxTogether is the largest number of requests of one DecideAll.
	MaxTogether = 16
)

// Turn is a reserved turn that may be given back.
type Turn struct {
	Ref
	At   int64  // Unix milliseconds on the log's clock
	Cost int    // that was reserved
	ID   string // of the request that reserved it
}

// Turns are the part of a Log that looks ahead and at several keys.
type Turns interface {
	// DecideAll answers requests about different logs, 1 to MaxTogether of
	// them, as one: each is logged if and only if all are allowed, and then for
	// one common turn, the latest of their turns; the smallest MaxWait counts
	// for all. Each result says what its own rules do; one that was allowed
	// while another was not has Allowed with a Turn and was not charged.
	// A peek among them makes peeks of all; requests that are refused are
	// never counted. One whose ID is known is answered again with the turn that
	// it has; the others', which are done with it, are not before that.
	// An outage fails all. ErrApart says that they cannot be decided together.
	DecideAll(ctx context.Context, requests []Request, results []Result) error

	// GiveBack gives a turn back and reports whether that made room: a log
	// drops its entries, as many of that instant as the turn cost; a counter returns to what it was if nothing was
	// reserved after it, and else lets the turn lapse. A turn whose time has
	// come, that was given back before or that the log does not know by its
	// ID, time and cost, as after a move or a reset, makes no room.
	GiveBack(ctx context.Context, turn Turn) (bool, error)
}
