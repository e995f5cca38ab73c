// Package profiles holds what Stint keeps about a key: its plan, by which policies select
// it, labels and a note for people, and a limit of its own.
package profiles

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// The bounds of a profile. Keys come from customers and attackers, so that everything is
// bounded.
const (
	MaxLabels     = 16
	MaxLabel      = 64   // bytes
	MaxNote       = 500  // bytes
	MaxReason     = 500  // bytes
	MaxLimitRules = 8    // of a limit of its own
	MaxPlans      = 1000 // different plans of one database
)

// MaxUntil is the longest time for which a limit of its own may be set.
const MaxUntil = 10 * 366 * 24 * time.Hour

// Profile is what is kept about one key. It is never changed once it is stored: a change
// makes a new one.
type Profile struct {
	Key    string   // canonical
	Plan   string   // "" for none
	Labels []string // sorted, each once
	Note   string
	// Limit is the key's own, nil for none; it may have expired.
	Limit     *Limit
	Updated   time.Time
	UpdatedBy string
	Revision  int64
}

// TagOf names the state of a profile, etag.New for one of which nothing is kept, and nil.
func TagOf(p *Profile) etag.Tag {
	if p == nil || p.IsZero() {
		return etag.New
	}
	return etag.Of(p.Key, p.Revision, p.Updated.UnixMilli())
}

// IsZero reports whether nothing is kept: no plan, label, note or limit.
func (p *Profile) IsZero() bool {
	return p.Plan == "" && len(p.Labels) == 0 && p.Note == "" && p.Limit == nil
}

// LimitAt returns the key's own limit that holds at an instant, nil for none.
func (p *Profile) LimitAt(now time.Time) *Limit {
	if p == nil || !p.Limit.ActiveAt(now) {
		return nil
	}
	return p.Limit
}

// Same reports whether both say the same of a key; nil says nothing.
func Same(a, b *Profile) bool {
	if a == nil {
		a = &Profile{}
	}
	if b == nil {
		b = &Profile{}
	}
	return a.Plan == b.Plan && a.Note == b.Note && slices.Equal(a.Labels, b.Labels) && a.Limit.Equal(b.Limit)
}

// FieldError says which field of a profile is wrong and what would be right.
type FieldError struct {
	Field   string // as in the API, for example "labels[2]"
	Problem string
}

// Error returns one line that is safe to print.
func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

// Normalize sorts the labels, removes repeated ones, and returns nil or a *FieldError for
// the first field that is wrong. It does not look at Limit.
func (p *Profile) Normalize() error {
	if p.Plan != "" {
		if err := rules.CheckPlan(p.Plan); err != nil {
			return &FieldError{"plan", err.Error()}
		}
	}
	for i, label := range p.Labels {
		if err := CheckLabel(label); err != nil {
			return &FieldError{fmt.Sprintf("labels[%d]", i), err.Error()}
		}
	}
	slices.Sort(p.Labels)
	if p.Labels = slices.Compact(p.Labels); len(p.Labels) > MaxLabels {
		return &FieldError{"labels", fmt.Sprintf("are %d; a key has at most %d", len(p.Labels), MaxLabels)}
	}
	p.Note = strings.TrimSpace(strings.ReplaceAll(p.Note, "\r\n", "\n"))
	return checkText("note", p.Note, MaxNote)
}

// CheckLabel returns an error unless label is 1 to MaxLabel of a-z, 0-9 and . _ - = : / @,
// beginning with a letter or digit.
func CheckLabel(label string) error {
	const wrong = "must be 1 to 64 of a-z, 0-9 and . _ - = : / @, beginning with a letter or digit, for example region=eu"
	if label == "" || len(label) > MaxLabel || !isWord(label[0]) {
		return errors.New(wrong)
	}
	for i := range len(label) {
		if c := label[i]; !isWord(c) && !strings.ContainsRune("._-=:/@", rune(c)) {
			return errors.New(wrong)
		}
	}
	return nil
}

func isWord(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// checkText returns an error unless text is valid UTF-8 of at most most bytes without
// control characters other than line feeds.
func checkText(field, text string, most int) error {
	if len(text) > most {
		return &FieldError{field, fmt.Sprintf("has %d bytes; at most %d are allowed", len(text), most)}
	}
	if at := strings.IndexFunc(strings.ToValidUTF8(text, "\x00"), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }); at >= 0 {
		return &FieldError{field, fmt.Sprintf("has a control character or invalid UTF-8 at byte %d", at)}
	}
	return nil
}

// Subject is who is checked, as policies select it.
func Subject(k keys.Key, p *Member) rules.Subject {
	if p == nil {
		return rules.Subject{Key: k}
	}
	return rules.Subject{Key: k, Plan: p.Plan}
}
