// Package blocklist reads and writes blocks and exemptions as files: CSV, JSON and plain
// lists; imports them by the million; and says beforehand what they would do.
package blocklist

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rowfile"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// Format is how a file holds entries.
type Format = rowfile.Format

// The formats.
const (
	CSV   = rowfile.CSV     // a header, then an entry a line
	JSON  = rowfile.JSON    // a list of objects, or an object a line
	Plain = Format("plain") // a pattern, address or CIDR a line, # and ; comments
	Auto  = Format("auto")  // one of the others, by the content of the file
)

// Row is one block or exemption of a file.
type Row struct {
	Kind    blocks.Kind
	Line    int // of the file, from 1
	Pattern keys.Pattern
	wire.EntryTerms
	Reason  string
	Expires time.Time // zero: permanent
	// HasEnded says that the file calls the entry ended, or that it has expired since it was
	// exported: it must not become active. Only Kind, Line and Pattern are set then.
	HasEnded bool
}

// Entry returns the row as an imported entry.
func (r Row) Entry() blocks.Entry {
	return blocks.Entry{Kind: r.Kind, Pattern: r.Pattern, EntryTerms: r.EntryTerms, Reason: r.Reason, Source: blocks.Imported, Expires: r.Expires}
}

// Defaults are for what rows leave out.
type Defaults struct {
	// Kind is what the rows are; "" means blocks. Rows of the other kind are invalid.
	Kind blocks.Kind
	// Reading reads the patterns. Rows that say that they are literal, and those of an export,
	// are read literally whatever it says.
	Reading keys.Reading
	Now     time.Time
	Reason  string
	// Expires ends the rows that name no end; zero: they are permanent.
	Expires time.Time
	// Column is where the patterns are in a table that has no column "pattern": the name of a
	// column, its number from 1, or in JSON the name of the member. "" if the file says it.
	Column string
}

// maxReason is the longest reason of a row, in bytes.
const maxReason = 1000

// fields are a row as a file spells it.
type fields struct {
	pattern, reason, expiresAt, expiresIn string

	endedAt string // not "" for an entry that has ended
	kind    string // of an export; "" for a block
	id      string // of an export; "" for a row that somebody wrote
	literal string // "true" if the pattern is meant as written

	// value replaces pattern in files that CrowdSec writes or imports. There scope is
	// the kind of value, duration is expiresIn, decision is what to do, "" for a ban, and
	// simulated is "true" for a decision that is not carried out.
	value, duration, decision, simulated string

	wire.EntryTerms
}

