package output

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/mattn/go-runewidth"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/wire"
)

func TestEscapeReplacesMisleadingCharacters(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"plain text stays", `token:test_\*`, `token:test_\*`},
		{"letters of any script stay", "token:äλ漢", "token:äλ漢"},
		{"terminal escape sequences", "a\x1b[2Jb", `a\x1b[2Jb`},
		{"a new line", "a\nb\r\tc", `a\x0ab\x0d\x09c`},
		{"a C1 control", "a\u009bb", `a\u009bb`},
		{"a right-to-left override", "a\u202egnp.exe", `a\u202egnp.exe`},
		{"isolates", "a\u2066b\u2069", `a\u2066b\u2069`},
		{"characters without a width", "a\u200bb\ufeffc", `a\u200bb\ufeffc`},
		{"fillers and selectors", "a\u3164\ufe0f\u2800", `a\u3164\ufe0f\u2800`},
		{"tags beyond the first plane", "a\U000e0041", `a\U000e0041`},
		{"a no-break space", "a\u00a0b", `a\u00a0b`},
		{"bytes that are not UTF-8", "a\xff\xfeb", `a\xff\xfeb`},
	} {
		if got := Escape(test.text); got != test.want {
			t.Errorf("%s: Escape(%q) = %s, want %s", test.name, test.text, got, test.want)
		}
	}
}

func TestJSONIsEscapedWithoutChangingTheValue(t *testing.T) {
	value := []string{"a\u202eb", "\U000e0041", "\x7f", "new\nline", `back\slash"`}
	var out bytes.Buffer
	if err := (&Printer{Out: &out}).JSON(value); err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexFunc(strings.ReplaceAll(out.String(), "\n", ""), escape.IsHidden); i >= 0 {
		t.Errorf("the JSON %q has a misleading character at byte %d", out.String(), i)
	}
	var back []string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	for i := range value {
		if back[i] != value[i] {
			t.Errorf("value %d reads back as %q, want %q", i, back[i], value[i])
		}
	}
}

func TestTablesLeaveOutColumnsThatNoRowNeeds(t *testing.T) {
	columns := []Column[[3]string]{
		{Name: "a", Head: "A", Cell: func(r [3]string) Cell { return Text(r[0]) }},
		{Name: "b", Head: "B", Drop: 1, Cell: func(r [3]string) Cell { return Text(r[1]) }},
		{Name: "c", Head: "C", Drop: 1, Usual: "never", Cell: func(r [3]string) Cell { return Text(r[2]) }},
	}
	for _, test := range []struct {
		name string
		rows [][3]string
		want string
	}{
		{"empty and usual", [][3]string{{"", "", "never"}, {"x", "", ""}}, "A\n\nx\n"},
		{"one row has a value", [][3]string{{"x", "", "never"}, {"y", "1", "1h"}}, "A  B  C\nx     never\ny  1  1h\n"},
	} {
		var out bytes.Buffer
		if err := List(&Printer{Out: &out}, test.rows, columns); err != nil || out.String() != test.want {
			t.Errorf("%s: %q, %v, want %q", test.name, out.String(), err, test.want)
		}
	}
	var csv bytes.Buffer
	if err := List(&Printer{Out: &csv, Format: CSV}, [][3]string{{"", "", "never"}}, columns); err != nil || csv.String() != "a,b,c\n,,never\n" {
		t.Errorf("CSV: %q, %v, want all columns", csv.String(), err)
	}
}

func TestDuration(t *testing.T) {
	for _, test := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0 ms"},
		{350 * time.Millisecond, "350 ms"},
		{12400 * time.Millisecond, "12.4 s"},
		{12 * time.Second, "12 s"},
		{59940 * time.Millisecond, "59.9 s"},
		{59999 * time.Millisecond, "1 min"},
		{999900 * time.Microsecond, "1 s"},
		{2*time.Hour - 4*time.Millisecond, "2 h"},
		{24*time.Hour - time.Second, "1 d"},
		{200 * time.Second, "3 min 20 s"},
		{time.Hour, "1 h"},
		{3*time.Hour + 52*time.Minute + 40*time.Second, "3 h 53 min"},
		{52 * time.Hour, "2 d 4 h"},
		{400 * 24 * time.Hour, "400 d"},
		{-time.Minute, "1 min"},
	} {
		if got := Duration(test.d); got != test.want {
			t.Errorf("Duration(%s) = %q, want %q", test.d, got, test.want)
		}
	}
}

