package offences

import "time"

// KeyRequest is one request of a key, or what was reported of one.
type KeyRequest struct {
	At time.Time
	// Method, Path, Agent and Host are those of the request, "" if they were not sent or are not
	// kept. The path has no query.
	Method, Path, Agent, Host string
	// Outcome is the decision on the check: allowed, limited, blocked, challenged or unavailable. Of
	// a report it is "limited" if a policy had no room for it, and "allowed" otherwise.
	Outcome string
	// Shadow is what the shadow policy would have decided, "" if that was not asked or allows it.
	Shadow string
	// Policy is the name of the policy that decided, "" for none; Rule and Block are what refused.
	Policy, Rule, Block string
	// Refusal opens the record of a refusal, "" for none.
	Refusal string
	// Reported is the outcome that was reported, "" for a check.
	Reported string
	// Evidence says in words what the request showed that policies charge points for.
	Evidence []string
	Source   string // the caller of the check; never trusted
	// Pass is the key of the pass that the client had, "" for none.
	Pass string
}

// KeyRequestAge is for how long the requests of keys are kept in memory, MaxKeyRequests how many of one
// key, and KeptBeforeBlock how many of these are its last requests before it was blocked, which later
// ones do not displace.
const (
	KeyRequestAge   = time.Hour
	MaxKeyRequests  = 50
	KeptBeforeBlock = 15
)
