// Package auditfile writes entries of the audit as a file for people and programs.
package auditfile

import (
	"encoding/csv"
	"io"
	"iter"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/wire"
)

// CSV is the format of Write for spreadsheets; every other format is JSON.
const CSV = "csv"

// MediaType returns the media type of a format.
func MediaType(format string) string {
	if format == CSV {
		return "text/csv; charset=utf-8"
	}
	return "application/json"
}

// Name returns the name that a browser gives the file.
func Name(format string) string {
	if format == CSV {
		return "audit.csv"
	}
	return "audit.json"
}

// Write writes entries in a format. It stops at the first error of either side.
func Write(w io.Writer, format string, entries iter.Seq2[*audit.Record, error]) error {
	if format == CSV {
		return writeCSV(w, entries)
	}
	return writeJSON(w, entries)
}

func writeJSON(w io.Writer, entries iter.Seq2[*audit.Record, error]) error {
	separator := "["
	for e, err := range entries {
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, separator+"\n"); err != nil {
			return err
		}
		if err := json.MarshalWrite(w, Entry(e)); err != nil {
			return err
		}
		separator = ","
	}
	if separator == "[" { // nothing was selected
		_, err := io.WriteString(w, "[]\n")
		return err
	}
	_, err := io.WriteString(w, "\n]\n")
	return err
}

func writeCSV(w io.Writer, entries iter.Seq2[*audit.Record, error]) error {
	out := csv.NewWriter(w)
	err := out.Write([]string{"id", "at", "actor_kind", "actor", "address", "action", "object", "object_id", "summary", "before", "after"})
	if err != nil {
		return err
	}
	for e, err := range entries {
		if err != nil {
			return err
		}
		cells := []string{
			strconv.FormatInt(e.ID, 10), wire.At(e.At).String(), string(e.Actor.Kind), e.Actor.Name, e.Actor.Address,
			e.Action, e.Object, e.ObjectID, e.Summary, string(e.Before), string(e.After),
		}
		for i := range cells {
			cells[i] = escape.CSV(cells[i])
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// Entry returns an audit entry as the API shows it.
func Entry(e *audit.Record) wire.AuditEntry {
	return wire.AuditEntry{
		ID: e.ID, At: wire.At(e.At), Action: e.Action, Object: e.Object, ObjectID: e.ObjectID, Summary: e.Summary,
		Actor: wire.Actor{
			Kind: string(e.Actor.Kind), ID: wire.NullString(e.Actor.ID), Name: e.Actor.Name, Address: wire.NullString(e.Actor.Address),
		},
		Before: e.Before, After: e.After, Revision: e.Revision,
	}
}
