package timestamplog

import (
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

// Request asks one log whether a request is allowed. RequestOf fills in the fields that follow
// from the policy.
type Request struct {
	LogID
	// Version is the policy's version. A log may cache what it derives from Rules under Policy
	// and Version.
	Version int64
	// Rules must all allow the request. Empty allows everything. They must never change.
	Rules rules.Stack
	// Retention bounds what the log keeps. It must cover Rules.
	Retention rules.Retention
	// Algorithm is how requests are counted; nil for the timestamp log.
	Algorithm *algorithms.Algorithm
	Options   algorithms.Options
	// Cost is how much of each limit the request uses: 1 to MaxCost, and at most
	// Rules.LargestCost(); 1 to MaxUsage if ChargeAlways is set.
	Cost int
	// ChargeAlways charges usage that is reported after the fact. If the request is refused, as
	// much of its cost as fits is charged anyway, so that it fills the limit. MaxWait must be
	// 0. See Log.Decide.
	ChargeAlways bool
	// Uncharged makes a request charge nothing even if it is allowed. Otherwise it is a request
	// like any other: a refusal may come from a cache, and in DecideAll it refuses the others
	// and does not make peeks of them. ChargeAlways must not be set, and ID must be "".
	Uncharged bool
	// Value is the hash of the value to count, if Rules count different values; Rules.Distinct
	// names that value. 0 means a new value that nobody has sent, which only an Uncharged
	// request or a peek may ask about. Under the log of points it is an algorithms.Tag, and with
	// Hold the algorithms.HoldTag by which the hold is settled. Value means nothing otherwise.
	Value uint64
	// Hold makes an allowed request under the log of amounts hold its cost for so many milliseconds,
	// up to algorithms.MaxHold, instead of charging it; see Log.Settle. ChargeAlways must not be set.
	Hold int64
	// Source is who asks, for display: the log keeps it with what the request holds, and with nothing else. At
	// most MaxSource bytes; "" if that is not known.
	Source string
	// Peek asks the log, never a cache, what it would answer if the request were made, and
	// writes nothing. One peek makes peeks of all requests of a DecideAll.
	Peek bool
	// Detail asks for Result.States, which cost more than the decision.
	Detail bool
	// MaxWait is how many milliseconds the caller would wait, 0 to MaxWait. 0 asks for a
	// decision about now. It must be 0 if Options.CountRefused is set, and under distinct rules
	// unless Uncharged or Peek is set. See Log.Decide.
	MaxWait int64
	// ID names the request for idempotent replay: if it is sent again within IDLifetime after
	// it was charged, it gets the original answer and is not charged again. At most MaxID
	// bytes; "" for a request that is never replayed. A request with a MaxWait must have one,
	// unless Uncharged or Peek is set.
	ID string
	// IsNewID says that nobody has sent the ID before, so that a refusal may come from a cache.
	IsNewID bool
}

// RequestOf returns the request that asks p about key.
func RequestOf(p *rules.Policy, key string, cost int) Request {
	q := Request{
		LogID: LogIDOf(p, key), Version: p.Version | int64(p.Part)<<48, Rules: p.Rules,
		Retention: p.Retention.Cover(p.Rules), Cost: cost,
	}
	if q.IsDistinct() {
		q.Cost = 1
	}
	if p.Algorithm != algorithms.TimestampLog {
		q.Algorithm, q.Options = algorithms.ByName(p.Algorithm), p.Options
	}
	return q
}

// IsDistinct reports whether the rules count different values.
func (q *Request) IsDistinct() bool { return len(q.Rules) > 0 && q.Rules[0].Distinct != "" }

// TakesValue reports whether Value means something.
func (q *Request) TakesValue() bool {
	return q.IsDistinct() || q.Hold > 0 || q.Algorithm != nil && q.Algorithm.Name == algorithms.PointLog
}

// Hold is an open hold of a log.
type Hold struct {
	Taken, Expires int64 // Unix milliseconds on the log's clock
	Amount         int64
	// Source is the Source of the request that holds, "" if it had none or is no longer known.
	Source string
}

// Settlement ends a hold, or renews it if Extend is set.
type Settlement struct {
	// Request names the log, and the rules under which the hold is settled. Its Value is that of the
	// request that holds.
	Request
	Used   int64 // algorithms.AsHeld for what was held
	Extend int64 // milliseconds from now, up to algorithms.MaxHold
}

// Settled is the answer to a Settlement.
type Settled struct {
	Now   int64
	State algorithms.HoldState
	Held  int64
	Used  int64
	// Over is how much of Used is beyond a limit.
	Over    int64
	Expires int64
	Was     int64 // the Expires before this renewed the hold; 0 if it did not
	// Repeated reports that the hold was settled before, and that nothing was charged now. The other
	// fields are those of the answer then.
	Repeated bool
}
