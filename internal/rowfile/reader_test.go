package rowfile_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/rowfile"
)

// Blank lines take part of what a row may, so that no file is read without a bound. The error says
// so, and where they begin.
func TestBlankLinesAreBoundedWithTheRow(t *testing.T) {
	schema := rowfile.Schema[string]{
		Columns: []string{"key"}, Usual: "key", Header: "key",
		FromCSV:  func(_ int, cell func(int) string) (string, error) { return cell(0), nil },
		FromJSON: func(_ int, value jsontext.Value) (string, error) { return string(value), nil },
	}
	blank := strings.Repeat("\n", 2<<20)
	for name, c := range map[string]struct {
		format rowfile.Format
		text   string
		line   string
	}{
		"CSV":                 {rowfile.CSV, "key\na\n" + blank + "b\n", "line 3: "},
		"CSV without a row":   {rowfile.CSV, "key\n" + blank, "line 2: "},
		"CSV before a header": {rowfile.CSV, blank + "key\na\n", "line 1: "},
		"JSON":                {rowfile.JSON, "{}\n" + blank + "{}\n", "line "},
	} {
		var rows []string
		var failed error
		for row, err := range rowfile.Read(strings.NewReader(c.text), c.format, schema) {
			if failed = err; err == nil {
				rows = append(rows, row)
			}
		}
		if failed == nil || !strings.HasPrefix(failed.Error(), c.line) || !strings.Contains(failed.Error(), "blank lines") {
			t.Errorf("%s: got %d rows and the error %v, want one that begins with %q and names blank lines", name, len(rows), failed, c.line)
		}
	}
}
