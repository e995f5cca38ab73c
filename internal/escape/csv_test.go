package escape_test

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/escape"
)

func TestCSVEscapesFormulas(t *testing.T) {
	for _, cell := range []string{
		"=1", "+1", "-1", "@a", "\tx", "\rx", "\nx", // ASCII
		"＝1", "＋1", "－1", "＠a", "﹦1", "﹢1", "﹣1", "﹫a", // other widths
		" =1", "\u00a0=1", "\u3000＝1", "'=1", "''=1", `"=1`, `" =1`, "“=1", "＇=1", // behind spaces and quotes
		"\ufeff=1", "\u200b=1", "\u202e＝1", "\u2060+1", "\u3164@a", "\ufe0f-1", "\x00=1", "\x1b=1", " \tx", // behind invisible characters
		" a", "a ", "a\u00a0", "\u3000a", "'a ", "' a", // spaces around
	} {
		if got := escape.CSV(cell); got != "'"+cell {
			t.Errorf("CSV(%q) = %q", cell, got)
		}
	}
	for _, cell := range []string{"", "a=1", "ip:203.0.113.7", "1-2", "'quoted'", "\ufeffa", "*", "日本=1"} {
		if got := escape.CSV(cell); got != cell {
			t.Errorf("CSV(%q) = %q", cell, got)
		}
	}
}

func TestCSVEscapesFormulasAfterSeparators(t *testing.T) {
	for cell, want := range map[string]string{
		"token:a;=1+1":   "token:a;'=1+1",
		"a; \"@b":        "a;' \"@b",
		"a;b;-1;c":       "a;b;'-1;c",
		"a\t=1":          "a\t'=1",
		"a;\t=1":         "a;'\t'=1",
		"=1;=2":          "'=1;'=2",
		"a;'=1":          "a;''=1",
		"a;b":            "a;b",
		"a;":             "a;",
		"a;=1 ":          "'a;'=1 ",
		"ip:10.0.0.0/8;": "ip:10.0.0.0/8;",
	} {
		if got := escape.CSV(cell); got != want {
			t.Errorf("CSV(%q) = %q, want %q", cell, got, want)
		}
		if got := escape.FromCSV(want); got != cell {
			t.Errorf("FromCSV of CSV(%q) = %q", cell, got)
		}
	}
}

func TestFromCSVTrimsUnescapedSpaces(t *testing.T) {
	for cell, want := range map[string]string{" token:a ": "token:a", "'token:a": "'token:a", "'token:a ": "token:a ", " ;a": ";a"} {
		if got := escape.FromCSV(cell); got != want {
			t.Errorf("FromCSV(%q) = %q, want %q", cell, got, want)
		}
	}
}

func TestCSVRoundTrip(t *testing.T) {
	lead := rapid.SampledFrom([]string{"", "'", "''", `"`, " ", "\ufeff", "\u200b", "\t", "=", "＝", "-", ";", ";'", ";=", "a;", "a ", "\u00a0"})
	rapid.Check(t, func(t *rapid.T) {
		cell := lead.Draw(t, "lead") + lead.Draw(t, "second") + rapid.String().Draw(t, "text") + lead.Draw(t, "end") + lead.Draw(t, "last")
		escaped := escape.CSV(cell)
		if back := escape.FromCSV(escaped); back != cell {
			t.Fatalf("CSV(%q) = %q, and FromCSV of it = %q", cell, escaped, back)
		}
		if strings.HasPrefix(escaped, "=") || strings.HasPrefix(strings.TrimSpace(escaped), "＝") {
			t.Fatalf("CSV(%q) is the formula %q", cell, escaped)
		}
		if strings.ContainsRune(cell, '\r') {
			return // the csv package writes it and reads a line feed
		}
		var file bytes.Buffer
		w := csv.NewWriter(&file)
		if err := w.Write([]string{"x", escaped}); err != nil {
			t.Fatal(err)
		}
		w.Flush()
		row, err := csv.NewReader(&file).Read()
		if err != nil || escape.FromCSV(row[1]) != cell {
			t.Fatalf("FromCSV of a file with CSV(%q): got %q, %v", cell, row, err)
		}
	})
}
