// Package auditfile writes entries of the audit as a file for people and programs.
package auditfile

import (
	"encoding/csv"
	"io"
	"iter"
	"strconv"

	"github.com/go-json-experiment/json"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/escape"
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
		if err := json.MarshalWrite(w, v1.FromEntry(e)); err != nil {
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
			strconv.FormatInt(e.ID, 10), v1.At(e.At).String(), string(e.Actor.Kind), e.Actor.Name, e.Actor.Address,
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