func TestWhen(t *testing.T) {
	now := time.Date(2026, 11, 20, 14, 3, 14, 600e6, time.UTC)
	for _, test := range []struct {
		name string
		at   time.Time
		want string
	}{
		{"within a minute", now.Add(12400 * time.Millisecond), "14:03:27.0 UTC, in 12.4 s"},
		{"now", now, "14:03:14.6 UTC, now"},
		{"a moment ago", now.Add(-25 * time.Second), "14:02:49.6 UTC, 25 s ago"},
		{"the same day", now.Add(3*time.Hour + 52*time.Minute), "17:55 UTC, in 3 h 52 min"},
		{"another day", now.Add(-24 * time.Hour), "19 Nov 14:03 UTC, 1 d ago"},
		{"another year", now.AddDate(1, 0, 0), "20 Nov 2027 14:03 UTC, in 365 d"},
		{"another zone", now.Add(time.Hour).In(time.FixedZone("", 7200)), "15:03 UTC, in 1 h"},
	} {
		if got := When(test.at, now); got != test.want {
			t.Errorf("%s: When = %q, want %q", test.name, got, test.want)
		}
	}
}

// row is a row of the tables in these tests.
type row struct {
	key  string
	n    int
	note string
}

var rowColumns = []Column[row]{
	{Name: "key", Head: "Key", Cut: true, Cell: func(r row) Cell { return Text(r.key) }},
	{Name: "n", Head: "Count", Right: true, Cell: func(r row) Cell { return Number(r.n) }},
	{Name: "note", Head: "Note", Drop: 1, Cell: func(r row) Cell { return Text(r.note) }},
	{Name: "only_csv", Cell: func(r row) Cell { return Words("", "x") }},
}

func printRows(t *testing.T, format Format, width int, rows ...row) string {
	t.Helper()
	var out bytes.Buffer
	if err := List(&Printer{Out: &out, Format: format, Width: width}, rows, rowColumns); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTableIsAligned(t *testing.T) {
	got := printRows(t, Table, 0, row{"ip:203.0.113.7", 1284, "scraping"}, row{"token:漢", 7, ""})
	const want = "" +
		"KEY             COUNT  NOTE\n" +
		"ip:203.0.113.7  1,284  scraping\n" +
		"token:漢            7\n"
	if got != want {
		t.Errorf("the table is\n%swant\n%s", got, want)
	}
}

func TestTableFitsTheTerminal(t *testing.T) {
	rows := []row{
		{"token:" + strings.Repeat("0123456789", 20) + "end", 1, "a note of some length, which goes first"},
		{"token:" + strings.Repeat("漢字", 60), 100000, ""},
		{"ip:203.0.113.7", 2, "short"},
	}
	for width := 24; width < 200; width++ {
		for _, line := range strings.Split(strings.TrimSuffix(printRows(t, Table, width, rows...), "\n"), "\n") {
			if w := runewidth.StringWidth(line); w > width {
				t.Fatalf("with a width of %d a line has %d columns: %q", width, w, line)
			}
		}
	}
}

func TestCutMiddle(t *testing.T) {
	if got, want := CutMiddle("token:0123456789abcdef", 11), "token:…cdef"; got != want {
		t.Errorf("CutMiddle = %q, want %q", got, want)
	}
	if got, want := CutMiddle("short", 5), "short"; got != want {
		t.Errorf("CutMiddle = %q, want %q", got, want)
	}
}

func TestCSVEscapesFormulas(t *testing.T) {
	got := printRows(t, CSV, 0, row{`=HYPERLINK("http://x")`, -5, "@SUM(A1)"}, row{"+1", 1, "-2"})
	const want = "key,n,note,only_csv\n" +
		`"'=HYPERLINK(""http://x"")",-5,'@SUM(A1),x` + "\n" +
		"'+1,1,'-2,x\n"
	if got != want {
		t.Errorf("the CSV is\n%swant\n%s", got, want)
	}
}

func TestEmptyListIsAnEmptyJSONArray(t *testing.T) {
	var out bytes.Buffer
	if err := List[row](&Printer{Out: &out, Format: JSON}, nil, rowColumns); err != nil {
		t.Fatal(err)
	}
	if out.String() != "[]\n" {
		t.Errorf("the JSON is %q, want []", out.String())
	}
}

func TestDocumentIsEscapedForTerminalsInAnyPieces(t *testing.T) {
	const text, want = "a\x1b[2J\tb\n\r\u202e漢\u009b\xff\n", "a\\x1b[2J\tb\n\\x0d\\u202e漢\\u009b\\xff\n"
	for at := range len(text) + 1 {
		var out bytes.Buffer
		w := (&Printer{Out: &out, Terminal: true}).Document()
		for _, part := range []string{text[:at], "", text[at:]} {
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatalf("wrote %d of %d bytes: %v", n, len(part), err)
			}
		}
		if out.String() != want {
			t.Errorf("Document, cut at byte %d: got %q, want %q", at, out.String(), want)
		}
	}
	var file bytes.Buffer
	if _, err := io.WriteString((&Printer{Out: &file}).Document(), text); err != nil || file.String() != text {
		t.Errorf("Document of a file: got %q, %v", file.String(), err)
	}
}

