package timestamplog

// MaxAhead is how far the newest entry of a log that was not made for a reservation
// may lie ahead of the log's clock, in milliseconds, without the clock being
// taken to have stepped back. The newest entry that was made for a reservation, that
// is for an instant ahead of the clock at the time, may lie MaxWait ahead.
//
// A clock that steps back leaves entries in the future, which would neither
// age out as promised nor be told from an open limit. So every Log, before it
// decides a request whose stack is not empty and finds one of the two further
// ahead of now than that, moves the whole log back by as little as mends both:
// where there are no reservations, until its newest entry is now. The distances within
// it stay, and what is known of IDs moves with it. The move is kept even when
// the request is then refused, and the log then expires as if it had been pushed
// to. A client who waited as told may thus be refused once more, and the wait
// that it is told then holds. A peek and Times answer as if the log had been
// moved and write nothing; Cancel frees no room in a log that is to be moved,
// and leaves it so. A request whose ID is known moves the log too, before it is
// answered again. A step that leaves nothing too far ahead is not noticed: it
// makes reservations wait longer, and an entry that a reservation's push has dropped, which
// the step would bring back into its window, stays dropped.
const MaxAhead int64 = 0

// A Log keeps an entry until a push drops it, its reservation is cancelled or the log
// expires. A push drops, besides what it adds, every entry whose age is
// Retention.Window or more and, of those that do not lie ahead of now, all but
// the newest Retention.Entries. A log expires as a whole once its newest entry
// is as old as the Retention.Window of the last push or move. A log without
// entries does not exist. A request with an empty stack reads and writes
// nothing. Reset forgets what is known of IDs too.
//
// Times returns only the entries younger than the window after which the log
// expires, those ahead included, and nothing for a counter. RuleState is what
// holds after the answer: an allowed request counts in its own Remaining and
// RetryAfterMS, a peek does not, and RetryAfterMS is then how long the same request would
// have to wait for this rule if it came again.
