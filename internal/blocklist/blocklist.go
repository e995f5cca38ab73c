// Package blocklist reads and writes blocks as files: CSV, JSON and plain
// lists; imports them by the million; and says beforehand what they would do.
package blocklist

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rowfile"
	"github.com/stint-dev/stint/internal/rules"
)

// Format is how a file holds blocks.
type Format = rowfile.Format

// The formats.
const (
	CSV   = rowfile.CSV     // a header, then a block a line
	JSON  = rowfile.JSON    // a list of objects, or an object a line
	Plain = Format("plain") // a pattern, address or CIDR a line, # and ; comments
)

// Row is one block of a file.
type Row struct {
	Line    int // of the file, from 1
	Pattern keys.Pattern
	Scope   string // of the checks that it refuses, "" for all
	Reason  string
	Expires time.Time // zero: permanent
	// HasEnded says that the file calls the block ended, or that it has expired since it was
	// exported: it must not become active. Only Line and Pattern are set then.
	HasEnded bool
}

// Block returns the row as an imported block.
func (r Row) Block() blocks.Entry {
	return blocks.Entry{Kind: blocks.Block, Pattern: r.Pattern, Scope: r.Scope, Reason: r.Reason, Source: blocks.Imported, Expires: r.Expires}
}

// Defaults are for what rows leave out.
type Defaults struct {
	Parser keys.Parser
	Now    time.Time
	Reason string
	// Expires ends the rows that name no end; zero: they are permanent.
	Expires time.Time
}

// maxReason is the longest reason of a row, in bytes.
const maxReason = 1000

// fields are a row as a file spells it.
type fields struct {
	pattern, reason, expiresAt, expiresIn, scope string

	endedAt string // not "" for a block that has ended
	kind    string // of an export; "" for a block
	id      string // of an export; "" for a row that somebody wrote
}

// row reads the fields of one row. The error is a *rowfile.RowError.
func (d *Defaults) row(line int, f fields) (Row, error) {
	wrong := func(problem string) (Row, error) { return Row{}, &rowfile.RowError{Line: line, Problem: problem} }
	switch blocks.Kind(f.kind) {
	case "", blocks.Block:
	case blocks.Exemption:
		return wrong("it is an exemption; an import adds blocks only, so leave it out")
	default:
		return wrong(fmt.Sprintf("the kind is %q; leave it out, or write block", rowfile.Clip(f.kind)))
	}
	pattern, err := d.Parser.Pattern(f.pattern)
	if err != nil {
		return wrong(err.Error())
	}
	if rules.IsPlan(pattern) {
		return wrong("the pattern names a plan; only policies select keys by their plan, so block the keys themselves")
	}
	if f.endedAt != "" {
		if _, err := time.Parse(time.RFC3339, f.endedAt); err != nil {
			return wrong(fmt.Sprintf("ended_at is %q; leave it out, or write the RFC 3339 time at which the block ended", rowfile.Clip(f.endedAt)))
		}
		return Row{Line: line, Pattern: pattern, HasEnded: true}, nil
	}
	row := Row{Line: line, Pattern: pattern, Reason: f.reason, Expires: d.Expires}
	if row.Scope = f.scope; row.Scope != "" && conditions.CheckScope(row.Scope) != nil {
		return wrong("the scope " + conditions.CheckScope(row.Scope).Error())
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
			return Row{Line: line, Pattern: pattern, HasEnded: true}, nil
		}
		return wrong("it ended already, at " + row.Expires.UTC().Format(time.RFC3339))
	}
	return row, nil
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
