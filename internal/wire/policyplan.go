package wire

import (
	"fmt"
	"slices"
	"strings"
)

// The actions of a PolicyChange.
const (
	PolicyCreate  = "create"
	PolicyReplace = "replace"
	PolicyDelete  = "delete"
	PolicyKeep    = "none" // it is already as wanted
)

// PolicyFile is all policies as one document.
type PolicyFile struct {
	Policies []PolicyRequest `json:"policies"`
}

// PolicyFileRequest makes the policies what a file says, all or nothing.
type PolicyFileRequest struct {
	Policies []PolicyRequest `json:"policies"`
	// Expect is the required etag of each policy that is replaced or deleted, as a dry
	// run showed it, or * for any; a policy that is not named must not exist. If it is
	// omitted, all are replaced as they are.
	Expect map[string]string `json:"expect,omitzero"`
}

// PolicyPlanOf asks what a file would change.
type PolicyPlanOf struct {
	PolicyApplicationFlags
	PolicyFileRequest
}

// PolicyApplication makes the policies what a file says.
type PolicyApplication struct {
	Confirm string `query:"confirm" json:"-"` // The names, with commas between them, of the policies that newly refuse every request of a broad pattern, or from which keys leave for another policy or for none, as the answer 409 confirmation_required gives them.
	PolicyApplicationFlags
	PolicyFileRequest
}

// PolicyApplicationFlags say how a file is applied.
type PolicyApplicationFlags struct {
	Prune  bool `query:"prune" json:"-"`  // Delete the policies that the document does not name.
	Shadow bool `query:"shadow" json:"-"` // Put the policies of the document in shadow mode. In place of a policy that enforces now, its draft is made, which runs beside it; see POST /v1/policies/{name}/promote.
}

// PolicyPlan is what makes the policies what a file says.
type PolicyPlan struct {
	// DryRun says that nothing was changed.
	DryRun  bool           `json:"dry_run"`
	Changed bool           `json:"changed"` // something had, or has, to be changed
	Changes []PolicyChange `json:"changes"` // one for each policy of either side
	// Confirm is what applying it needs as the parameter confirm, null for nothing.
	Confirm NullString `json:"confirm"`
	// ConfirmReason says why, null without Confirm.
	ConfirmReason NullString `json:"confirm_reason"`
	// Warnings point out what is valid but probably a mistake.
	Warnings []string `json:"warnings"`
}

// PolicyChange is what a plan does to one policy.
type PolicyChange struct {
	Name   string `json:"name"`
	Action string `json:"action" enum:"create,replace,delete,none"` // what is done to it
	// Version is the current version, null for a new policy.
	Version *int64 `json:"version"`
	// ETag names that version for expect, null for a new policy.
	ETag NullString `json:"etag"`
	// Before is null for a policy that is created, After for one that is
	// deleted.
	Before *PolicyRequest `json:"before"`
	After  *PolicyRequest `json:"after"`
	Fields []FieldChange  `json:"fields"`
}

// PolicyRename renames a policy.
type PolicyRename struct {
	Of     string `path:"name" json:"-"`
	Expect string `header:"If-Match" json:"-" required:"Renaming a policy"`
	Name   string `json:"name"` // the new name
}

// DraftComparison compares a policy with its draft, a shadow policy that runs beside it.
type DraftComparison struct {
	Version int64         `json:"version"` // of the policy, 0 if there is only the draft
	Draft   Policy        `json:"draft"`   // the shadow policy NAME.draft
	Changes []FieldChange `json:"changes"` // what promoting the draft would change
	From    Time          `json:"from"`    // when the draft was saved, at most a day ago
	To      Time          `json:"to"`      // exclusive
	// Allowed and Limited are the checks that the policy decided. Of a policy with conditions, an
	// outcome or distinct values, what it allowed is counted under the policy of the key.
	Allowed int64 `json:"allowed"`
	Limited int64 `json:"limited"` // checks that the policy refused
	// DraftAllowed are the checks that the draft would have allowed.
	DraftAllowed int64 `json:"draft_allowed"`
	DraftLimited int64 `json:"draft_limited"` // checks that the draft would have refused
}

// PolicyRollback restores an earlier version of a policy.
type PolicyRollback struct {
	Name    string `path:"name" json:"-"`
	Expect  string `header:"If-Match" json:"-" required:"Rolling back a policy"`
	Confirm string `query:"confirm" json:"-"` // The policy's name. It is needed if every request of a broad pattern is newly refused, or if keys leave an enforcing policy for another one or for none: by a deletion, by a change of mode, patterns or conditions, or by a policy that is off. The answer 409 confirmation_required says to which, and how many keys of the recorded traffic.
	// Version is the version to restore; the one before the newest if omitted.
	Version int64 `json:"version,omitzero"`
}

// FieldChange is one field that differs. Match and rules have several values,
// whose order means nothing; what is not there has none.
type FieldChange struct {
	Field  string   `json:"field"`  // its name
	Before []string `json:"before"` // its former values
	After  []string `json:"after"`  // its new values
}

// PolicyDiff compares two versions of a policy.
type PolicyDiff struct {
	Name   string        `json:"name"`
	From   int64         `json:"from"` // 0: before there was a policy
	To     int64         `json:"to"`   // the later version
	Fields []FieldChange `json:"fields"`
	// Text is the same as lines that begin with "- " or "+ ".
	Text string `json:"text"`
}

// Lines writes changes for people: what goes behind "- ", what comes behind "+ ". escape
// makes a value harmless where the lines are shown.
func Lines(changes []FieldChange, escape func(string) string) []string {
	var lines []string
	line := func(sign, field string, values, but []string) {
		left := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return slices.Contains(but, v) })
		if len(left) > 0 {
			lines = append(lines, fmt.Sprintf("%s %s: %s", sign, escape(field), escape(strings.Join(left, " "))))
		}
	}
	for _, c := range changes {
		line("-", c.Field, c.Before, c.After)
		line("+", c.Field, c.After, c.Before)
	}
	return lines
}
