package blocks

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/fault"
)

// Holder identifies one part of an entry: a source and what it called the pattern.
type Holder struct {
	// Name is the name of the source, such as fail2ban/sshd. An entry without one is held by its
	// author.
	Name string `json:"name"`
	// Ref is what the source called the pattern where that is something else, "" otherwise: two
	// addresses of one IPv6 /64 are one pattern, and each is banned and unbanned by itself.
	Ref string `json:"ref,omitzero"`
}

// Share is the part that one source has in an entry. The entry is active until its last share
// expires or is ended. Its reason, author, source, policy, level and expiry are those of the
// share that lasts longest. It is stored by the names in the tags, as a Row is.
type Share struct {
	Holder
	Reason   string    `json:"reason"`
	Author   string    `json:"author"`
	Source   Source    `json:"source"`
	PolicyID int64     `json:"policy_id,omitzero"`
	Level    int       `json:"level,omitzero"`
	Expires  time.Time `json:"expires_at,omitzero"` // zero: permanent
}

// HolderOf returns the holder of an entry that is added.
func (e *Entry) HolderOf() Holder {
	if e.From == nil {
		return Holder{Name: e.Author}
	}
	return Holder{cmp.Or(e.From.Name, e.Author), e.From.Ref}
}

// ShareOf returns an entry that is added as the share of its holder.
func (e *Entry) ShareOf() Share {
	return Share{e.HolderOf(), e.Reason, e.Author, e.Source, e.PolicyID, e.Level, e.Expires}
}

// SetShare makes s the share by which e is known.
func (e *Entry) SetShare(s Share) {
	e.Reason, e.Author, e.Source, e.PolicyID, e.Level, e.Expires = s.Reason, s.Author, s.Source, s.PolicyID, s.Level, s.Expires
}

// Longest returns the index of the share that lasts longest, the first of several; -1 if there
// is none.
func Longest(all []Share) int {
	longest := -1
	for i, s := range all {
		if longest < 0 || IsLater(s.Expires, all[longest].Expires) {
			longest = i
		}
	}
	return longest
}

// ShareBy returns the index of a holder's share, -1 if it has none.
func ShareBy(all []Share, h Holder) int {
	return slices.IndexFunc(all, func(s Share) bool { return s.Holder == h })
}

// NamesOf returns the names of the sources of shares, each once.
func NamesOf(all []Share) (names []string) {
	for _, s := range all {
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

// Join returns the shares of an active entry after a source asked for a share, and what that did.
// on decides what happens if the source has a share already; Fail leaves it, as Keep does.
func Join(was []Share, s Share, on Conflict) (all []Share, did Outcome) {
	all = slices.Clone(was)
	own := ShareBy(all, s.Holder)
	switch {
	case own < 0:
		return append(all, s), Joined
	case on == Extend && IsLater(s.Expires, all[own].Expires):
		all[own].Expires = s.Expires
		return all, Extended
	case on == Replace:
		all[own] = s
		return all, Replaced
	}
	return all, Unchanged
}

var holderName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/@:-]{0,99}$`)

// CheckHolderName returns an error if a source cannot have a name.
func CheckHolderName(name string) error {
	if !holderName.MatchString(name) || slices.Contains([]Source{Manual, Automatic, Imported, Listed}, Source(name)) {
		return fault.Field("source", "must be 1 to 100 letters, digits and . _ / @ : -, such as fail2ban/sshd, and not manual, automatic, imported or list")
	}
	return nil
}
