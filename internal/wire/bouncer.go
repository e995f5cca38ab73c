package wire

// PathBouncers is the path of what is declared here.
const PathBouncers = "/v1/bouncers"

// TagBouncers is the group of these operations in the OpenAPI document.
var TagBouncers = Tag{"bouncers", "The CrowdSec bouncers that fetch the active blocks. What they ask on the check listener (/v1/decisions, /v1/usage-metrics) is CrowdSec's own API and not described here."}

// Bouncer is a program that enforces the active blocks elsewhere.
type Bouncer struct {
	Type       string `json:"type"`           // what its User-Agent says, "" if it says nothing
	Version    string `json:"version"`        // as its User-Agent says
	Mode       string `json:"mode"`           // live or stream
	TokenID    string `json:"token_id"`       // the id of its token
	Token      string `json:"token"`          // its name, "" if it is gone
	Address    string `json:"address"`        // where it asks from
	FirstSeen  Time   `json:"first_seen_at"`  // when it asked first
	LastPulled Time   `json:"last_pulled_at"` // to within a minute in live mode
	// Sent counts the blocks that it was sent, new and deleted ones.
	Sent int64 `json:"sent"`
	// Captchas says that it is sent blocks that challenge, as captchas, by its token and its type.
	Captchas bool `json:"captchas"`
	// Warning says what the type cannot enforce, "" for nothing known.
	Warning string `json:"warning"`
}

// ListBouncers is the operation that lists the bouncers.
var ListBouncers = Op[None, Page[Bouncer]]{
	ID: "listBouncers", Route: "GET " + PathBouncers, Access: "read", Tag: TagBouncers,
	Summary: "List the CrowdSec bouncers that have fetched blocks in the last 30 days.", Answer: "The bouncers by token and address.",
}