// rows reads the fields of one row, which is several if its pattern is a range or a list. The
// error is a *rowfile.RowError.
func (d *Defaults) rows(line int, f fields) ([]Row, error) {
	wrong := func(problem string) ([]Row, error) { return nil, &rowfile.RowError{Line: line, Problem: problem} }
	if problem := f.fromCrowdSec(); problem != "" {
		return wrong(problem)
	}
	reading := d.Reading
	switch f.literal {
	case "true":
		reading.Literal = true
	case "", "false":
		// An export has canonical patterns, also of kinds that are no longer in use.
		reading.Literal = reading.Literal || uuid.Validate(strings.Trim(f.id, `"`)) == nil
	default:
		return wrong(fmt.Sprintf("literal is %q; write true or false", rowfile.Clip(f.literal)))
	}
	patterns, err := reading.Patterns(f.pattern)
	if err != nil {
		return wrong(err.Error())
	}
	rows := make([]Row, len(patterns))
	for i, p := range patterns {
		if rows[i], err = d.row(line, p, f); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// row reads the fields beside the pattern. The error is a *rowfile.RowError.
func (d *Defaults) row(line int, pattern keys.Pattern, f fields) (Row, error) {
	wrong := func(problem string) (Row, error) { return Row{}, &rowfile.RowError{Line: line, Problem: problem} }
	kind := cmp.Or(d.Kind, blocks.Block)
	if problem := kindProblem(kind, f); problem != "" {
		return wrong(problem)
	}
	if rules.IsPlan(pattern) {
		verb := map[blocks.Kind]string{blocks.Block: "block", blocks.Exemption: "exempt"}[kind]
		return wrong("the pattern names a plan; only policies select keys by their plan, so " + verb + " the keys themselves")
	}
	if f.endedAt != "" {
		if _, err := time.Parse(time.RFC3339, f.endedAt); err != nil {
			return wrong(fmt.Sprintf("ended_at is %q; leave it out, or write the RFC 3339 time at which the %s ended", rowfile.Clip(f.endedAt), kind))
		}
		return Row{Kind: kind, Line: line, Pattern: pattern, HasEnded: true}, nil
	}
	var err error
	row := Row{Kind: kind, Line: line, Pattern: pattern, Reason: f.reason, Expires: d.Expires}
	row.EntryTerms = f.EntryTerms
	var invalid *fault.Error
	if errors.As(blocks.CheckTerms(kind, f.EntryTerms), &invalid) {
		return wrong("the " + invalid.Field + " " + invalid.Message)
	}
	if row.Reason == "" {
		row.Reason = d.Reason
	}
	if problem := checkReason(row.Reason); problem != "" {
		return wrong(problem)
	}
	switch {
	case f.expiresAt != "" && f.expiresIn != "":
		return wrong("expires_at and expires_in cannot be combined; write one of them")
	case f.expiresAt != "":
		row.Expires, err = time.Parse(time.RFC3339, f.expiresAt)
		if err != nil || row.Expires.IsZero() { // zero would be permanent
			return wrong(fmt.Sprintf("expires_at is %q; write an RFC 3339 time such as 2026-01-31T12:00:00Z", rowfile.Clip(f.expiresAt)))
		}
	case f.expiresIn != "":
		length, err := rules.ParseDuration(f.expiresIn)
		if err != nil {
			return wrong("expires_in: " + err.Error())
		}
		row.Expires = d.Now.Add(length)
	}
	if row.Expires.After(blocks.LastExpiry) {
		return wrong("expires_at is after the year 9999 in UTC; leave it out for permanent")
	}
	if !row.Expires.IsZero() && !row.Expires.After(d.Now) {
		if f.id != "" { // it was active when it was exported
			return Row{Kind: kind, Line: line, Pattern: pattern, HasEnded: true}, nil
		}
		return wrong("it ended already, at " + row.Expires.UTC().Format(time.RFC3339))
	}
	return row, nil
}

// fromCrowdSec replaces the fields of CrowdSec's by those of ours, and says what is wrong with
// them, "" if nothing is.
func (f *fields) fromCrowdSec() string {
	if f.value == "" {
		if f.duration != "" || f.decision != "" {
			return "it has a duration or type without a value; beside a pattern write expires_in"
		}
		return ""
	}
	if f.pattern != "" {
		return "pattern and value cannot be combined; write one of them"
	}
	if f.decision != "" && !strings.EqualFold(f.decision, "ban") {
		return fmt.Sprintf("its type is %q, and only bans are imported; leave it out", rowfile.Clip(f.decision))
	}
	if strings.EqualFold(f.simulated, "true") {
		return "the decision is simulated; CrowdSec does not carry it out"
	}
	scope := strings.ToLower(f.Scope)
	if kind, value, both := strings.Cut(f.value, ":"); both && scope == "" && slices.Contains(crowdSecScopes, strings.ToLower(kind)) {
		scope, f.value = strings.ToLower(kind), value // as cscli prints raw decisions
	}
	switch scope {
	case "", "ip", "range":
		f.pattern = f.value
	case "as":
		f.pattern = "asn:" + f.value
	default: // country, and scopes of the operator's own, such as username
		f.pattern = scope + ":" + f.value
	}
	f.Scope, f.expiresIn = "", cmp.Or(f.expiresIn, f.duration)
	// A decision that goes on is printed with the time that it has left, such as 3h59m12.5s.
	if left, err := time.ParseDuration(f.expiresIn); err == nil && left > time.Second {
		f.expiresIn = left.Truncate(time.Second).String()
	} else if err == nil && left <= 0 {
		return "the decision has ended"
	}
	return ""
}

// crowdSecScopes are the scopes of CrowdSec's decisions that are kinds of patterns.
var crowdSecScopes = []string{"ip", "range", "as", "country"}

// kindProblem says why a row is not one of a kind, "" if it is. An export of exemptions says what
// its rows are, and one of blocks does not.
func kindProblem(kind blocks.Kind, f fields) string {
	switch is := blocks.Kind(f.kind); {
	case is == kind:
	case kind == blocks.Block && is == blocks.Exemption:
		return "it is an exemption; an import adds blocks only, so leave it out"
	case kind == blocks.Exemption && is == blocks.Block:
		return "it is a block; an import of exemptions adds no blocks, so leave it out"
	case is != "":
		return fmt.Sprintf("the kind is %q; leave it out, or write %s", rowfile.Clip(f.kind), kind)
	case kind == blocks.Exemption && f.id != "":
		return "it has an id and no kind, as an exported block; leave it out, or write exemption as its kind"
	}
	return ""
}

func checkReason(reason string) string {
	if len(reason) > maxReason {
		return fmt.Sprintf("the reason has %d bytes; at most %d are allowed", len(reason), maxReason)
	}
	if !isLine(reason) {
		return "the reason holds a control character or is not valid UTF-8"
	}
	return ""
}
