package blocklist_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rowfile"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

var defaults = blocklist.Defaults{Now: noon, Reason: "imported"}

// read returns the rows as "line pattern (reason) end", bad ones as
// "line: problem", and the error that ended them.
func read(text string, format blocklist.Format, d blocklist.Defaults) (rows []string, end error) {
	for row, err := range blocklist.Read(strings.NewReader(text), format, d) {
		var bad *rowfile.RowError
		switch {
		case errors.As(err, &bad):
			rows = append(rows, bad.Error())
		case err != nil:
			return rows, err
		case row.HasEnded:
			rows = append(rows, fmt.Sprintf("%d %s has ended", row.Line, row.Pattern))
		default:
			until := "permanent"
			if !row.Expires.IsZero() {
				until = row.Expires.Sub(noon).String()
			}
			rows = append(rows, fmt.Sprintf("%d %s (%s) %s", row.Line, row.Pattern, row.Reason, until))
		}
	}
	return rows, nil
}

func TestReadReturnsRowsWithTheirLines(t *testing.T) {
	for name, c := range map[string]struct {
		format blocklist.Format
		text   string
		want   []string
	}{
		"CSV with columns in any order": {blocklist.CSV, "Reason,pattern,expires_in,expires_at\r\nscraping,ip:203.0.113.7,1h,\r\n,token:a,,2026-01-01T13:00:00Z\r\n",
			[]string{"2 ip:203.0.113.7 (scraping) 1h0m0s", "3 token:a (imported) 1h0m0s"}},
		"CSV of a spreadsheet": {blocklist.CSV, "\xef\xbb\xbfpattern;reason\ntoken:a;\"x;\ny\"\ntoken:b;'=1+1\n",
			[]string{"line 2: the reason holds a control character or is not valid UTF-8", "4 token:b (=1+1) permanent"}},
		"CSV with bad rows": {blocklist.CSV, "pattern,reason\nip:10.1*,a\ntoken:a\ntoken:b,\"x\ntoken:c,d\"e,f\n", []string{
			`line 2: the pattern is not a network: a star would cut addresses between digits; you probably mean ip:10.1.0.0/16`,
			"line 3: it has 1 cells, and the header has 2",
			"line 4: it is not valid CSV: extraneous or missing \" in quoted-field",
		}},
		"a JSON list": {blocklist.JSON, "[\n {\"pattern\":\"token:a\"},\n\n {\"pattern\":\"token:b\",\"reason\":\"x\",\"id\":\"1\",\"expires_at\":null}, {\"pattern\":5},\n {\"patern\":\"x\"}, null]\n",
			[]string{"2 token:a (imported) permanent", "4 token:b (x) permanent", "line 4: the field pattern must be a string",
				"line 5: it has a field that a block does not have: patern", `line 5: it is not a block; write for example {"pattern":"ip:203.0.113.7","reason":"scraping"}`}},
		"CSV with the columns of an entry": {blocklist.CSV, "id,pattern,level,ended_at,ended_by,created_at\n1,token:a,2,2026-01-01T11:00:00Z,ann,2026-01-01T10:00:00Z\n",
			[]string{"2 token:a has ended"}},
		"JSON of what has ended":                   {blocklist.JSON, `[{"pattern":"token:a","expires_at":"2020-01-01T12:00:00Z","ended_at":"2019-01-01T12:00:00Z"},{"pattern":"token:b","ended_at":"yes"}]`, []string{"1 token:a has ended", `line 1: ended_at is "yes"; leave it out`}},
		"JSON with the fields of an entry":         {blocklist.JSON, `{"pattern":"token:a","level":2,"ended_at":null,"ended_by":null}`, []string{"1 token:a (imported) permanent"}},
		"CSV with kinds":                           {blocklist.CSV, "pattern,kind\ntoken:a,block\ntoken:b,exemption\ntoken:c,\ntoken:d,x\n", []string{"2 token:a (imported) permanent", "line 3: it is an exemption; an import adds blocks", "4 token:c (imported) permanent", `line 5: the kind is "x"`}},
		"JSON with kinds":                          {blocklist.JSON, `[{"pattern":"token:a","kind":"block"},{"pattern":"token:b","kind":"exemption","ended_at":"2019-01-01T12:00:00Z"}]`, []string{"1 token:a (imported) permanent", "line 1: it is an exemption"}},
		"JSON lines":                               {blocklist.JSON, "{\"pattern\":\"token:a\"}\n{\"pattern\":\"token:b\"}\n", []string{"1 token:a (imported) permanent", "2 token:b (imported) permanent"}},
		"an empty JSON":                            {blocklist.JSON, "", nil},
		"an empty list":                            {blocklist.JSON, "[]", nil},
		"a row after the last year":                {blocklist.CSV, "pattern,expires_at\ntoken:a,9999-12-31T23:59:59-05:00\n", []string{"line 2: expires_at is after the year 9999 in UTC; leave it out for permanent"}},
		"an ended row":                             {blocklist.JSON, `[{"pattern":"token:a","expires_at":"2026-01-01T12:00:00Z"}]`, []string{"line 1: it ended already, at 2026-01-01T12:00:00Z"}},
		"CSV with an open quote":                   {blocklist.CSV, "pattern,reason\ntoken:a,\"x\ntoken:b,y\ntoken:c,z\n", []string{"line 2: it is not valid CSV: extraneous or missing \" in quoted-field; its quote is open to line 4, and no row up to there was read"}},
		"CSV with a quote that a later row closes": {blocklist.CSV, "pattern,reason\ntoken:a,\"x\ntoken:b,y\ntoken:c,z\"\ntoken:d,w\n", []string{"line 2: the reason holds a control character or is not valid UTF-8; its quote is open to line 4, and no row up to there was read", "5 token:d (w) permanent"}},
		"CSV with a quote and too many cells":      {blocklist.CSV, "pattern,reason\ntoken:a,\"x\ntoken:b,y\",z\n", []string{"line 2: it has 3 cells, and the header has 2; its quote is open to line 3, and no row up to there was read"}},
		"CSV with a stray quote":                   {blocklist.CSV, "pattern,reason\ntoken:a,x\"\ntoken:b,y\n", []string{"line 2: it is not valid CSV: bare \" in non-quoted-field", "3 token:b (y) permanent"}},
		"CSV of an older export":                   {blocklist.CSV, "pattern,expires_at,id\ntoken:a,2026-01-01T12:00:00Z,1\ntoken:b,2026-01-01T12:00:01Z,2\n", []string{"2 token:a has ended", "3 token:b (imported) 1s"}},
		"JSON of an older export":                  {blocklist.JSON, `[{"pattern":"token:a","expires_at":"2026-01-01T12:00:00Z","id":"1"},{"pattern":"token:b","expires_at":"2026-01-01T12:00:00Z","id":null}]`, []string{"1 token:a has ended", "line 1: it ended already"}},
		"two ends":                                 {blocklist.JSON, `[{"pattern":"token:a","expires_at":"2026-01-01T12:00:00Z","expires_in":"1h"}]`, []string{"line 1: expires_at and expires_in cannot be combined; write one of them"}},
		"a bad end":                                {blocklist.JSON, `[{"pattern":"token:a","expires_in":"soon"}]`, []string{`line 1: expires_in: the duration "soon" has no number where one is due; write for example 24h, 7d or 1h30m`}},
		"a list of a feed":                         {blocklist.Plain, "; Spamhaus\n# list\n\n1.10.16.0/20 ; SBL256894\n203.0.113.7\n2001:db8::1\n  token:a\t# why # so\n", []string{"4 ip:1.10.16.0/20 (SBL256894) permanent", "5 ip:203.0.113.7 (imported) permanent", "6 ip:2001:db8::/64 (imported) permanent", "7 token:a (why # so) permanent"}},
		"quoted patterns":                          {blocklist.Plain, "\"token:a # b\" # c\n\"#x\"\n\"token:a\n\"token:a\" b\n", []string{"1 token:a # b (c) permanent", "2 #x (imported) permanent", `line 3: it begins with a quote and is not a JSON string; write for example "token:a # b"`, `line 4: it begins with a quote and is not a JSON string; write for example "token:a # b"`}},
		"a slip in an address":                     {blocklist.Plain, "10.9.0.999\n\"user-1\"\n*\n", []string{`line 1: the pattern looks like an IPv4 address and is none: 999 is above 255`, "2 user-1 (imported) permanent", "3 * (imported) permanent"}},
		"a plan":                                   {blocklist.Plain, "plan:gold\n", []string{`line 1: the pattern names a plan; only policies select keys by their plan, so block the keys themselves`}},
		"CSV that CrowdSec imports": {blocklist.CSV, "duration,scope,value,reason\n24h,ip,192.0.2.55,tor exit\n24h,range,198.51.100.0/24,spam\n,as,64500,\n,Country,RU,\n4h,username,mallory,\n",
			[]string{"2 ip:192.0.2.55 (tor exit) 24h0m0s", "3 ip:198.51.100.0/24 (spam) 24h0m0s", "4 asn:64500 (imported) permanent", "5 country:RU (imported) permanent", `line 6: the pattern has the kind "username", which neither`}},
		"JSON that CrowdSec imports": {blocklist.JSON, `[{"duration":"4h","scope":"ip","value":"192.0.2.55","type":"ban","reason":"x"},{"value":"192.0.2.56","type":"captcha"},{"value":"192.0.2.57","pattern":"token:a"},{"pattern":"token:a","duration":"4h"}]`,
			[]string{"1 ip:192.0.2.55 (x) 4h0m0s", `line 1: its type is "captcha", and only bans are imported`, "line 1: pattern and value cannot be combined", "line 1: it has a duration or type without a value"}},
		"ranges as firewalls print them": {blocklist.Plain, "# ranges\n192.0.2.0-192.0.2.255\n198.51.100.96 - 198.51.100.105 # x\n",
			[]string{"2 ip:192.0.2.0/24 (imported) permanent", "3 ip:198.51.100.96/29 (x) permanent", "3 ip:198.51.100.104/31 (x) permanent"}},
		"CSV that says what is literal": {blocklist.CSV, "pattern,literal\nsshd: 192.0.2.55,true\nsshd: 192.0.2.55,false\nsshd: 192.0.2.55,perhaps\n192.0.2.55,\n\"192.0.2.1, 192.0.2.2\",\n",
			[]string{"2 sshd: 192.0.2.55 (imported) permanent", `line 3: the pattern has an address behind "sshd:"; write ip:192.0.2.55`, `line 4: literal is "perhaps"; write true or false`, "5 ip:192.0.2.55", "6 ip:192.0.2.1 ", "6 ip:192.0.2.2 "}},
		"JSON that says what is literal": {blocklist.JSON, `[{"pattern":"fd12:7","literal":true},{"pattern":"fd12:7","literal":false},{"pattern":"192.0.2.55"}]`,
			[]string{"1 fd12:7 (imported) permanent", `line 1: the pattern has the kind "fd12", which neither`, "1 ip:192.0.2.55"}},
		"rows of an export, also of kinds that are not in use": {blocklist.CSV, "pattern,id\nfd12:7,01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933\nfd12:7,7\n", []string{"2 fd12:7 ", `line 3: the pattern has the kind "fd12"`}},
		"bits of the hosts": {blocklist.Plain, "203.0.113.7/24\n", []string{`line 1: the pattern has bits set behind its /24; write ip:203.0.113.0/24 `}},
	} {
		got, err := read(c.text, c.format, defaults)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], c.want[i]) {
				t.Errorf("%s: got %q, want %q", name, got[i], c.want[i])
			}
		}
	}
}

