package blocks

import "time"

// ListHolder returns the name of the source that holds the rows of a list in entries. It is also
// their author, and no user can have it.
func ListHolder(list string) string { return listPrefix + list }

const listPrefix = "list/"

// ListOf returns the name of the list that an entry is of, "" for an entry that is of none, or that
// another source holds longer.
func (e *Entry) ListOf() string {
	if e.Source != Listed || len(e.Author) <= len(listPrefix) {
		return ""
	}
	return e.Author[len(listPrefix):]
}

// ShadowScope is the scope of the rows of lists in shadow mode. No check has it, so that they
// refuse nothing.
const ShadowScope = "-shadow"

// AttackScope is the scope of the rows of lists that are for attacks only. No check has it: the gate asks
// for them while an attack goes on.
const AttackScope = "-attack"

// ChallengeScope is the scope of the rows of lists that challenge, which apply to checks of every
// scope. In a place of its own such a row keeps nobody from blocking its pattern: no operator, no
// escalation and no other list.
const ChallengeScope = "-challenge"

// ScopeOfChecks returns the scope of the checks to which e applies, "" for every check.
func (e *Entry) ScopeOfChecks() string {
	if e.Scope == ChallengeScope {
		return ""
	}
	return e.Scope
}

// HasListScope reports whether e has a scope that only rows of lists have.
func (e *Entry) HasListScope() bool {
	return e.Source == Listed && (e.Scope == ShadowScope || e.Scope == AttackScope || e.Scope == ChallengeScope)
}

// IsForAttacks reports whether e is a row of a list that is for attacks only; e may be nil.
func (e *Entry) IsForAttacks() bool { return e != nil && e.Source == Listed && e.Scope == AttackScope }

// ChallengesAll reports whether e is a block that challenges checks of every scope.
func (e *Entry) ChallengesAll() bool { return e.Action == Challenge && e.ScopeOfChecks() == "" }

// Challenging returns the sets of the blocks that challenge checks of every scope, those of operators and
// those of lists. A pattern may have one in each.
func (s *Set) Challenging() (own, listed *Set) {
	return s.challenging(""), s.challenging(ChallengeScope)
}

func (s *Set) challenging(scope string) *Set {
	if found := s.inScope(challenges + scope); found != nil {
		return found
	}
	return NewSet()
}

// Shadow returns the rows of lists in shadow mode, nil for none.
func (s *Set) Shadow() *Set { return s.inScope(ShadowScope) }

// ForAttacks returns the rows of lists that are for attacks only, nil for none.
func (s *Set) ForAttacks() *Set { return s.inScope(AttackScope) }

// HidesLists reports whether a filter selects no rows of lists: they are shown only where somebody
// looks for them.
func (f *Filter) HidesLists() bool {
	return !f.Lists && f.Source == "" && f.Holder == "" && f.Author == "" && f.Search == "" && f.Key.IsZero() && f.Within.IsZero()
}

// PullDiff says what a pull of a list would change.
type PullDiff struct {
	Before  int // rows of the list that are in force
	Rows    int // different rows of the pull
	Added   int // of these, those that were not in force
	Ended   int // rows that were in force and are not in the pull
	Changed int // rows with another expiry
}

// ListRows says what the rows of a list are.
type ListRows struct {
	Holder string // see ListHolder
	Kind   Kind
	Scope  string // ShadowScope, AttackScope or ChallengeScope, "" otherwise
	Action Action // Refuse leaves the rows theirs
}

// List is a list that a node pulls again and again.
type List struct {
	Name, URL string
	As        ListUse
	Format    string // of package blocklist
	Column    string
	// Header is a header of the requests, such as "Key: abc", "" for none. It is a secret: only
	// what is read for a pull has it.
	Header    string
	HasHeader bool
	Every     time.Duration
	Author    string
	Created   time.Time
	State     ListState
}

// ListUse is what the rows of a list do.
type ListUse string

// The uses of a list.
const (
	AsBlock     ListUse = "block"
	AsChallenge ListUse = "challenge" // refuses those without a pass
	AsExempt    ListUse = "exempt"
	AsShadow    ListUse = "shadow" // counted, and nothing is refused
	AsAttack    ListUse = "attack" // refuses while an attack goes on
)

// Uses lists all uses.
var Uses = []ListUse{AsBlock, AsChallenge, AsExempt, AsShadow, AsAttack}

// RowsOf returns what the rows of a list are.
func (l *List) RowsOf() ListRows {
	rows := ListRows{Holder: ListHolder(l.Name), Kind: Block}
	switch l.As {
	case AsChallenge:
		rows.Scope, rows.Action = ChallengeScope, Challenge
	case AsExempt:
		rows.Kind = Exemption
	case AsShadow:
		rows.Scope = ShadowScope
	case AsAttack:
		rows.Scope = AttackScope
	}
	return rows
}

// ListState is what is known of the pulls of a list.
type ListState struct {
	ETag     string    `json:"etag,omitzero"`
	Modified string    `json:"modified,omitzero"` // the header Last-Modified
	Checked  time.Time `json:"checked,omitzero"`  // when it was last asked for
	Pulled   time.Time `json:"pulled,omitzero"`   // when it was last read whole, or had not changed
	Changed  time.Time `json:"changed,omitzero"`  // when its rows last changed
	Problem  string    `json:"problem,omitzero"`  // of the last try
	Rows     int       `json:"rows,omitzero"`     // in force
	Invalid  int       `json:"invalid,omitzero"`  // rows of the last pull that cannot be read
	LeftOut  int       `json:"left_out,omitzero"` // rows of the last pull that no list may have
	Notes    []string  `json:"notes,omitempty"`   // about the first of these
	Held     *HeldPull `json:"held,omitzero"`     // what waits for an operator, nil for nothing
	Alarmed  bool      `json:"alarmed,omitzero"`  // that it is stale or held was notified
}

// HeldPull is a pull that changes so much that an operator must agree.
type HeldPull struct {
	PullDiff
	Since time.Time `json:"since"`
	// Ratio is how much of the last day's allowed checks the added rows would have refused, -1 if
	// that is not known.
	Ratio float64 `json:"ratio"`
}

// maxMissed is how many pulls in a row may be missed until a list is stale.
const maxMissed = 3

// IsStale reports whether a list was not pulled for longer than maxMissed times of its interval.
func (l *List) IsStale(now time.Time) bool {
	last := l.State.Pulled
	if last.IsZero() {
		last = l.Created
	}
	return now.Sub(last) > maxMissed*l.Every
}

// IsDue reports whether a list must be pulled.
func (l *List) IsDue(now time.Time) bool {
	// A node whose clock was ahead must not keep it from being pulled.
	return l.State.Checked.After(now) || now.Sub(l.State.Checked) >= l.Every
}
