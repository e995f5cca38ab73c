package timestamplog

// MaxAhead is how far the newest entry of a log may lie ahead of the log's
// clock, in milliseconds, without the clock being taken to have stepped back.
//
// A clock that steps back leaves entries in the future, which would neither
// age out as promised nor be told from an open limit. So every Log, before it
// decides a request whose stack is not empty and finds the newest entry more
// than MaxAhead ahead of now, moves the whole log back until its newest entry
// is now; the distances within it stay. The move is kept even when the request
// is then refused, and the log then expires as if it had been pushed to. A
// client who waited as told may thus be refused once more, and the wait that
// it is told then holds. A peek and Times answer as if the log had been moved
// and write nothing.
const MaxAhead int64 = 0

// A Log keeps an entry until a push drops it or the log expires. A push drops,
// besides what it adds, every entry whose age is Retention.Window or more and
// all but the newest Retention.Entries. A log expires as a whole once its
// newest entry is as old as the Retention.Window of the last push or move. A
// log without entries does not exist. A request with an empty stack reads and
// writes nothing.
//
// Times returns only the entries younger than the window after which the log
// expires. RuleState is what holds after the answer: an allowed request counts
// in its own Remaining and ResetMS, a peek does not, and ResetMS is then how
// long the same request would have to wait for this rule if it came again.
