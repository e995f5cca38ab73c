package wire

// The answers to a pattern that is blocked or exempt already.
const (
	ConflictFail    = "fail"    // 409, the default
	ConflictExtend  = "extend"  // move the end of what stands, never earlier
	ConflictReplace = "replace" // end what stands and add the new one
)

// Block is one block.
type Block struct {
	ID      string `json:"id"`
	Pattern string `json:"pattern"`
	Reason  string `json:"reason"`
	Author  string `json:"author"`
	Source  string `json:"source"` // manual, automatic or imported
	// Policy and Level name the policy whose escalation made an automatic block and
	// the level; null otherwise.
	Policy    NullString `json:"policy"`
	Level     *int       `json:"level"`
	Active    bool       `json:"active"`
	CreatedAt Time       `json:"created_at"`
	ExpiresAt Time       `json:"expires_at"` // null: for good
	LiftedAt  Time       `json:"ended_at"`
	LiftedBy  NullString `json:"ended_by"`
	Revision  int64      `json:"revision"`
}

// BlockRequest adds a block. With neither ExpiresIn nor ExpiresAt it stands
// for good.
type BlockRequest struct {
	Pattern    string   `json:"pattern"`
	Reason     string   `json:"reason,omitzero"`
	ExpiresIn  Duration `json:"expires_in,omitzero"`
	ExpiresAt  Time     `json:"expires_at,omitzero"`
	OnConflict string   `json:"on_conflict,omitzero"`
	// Confirm is the pattern once more, which a wide one needs.
	Confirm string `json:"confirm,omitzero"`
}

// AddedBlock is what adding a block did.
type AddedBlock struct {
	Block
	Outcome string `json:"outcome"` // created, extended, replaced or unchanged
	// Before is what was extended or replaced.
	Before *Block `json:"before"`
	// Warnings says for example that a bare IPv6 address was read as its
	// network, or that an exemption hides the block.
	Warnings []string `json:"warnings"`
}

// EndPatch changes a block or an exemption.
type EndPatch struct {
	Reason Change[string] `json:"reason,omitzero"`
	// ExpiresIn counts from now. Only one of the two may be sent.
	ExpiresIn Change[Duration] `json:"expires_in,omitzero"`
	// ExpiresAt null makes it stand for good.
	ExpiresAt Change[Time] `json:"expires_at,omitzero"`
	// Revision is the revision that the change expects; any where left out.
	Revision int64 `json:"revision,omitzero"`
	// Confirm is the pattern, which one that is broad needs to last longer.
	Confirm string `json:"confirm,omitzero"`
}

// EndRequest lifts a block or removes an exemption; the body may be left out.
type EndRequest struct {
	Reason string `json:"reason,omitzero"`
}

// UndoRequest undoes a change; the body may be left out.
type UndoRequest struct {
	// Confirm is the pattern of the block or exemption, or the name of the
	// policy, which one that is broad needs to be brought back.
	Confirm string `json:"confirm,omitzero"`
}

// Exemption is one exemption.
type Exemption struct {
	ID        string     `json:"id"`
	Pattern   string     `json:"pattern"`
	Reason    string     `json:"reason"`
	Author    string     `json:"author"`
	Active    bool       `json:"active"`
	CreatedAt Time       `json:"created_at"`
	ExpiresAt Time       `json:"expires_at"`
	RemovedAt Time       `json:"ended_at"`
	RemovedBy NullString `json:"ended_by"`
	Revision  int64      `json:"revision"`
}

// ExemptionRequest adds an exemption; see BlockRequest.
type ExemptionRequest = BlockRequest

// AddedExemption is what adding an exemption did.
type AddedExemption struct {
	Exemption
	Outcome string     `json:"outcome"`
	Before  *Exemption `json:"before"`
	// Warnings names for example the blocks that the exemption now hides.
	Warnings []string `json:"warnings"`
}
