package wire

// PathHolds is the path of what is declared here.
const PathHolds = "/v1/holds"

// Hold is what an allowed check holds until it is settled, released or expires.
type Hold struct {
	// Handle settles it by POST /v1/holds/{handle}, releases it by DELETE and renews it by POST
	// /v1/holds/{handle}/extend. It is signed and may be used at every node.
	Handle string `json:"handle"`
	// ExpiresAt is when it expires, by the clock of the log.
	ExpiresAt Time `json:"expires_at"`
	// ExpiresInMS is in how many milliseconds it expires, whatever the clock of the caller says.
	ExpiresInMS int64 `json:"expires_in_ms"`
}

// Settlement is what was used of a hold.
type Settlement struct {
	// Cost is what was used, 0 to MaxAmount; what was held if omitted. Less than was held is returned as
	// if it had never been charged. More is charged in full, even beyond a limit.
	Cost *int64 `json:"cost,omitzero"`
}

// Extension renews a hold.
type Extension struct {
	Hold Duration `json:"hold"` // from now, 1s to 1d; a hold is never shortened
}

// SettledHold says what became of a hold.
type SettledHold struct {
	State string `json:"state" enum:"settled,released,held"` // held after it was extended
	Held  int    `json:"held"`                               // what was held
	Cost  int    `json:"cost"`                               // what is charged for it, or held
	// Over is how much of the cost is beyond a limit, 0 for nothing: the key is refused until that has
	// aged out.
	Over int `json:"over"`
	// ExpiresAt is when the hold expires now; null once it has ended.
	ExpiresAt Time `json:"expires_at"`
}

// HoldChange is what became of a hold, in an event. That one expires is no event.
type HoldChange struct {
	State string `json:"state" enum:"held,settled,released,extended,expired"` // expired if it was settled after it had
	Held  int64  `json:"held"`                                                // what was held
	Cost  int64  `json:"cost"`                                                // what was used, or is held
	Over  int64  `json:"over"`                                                // how much of the cost is beyond a limit
	// ExpiresAt is when the hold expires or did; null if it was ended before.
	ExpiresAt Time `json:"expires_at"`
}