// malformed are addresses in a block list that once became active blocks of the kinds fd12, ab,
// sshd and https.
const malformed = "fd00:db8::zz\nfd12:3456:789a::1/129\nfe80::1%eth0\nab:cd:ef:01:02:03\nfe80:1:2:3\nsshd: 192.0.2.55\nexample.org:443\nhttps://malware.example/path\nevil.example\n"

func TestMalformedAddressesAreRefusedInEveryFormat(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(malformed), "\n")
	var objects []string
	for _, line := range lines {
		objects = append(objects, fmt.Sprintf("{\"pattern\":%q}", line))
	}
	for format, text := range map[blocklist.Format]string{
		blocklist.Plain: malformed, blocklist.CSV: "pattern\n" + malformed, blocklist.JSON: strings.Join(objects, "\n"),
	} {
		rows, err := read(text, format, defaults)
		if err != nil || len(rows) != len(lines) {
			t.Errorf("%s: %q, %v", format, rows, err)
		}
		for i, row := range rows {
			_, problem, refused := strings.Cut(row, ": ")
			if _, want := (keys.Reading{}).Patterns(lines[i]); want == nil || !refused || problem != want.Error() {
				t.Errorf("%s: %s: %q, want the refusal %v", format, lines[i], row, want)
			}
		}
	}
}