func TestFieldChangesAreEscaped(t *testing.T) {
	lines := wire.Lines([]wire.FieldChange{{Field: "mode\x1b[2J", Before: []string{"off"}, After: []string{"a\nb"}}}, Escape)
	if got, want := strings.Join(lines, "\n"), "- mode\\x1b[2J: off\n+ mode\\x1b[2J: a\\x0ab"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestColumnsFollowFromTheFields(t *testing.T) {
	type part struct {
		Size int `json:"size"`
	}
	type common struct {
		Name string `json:"name"`
	}
	type row struct {
		common
		Part   *part         `json:"part"`
		Active bool          `json:"active"`
		Tags   []string      `json:"tags"`
		Seen   wire.Time     `json:"seen_at"`
		Every  wire.Duration `json:"every"`
	}
	columns := Columns("name: Name (cut), size=part.size: Size (drop 2), active, tags: Tags, seen_at: Seen (drop 1 or never), every: Every, mark: Mark (right)",
		Cells[row]{"mark": func(r row) Cell { return Text(r.Name + "!") }})
	for i, want := range []Column[row]{
		{Name: "name", Head: "Name", Cut: true}, {Name: "size", Head: "Size", Right: true, Drop: 2}, {Name: "active"}, {Name: "tags", Head: "Tags"},
		{Name: "seen_at", Head: "Seen", Drop: 1}, {Name: "every", Head: "Every"}, {Name: "mark", Head: "Mark", Right: true},
	} {
		if got := columns[i]; got.Name != want.Name || got.Head != want.Head || got.Right != want.Right || got.Cut != want.Cut || got.Drop != want.Drop {
			t.Errorf("column %d is %+v, want %+v", i, got, want)
		}
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rows := []row{{common{"a"}, &part{1000}, true, []string{"x", "y"}, wire.At(at), wire.Duration(time.Minute)}, {common: common{"b"}}}
	var csv, table bytes.Buffer
	for _, p := range []*Printer{{Out: &csv, Format: CSV}, {Out: &table, Format: Table, Now: at}} {
		if err := List(p, rows, columns); err != nil {
			t.Fatal(err)
		}
	}
	if want := "name,size,active,tags,seen_at,every,mark\na,1000,true,x y,2026-01-02T03:04:05.000Z,1m,a!\nb,,false,,,,b!\n"; csv.String() != want {
		t.Errorf("the CSV is\n%s, want\n%s", csv.String(), want)
	}
	for _, want := range []string{"1,000", "never"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, table.String())
		}
	}
	for _, wrong := range []string{"title: Name", "part: Part"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("the columns %q are accepted", wrong)
				}
			}()
			Columns[row](wrong)
		}()
	}
}
