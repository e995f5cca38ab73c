package admin

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// FilterReading is the reading of patterns and keys that operators write into filters, and into
// policies, which may name a kind before it is in use.
func FilterReading(view FilterCatalog) keys.Reading {
	return keys.Reading{Parser: view.Parser(), AnyKind: true, IsKnown: func(p keys.Pattern) bool { return isInPolicies(view.Selector(), p) }}
}

// isInPolicies reports whether a policy names the kind of a pattern or, if it has no kind, the
// key itself.
func isInPolicies(s *rules.Selector, p keys.Pattern) bool {
	kind, _, hasKind := strings.Cut(p.Literal(), ":")
	for _, policy := range s.Policies() {
		names := func(m keys.Pattern) bool {
			if !hasKind {
				return m == p
			}
			return strings.HasPrefix(m.Literal(), kind+":") && m.Kind() != keys.Network
		}
		if slices.ContainsFunc(policy.Match, names) || hasKind && slices.ContainsFunc(policy.Also, func(d rules.Derived) bool { return d.Name == kind }) {
			return true
		}
	}
	return false
}

// knownFor is how long a kind is known after the last check of one of its keys.
const knownFor = 7 * 24 * time.Hour

// maxKindsAsked bounds the kinds of one text or file that are looked up.
const maxKindsAsked = 100

// reading is the reading of the patterns of blocks and exemptions. A kind that neither a policy
// nor a key of the last week has needs to be meant.
func (e *Entries) reading(ctx context.Context, literal bool) keys.Reading {
	asked := map[string]bool{}
	return keys.Reading{Parser: e.View.Parser(), Literal: literal, IsKnown: func(p keys.Pattern) bool {
		what, _, hasKind := strings.Cut(p.Literal(), ":")
		if hasKind {
			what += ":*"
		}
		is, found := asked[what]
		if !found && len(asked) < maxKindsAsked {
			is = isInPolicies(e.View.Selector(), p) || e.WasSeen(ctx, what)
			asked[what] = is
		}
		return is
	}}
}

// WasSeen reports whether keys of a pattern were checked lately. It is false if that is unknown.
func (e *Entries) WasSeen(ctx context.Context, text string) bool {
	p, err := e.View.Parser().Pattern(text)
	if err != nil || e.Offences == nil {
		return false
	}
	seen, err := e.Offences.Seen(ctx, p, e.Now().Add(-knownFor), e.Now(), 1)
	return err == nil && seen.Allowed+seen.Refused > 0
}

// readPatterns returns the patterns of the entries that a text asks for.
func (e *Entries) readPatterns(ctx context.Context, field, text string, literal bool) ([]keys.Pattern, error) {
	all, err := fault.ReadPatterns(e.reading(ctx, literal), field, text)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, rules.IsPlan) {
		return nil, fault.Field(field, "names a plan; only policies select keys by their plan")
	}
	return all, nil
}

// IsLiteral reports whether a text that is meant as written would be refused, or read as
// something else, if that was not said.
func (e *Entries) IsLiteral(ctx context.Context, text string) bool {
	literal, err := e.reading(ctx, true).Patterns(text)
	read, errRead := e.reading(ctx, false).Patterns(text)
	return err != nil || errRead != nil || !slices.Equal(literal, read)
}

// readConfirmed returns the patterns that a confirmation repeats: as the server spells them, or
// as the operator wrote them.
func (e *Entries) readConfirmed(text string) ([]keys.Pattern, error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, nil
	}
	reading := FilterReading(e.View)
	all, err := reading.Patterns(text)
	if err != nil {
		reading.Literal = true
		if literal, errLiteral := reading.Patterns(text); errLiteral == nil {
			return literal, nil
		}
		_, err = fault.ReadPatterns(FilterReading(e.View), "confirm", text)
	}
	return all, err
}

// confirm returns the error for the first group of patterns that needs a confirmation and is not
// confirmed, nil if there is none. A group is what one text asked for.
func (e *Entries) confirm(ctx context.Context, kind blocks.Kind, confirm string, groups ...[]keys.Pattern) error {
	confirmed, err := e.readConfirmed(confirm)
	if err != nil {
		return err
	}
	for _, group := range groups {
		if !slices.ContainsFunc(group, func(p keys.Pattern) bool { return !slices.Contains(confirmed, p) }) {
			continue
		}
		if err := needConfirm(keys.Join(group, 0), e.confirmReason(ctx, kind, group...)); err != nil {
			return err
		}
	}
	return nil
}