func TestErrorsOfJSONNameTheKindWithItsArticle(t *testing.T) {
	exemptions := defaults
	exemptions.Kind = blocks.Exemption
	rows, _ := read(`[{"patern":"x"},5]`, blocklist.JSON, exemptions)
	if len(rows) != 2 || rows[0] != "line 1: it has a field that an exemption does not have: patern" || !strings.HasPrefix(rows[1], "line 1: it is not an exemption; ") {
		t.Errorf("got %q", rows)
	}
}

func TestReadStopsAtFileErrorsAndNamesTheLine(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	for name, c := range map[string]struct {
		format     blocklist.Format
		text, want string
	}{
		"CSV without a header":          {blocklist.CSV, "", "line 1: there is no header"},
		"CSV with another header":       {blocklist.CSV, "ip,reason\n", `line 1: the header has the column "ip"`},
		"CSV without the patterns":      {blocklist.CSV, "reason\n", "line 1: the header has no column pattern"},
		"CSV with a column twice":       {blocklist.CSV, "pattern,Pattern\n", "line 1: the header has the column pattern twice"},
		"a quote that is left open":     {blocklist.CSV, "pattern\ntoken:a\n\"" + long, "longer than 1 MiB"},
		"half a JSON":                   {blocklist.JSON, "[\n{\"pattern\":\"token:a\"},\n{\"pat", "line 3: the file ends in the middle of its JSON"},
		"a list that is left open":      {blocklist.JSON, "[{\"pattern\":\"token:a\"}", "line 1: the file ends in the middle of its JSON"},
		"no JSON":                       {blocklist.JSON, "[\n\npattern]", "line 3: it is not valid JSON"},
		"a field twice":                 {blocklist.JSON, "[{\"pattern\":\"token:a\",\"pattern\":\"token:b\"}]", "line 1: a field is given twice"},
		"something after the list":      {blocklist.JSON, "[]\n[]", "line 2: something follows the list"},
		"a JSON text that is left open": {blocklist.JSON, "[{\"pattern\":\"" + long, "longer than 1 MiB"},
		"a line without an end":         {blocklist.Plain, "token:a\n" + long, "line 2: the row is longer than 1 MiB"},
	} {
		_, err := read(c.text, c.format, defaults)
		var file *rowfile.FileError
		if !errors.As(err, &file) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

var errBroken = errors.New("the connection broke")

func TestReadReturnsTheErrorOfItsReader(t *testing.T) {
	for _, format := range []blocklist.Format{blocklist.CSV, blocklist.JSON, blocklist.Plain} {
		start := map[blocklist.Format]string{blocklist.CSV: "pattern\n", blocklist.JSON: "["}[format]
		from := io.MultiReader(strings.NewReader(start), brokenReader{})
		var last error
		for _, err := range blocklist.Read(from, format, defaults) {
			last = err
		}
		if !errors.Is(last, errBroken) {
			t.Errorf("%s: got %v, want the error of the reader", format, last)
		}
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

// hostileText draws texts that keys and reasons may contain.
var hostileText = rapid.StringOfN(rapid.RuneFrom([]rune("aZ0 =+-@'\"#;,\\|<>&%éß\u202e＝\u00a0\u2028")), 1, 20, -1)

func TestWrittenEntriesAreReadBack(t *testing.T) {
	for _, format := range []blocklist.Format{blocklist.CSV, blocklist.JSON, blocklist.Plain} {
		t.Run(string(format), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var want []blocks.Entry
				for range rapid.IntRange(0, 5).Draw(t, "blocks") {
					text := "token:" + strings.NewReplacer(`\`, `\\`).Replace(hostileText.Draw(t, "key")) // spaces at the end too
					if rapid.Bool().Draw(t, "whole") {
						text = strings.TrimPrefix(text, "token:")
					}
					p, err := keys.Parser{}.Pattern(text)
					if err != nil {
						continue
					}
					b := blocks.Entry{ID: uuid.NewString(), Kind: blocks.Block, Pattern: p, Reason: strings.TrimSpace(hostileText.Draw(t, "reason")) + ".", Author: "=ann"}
					if rapid.Bool().Draw(t, "ends") {
						b.Expires = noon.Add(time.Hour)
					}
					want = append(want, b)
				}
				var file bytes.Buffer
				w := blocklist.NewWriter(&file, format)
				for i := range want {
					if err := w.Write(&want[i], nil); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				i := 0
				for row, err := range blocklist.Read(bytes.NewReader(file.Bytes()), format, blocklist.Defaults{Now: noon}) {
					if err != nil || i >= len(want) || row.Pattern != want[i].Pattern {
						t.Fatalf("row %d: got %+v, %v in\n%s", i, row, err, file.String())
					}
					if format != blocklist.Plain && (row.Reason != want[i].Reason || !row.Expires.Equal(want[i].Expires)) {
						t.Fatalf("got %+v, want %+v in\n%s", row, want[i], file.String())
					}
					i++
				}
				if i != len(want) {
					t.Fatalf("read %d of %d rows of\n%s", i, len(want), file.String())
				}
			})
		})
	}
}

// TestExportedExemptionsAreNoBlocks ensures that moving exemptions to another installation by an
// export and an import does not block those who are exempt.
func TestExportedExemptionsAreNoBlocks(t *testing.T) {
	p, err := keys.Parser{}.Pattern("ip:203.0.113.7")
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []blocklist.Format{blocklist.CSV, blocklist.JSON} {
		var file bytes.Buffer
		w := blocklist.NewWriter(&file, format)
		for range 2 {
			if err := w.Write(&blocks.Entry{Kind: blocks.Exemption, Pattern: p, Reason: "ours"}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := read(file.String(), format, defaults)
		if err != nil || len(got) != 2 || !strings.Contains(got[0], "it is an exemption") || !strings.Contains(got[1], "it is an exemption") {
			t.Errorf("%s: read back %q, %v from %s", format, got, err, file.String())
		}
	}
}

// TestAnImportOfExemptionsReadsExemptionsOnly ensures that an export of blocks, which says of no
// row that it is one, does not exempt those who are blocked.
func TestAnImportOfExemptionsReadsExemptionsOnly(t *testing.T) {
	p, err := keys.Parser{}.Pattern("ip:203.0.113.7")
	if err != nil {
		t.Fatal(err)
	}
	exemptions := defaults
	exemptions.Kind = blocks.Exemption
	for _, format := range []blocklist.Format{blocklist.CSV, blocklist.JSON} {
		for kind, want := range map[blocks.Kind]string{blocks.Exemption: "ip:203.0.113.7", blocks.Block: "as an exported block"} {
			var file bytes.Buffer
			w := blocklist.NewWriter(&file, format)
			if err := errors.Join(w.Write(&blocks.Entry{ID: "0190b8a2-7c4e-7cc3-98c4-dc0c0c07398f", Kind: kind, Pattern: p, Reason: "ours"}, nil), w.Close()); err != nil {
				t.Fatal(err)
			}
			got, err := read(file.String(), format, exemptions)
			if err != nil || len(got) != 1 || !strings.Contains(got[0], want) {
				t.Errorf("%s of %ss: read back %q, %v from %s", format, kind, got, err, file.String())
			}
		}
	}
	got, err := read("pattern,kind,scope\ntoken:a,,\ntoken:b,exemption,\ntoken:c,block,\ntoken:d,,login\ntoken:e,ban,\nplan:gold,,\n", blocklist.CSV, exemptions)
	for n, want := range []string{"token:a", "token:b", "it is a block", "the scope is possible for blocks only", "or write exemption", "names a plan"} {
		if err != nil || len(got) != 6 || !strings.Contains(got[n], want) {
			t.Fatalf("row %d: got %q, %v, want %q", n, got, err, want)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for format, line := range map[blocklist.Format]string{
		blocklist.CSV: "ip:10.1.2.3,scraping,2027-01-01T00:00:00Z\n", blocklist.JSON: `{"pattern":"ip:10.1.2.3","reason":"scraping"}` + "\n", blocklist.Plain: "10.1.2.3\n",
	} {
		b.Run(string(format), func(b *testing.B) {
			text := strings.Repeat(line, 10_000)
			if format == blocklist.CSV {
				text = "pattern,reason,expires_at\n" + text
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range blocklist.Read(strings.NewReader(text), format, defaults) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.N*10_000)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
