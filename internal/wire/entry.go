package wire

// The answers to a pattern that has an active entry of the same kind.
const (
	ConflictFail    = "fail"    // 409, the default of adding; not for imports
	ConflictKeep    = "keep"    // leave the active entry as it is, the default of an import
	ConflictExtend  = "extend"  // move the expiry of the active entry, never earlier
	ConflictReplace = "replace" // end the active entry and add the new one
)

// DefaultBlock is how long a block lasts that a page or a command adds without another choice; for
// a request without expires_in and expires_at it is permanent.
const DefaultBlock = "24h"

// Entry is one block or exemption.
type Entry struct {
	ID      string `json:"id"`
	Kind    string `json:"kind" enum:"block,exemption"` // block or exemption
	Pattern string `json:"pattern"`
	// Scope limits a block to checks that say this scope; omitted if it refuses every check.
	Scope string `json:"scope,omitzero"`
	// Action is challenge for a block that lets a client pass that has solved a challenge;
	// omitted if it refuses.
	Action string `json:"action,omitzero" enum:"challenge"`
	Reason string `json:"reason"`
	Author string `json:"author"`
	Source string `json:"source" enum:"manual,automatic,imported,list"` // manual, automatic, imported or list
	// Policy and Level name the policy whose escalation made an automatic block and
	// the level; null otherwise.
	Policy    NullString `json:"policy"`
	Level     *int       `json:"level"`
	Active    bool       `json:"active"`
	CreatedAt Time       `json:"created_at"`
	ExpiresAt Time       `json:"expires_at"` // null: permanent
	EndedAt   Time       `json:"ended_at"`   // when an operator ended it, null otherwise
	EndedBy   NullString `json:"ended_by"`   // who ended it, null otherwise
	Revision  int64      `json:"revision"`
	// Sources are all that hold the entry, the one that lasts longest first, whose reason, author,
	// source and expiry are those of the entry. The entry ends with the last of them. Only the
	// answers about blocks and exemptions themselves have them; omitted elsewhere.
	Sources []EntrySource `json:"sources,omitzero"`
}

// EntrySource is one source of an entry: an operator, a jail of fail2ban, a list, a policy.
type EntrySource struct {
	// Name is what the source is called, or its author.
	Name string `json:"name"`
	// Pattern is what the source asked for where that differs from the pattern of the entry:
	// the address of an IPv6 client, which is known by its network. Omitted otherwise.
	Pattern   string `json:"pattern,omitzero"`
	Reason    string `json:"reason"`
	Author    string `json:"author"`
	Kind      string `json:"kind" enum:"manual,automatic,imported,list"` // how it was made
	ExpiresAt Time   `json:"expires_at"`                                 // null: permanent
}

// AddEntry adds a block or an exemption. With neither ExpiresIn nor ExpiresAt it
// is permanent.
type AddEntry struct {
	// Pattern is a pattern, an address or network without its kind, a range such as
	// 10.0.0.1-10.0.0.9, AS64500, RU, or a list of these separated by commas. Text that looks like
	// one of them and is none, a key without a kind, and a kind that neither a policy nor a key
	// of the last week has are refused.
	Pattern string `json:"pattern"`
	// Literal says that a pattern that is neither an address nor a network is meant exactly as
	// written.
	Literal bool `json:"literal,omitzero"`
	// Scope limits a block to checks with this scope, such as login: everything else of the
	// keys goes on, and firewalls and bouncers do not get it. Blocks only.
	Scope string `json:"scope,omitzero"`
	// Action challenge makes a block that challenges: its clients pass once their browsers have
	// solved a challenge; firewalls do not get it, and bouncers only if they show captchas.
	// Omitted, it refuses. Blocks only.
	Action string `json:"action,omitzero" enum:"challenge"`
	Reason string `json:"reason,omitzero"`
	// Source is the name of the source that adds it, such as fail2ban/sshd, of 1 to 100 letters,
	// digits and . _ / @ : -. A source has a share of its own in an entry: it joins an active entry
	// of others, which does not conflict, and ends its own share only. Omitted, the caller is
	// the source.
	Source     string   `json:"source,omitzero"`
	ExpiresIn  Duration `json:"expires_in,omitzero"`
	ExpiresAt  Time     `json:"expires_at,omitzero"`
	OnConflict string   `json:"on_conflict,omitzero" enum:"fail,keep,extend,replace"` // what to do if the pattern has an active entry; fail if omitted
	// Confirm is the pattern once more, which a broad one needs.
	Confirm string `json:"confirm,omitzero"`
}

// AddedEntry is what adding entries did: the first of them, and Others.
type AddedEntry struct {
	Added
	// Others are the further entries of a range or a list, which are added with this one or not
	// at all; omitted if there are none.
	Others []Added `json:"others,omitzero"`
}

// Added is what adding one entry did.
type Added struct {
	Entry
	Outcome string `json:"outcome" enum:"created,extended,joined,replaced,unchanged"` // created, extended, joined (another source holds it too), replaced or unchanged
	// Before is what was extended or replaced.
	Before *Entry `json:"before"`
	// Warnings says for example that a bare IPv6 address was read as its
	// network, or which exemptions and blocks overlap with the entry.
	Warnings []string `json:"warnings"`
}

// EntryPatch changes a block or an exemption.
type EntryPatch struct {
	Reason Change[string] `json:"reason,omitzero"`
	// ExpiresIn counts from now. Only one of the two may be sent.
	ExpiresIn Change[Duration] `json:"expires_in,omitzero"`
	// ExpiresAt null makes it permanent.
	ExpiresAt Change[Time] `json:"expires_at,omitzero"`
	// Revision is the revision that the change expects; any if omitted.
	Revision int64 `json:"revision,omitzero"`
	// Confirm is the pattern, which a broad one needs to last longer.
	Confirm string `json:"confirm,omitzero"`
}

// EndRequest ends a block or an exemption, with the shares of all its sources; the body may be
// omitted.
type EndRequest struct {
	ID     string `path:"id" json:"-"`
	Reason string `json:"reason,omitzero"`
	// Source ends the share of this source only: the entry goes on while another holds it. 404
	// not_found if it has none.
	Source string `json:"source,omitzero"`
	// Pattern is the pattern as the source added it, where that is an address of an IPv6 client.
	Pattern string `json:"pattern,omitzero"`
}

// RestoreRequest makes an ended block or exemption active again; the body may be
// omitted.
type RestoreRequest struct {
	// Confirm is the pattern, which a broad one needs.
	Confirm string `json:"confirm,omitzero"`
}

// UndoRequest undoes a change; the body may be omitted.
type UndoRequest struct {
	ID string `path:"id" json:"-"`
	// Confirm is the pattern of the block or exemption, or the name of the
	// policy, which one that is broad needs to be brought back.
	Confirm string `json:"confirm,omitzero"`
}
