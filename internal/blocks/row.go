package blocks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// Row is an entry as it is stored: in the table entries, whose columns are called as the members,
// in temporary files, in the saved catalog and in the audit log. It lacks From.
type Row struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	Pattern string `json:"pattern"`
	wire.EntryTerms
	Reason   string    `json:"reason"`
	Author   string    `json:"author"`
	Source   string    `json:"source"`
	PolicyID int64     `json:"policy_id,omitzero"`
	Level    int64     `json:"level,omitzero"`
	Created  Moment    `json:"created_at"`
	Expires  time.Time `json:"expires_at,omitzero"`
	Ended    Moment    `json:"ended_at,omitzero"`
	EndedBy  string    `json:"ended_by,omitzero"`
	Revision int64     `json:"revision,omitzero"`
}

// Row returns e as it is stored.
func (e *Entry) Row() Row {
	return Row{
		ID: e.ID, Kind: string(e.Kind), Pattern: e.Pattern.String(), EntryTerms: e.EntryTerms, Reason: e.Reason, Author: e.Author,
		Source: string(e.Source), PolicyID: e.PolicyID, Level: int64(e.Level), Created: e.Created, Expires: e.Expires,
		Ended: MomentOf(e.Ended()), EndedBy: e.EndedBy(), Revision: e.Revision,
	}
}

// Entry returns the entry that is stored as r. A stored pattern is canonical: its meaning does not
// depend on settings. The pattern is zero if only another version accepts it: such an entry can be
// listed and ended. An action that this version does not know is of a later one, and refuses.
func (r *Row) Entry() (*Entry, error) {
	if !slices.Contains(Kinds, Kind(r.Kind)) {
		return nil, fmt.Errorf("row %s: %q is not a kind of entry", r.ID, r.Kind[:min(len(r.Kind), 40)])
	}
	pattern, err := (keys.Parser{}).Pattern(r.Pattern)
	if err != nil {
		pattern = keys.Unreadable(r.Pattern)
	}
	terms := r.EntryTerms
	terms.Action = ActionOf(r.Action)
	return &Entry{
		ID: r.ID, Kind: constant(r.Kind, Kinds...), Pattern: pattern, EntryTerms: terms, Reason: r.Reason, Author: r.Author,
		Source: constant(r.Source, Manual, Automatic, Imported, Listed), PolicyID: r.PolicyID, Level: int(r.Level), Created: r.Created,
		Expires: r.Expires, End: EndingOf(r.Ended.Time(), r.EndedBy), Revision: r.Revision,
	}, nil
}

// ActionOf returns the action of a row, Refuse for one that this version does not know.
func ActionOf(text string) Action {
	if text == Challenge {
		return Challenge
	}
	return Refuse
}

// constant returns the one of all that text names, so that rows do not keep copies, and otherwise text.
func constant[T ~string](text string, all ...T) T {
	if at := slices.Index(all, T(text)); at >= 0 {
		return all[at]
	}
	return T(strings.Clone(text))
}

// MarshalJSON writes m as the text of its time.
func (m Moment) MarshalJSON() ([]byte, error) { return m.Time().MarshalJSON() }

// UnmarshalJSON reads what MarshalJSON writes.
func (m *Moment) UnmarshalJSON(text []byte) error {
	var t time.Time
	err := t.UnmarshalJSON(text)
	*m = MomentOf(t)
	return err
}
