package accesslog_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/keys"
)

// read reads a log to its end.
func read(t testing.TB, log string, o accesslog.Options) ([]accesslog.Record, accesslog.Counts) {
	t.Helper()
	reader, err := accesslog.NewReader(strings.NewReader(log), "", o)
	if err != nil {
		t.Fatal(err)
	}
	return drain(t, reader), reader.Counts()
}

func drain(t testing.TB, source accesslog.Source) []accesslog.Record {
	t.Helper()
	var records []accesslog.Record
	for {
		record, err := source.Next()
		if errors.Is(err, io.EOF) {
			return records
		}
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, record)
	}
}

// instant is the time in every line below.
var instant = time.Date(2026, 1, 31, 22, 5, 3, 0, time.UTC).UnixMilli()

const common = `192.0.2.1 - - [31/Jan/2026:23:05:03 +0100] "GET / HTTP/1.1" 200 512`

func TestReaderReadsEachFormat(t *testing.T) {
	for _, test := range []struct {
		name, log string
		options   accesslog.Options
		time      int64
		key       string
		cost      int
	}{
		{"Common Log Format", common, accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"no bytes sent", `192.0.2.1 - - [31/Jan/2026:23:05:03 +0100] "GET / HTTP/1.1" 304 -`, accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"Combined Log Format", common + ` "https://example.com/" "curl/8"`, accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"a CRLF line end", common + "\r\n", accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"a byte order mark", "\ufeff" + common, accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"a zone west of Greenwich", `192.0.2.1 - - [31/Jan/2026:17:35:03 -0430] "GET / HTTP/1.1" 200 512`, accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"an IPv6 client", `2001:db8::7 - - [31/Jan/2026:22:05:03 +0000] "GET / HTTP/1.1" 200 1`, accesslog.Options{}, instant, "ip:2001:db8::/64", 1},
		{"an IPv4 client in IPv6 notation", `::ffff:192.0.2.1 - - [31/Jan/2026:22:05:03 +0000] "GET / HTTP/1.1" 200 1`, accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"an empty request", `192.0.2.1 - - [31/Jan/2026:22:05:03 +0000] "-" 408 0 "-" "-"`, accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"a request with bare quotes", `192.0.2.1 - - [31/Jan/2026:22:05:03 +0000] "GET /?q="a" HTTP/1.1" 400 0`, accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"a user that forges a time", `192.0.2.1 - [01/Jan/1999:00:00:00 +0000] \"x\" [31/Jan/2026:22:05:03 +0000] "GET / HTTP/1.1" 401 0`, accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"a user with brackets and spaces", `192.0.2.1 - a [01/Jan/1999:00:00:00 +0000] b [31/Jan/2026:22:05:03 +0000] "GET / HTTP/1.1" 401 0`, accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"keyed by user", `192.0.2.1 - alice smith [31/Jan/2026:22:05:03 +0000] "GET / HTTP/1.1" 200 0`, accesslog.Options{Key: "user"}, instant, "user:alice smith", 1},
		{"keyed by user agent", common + ` "-" "a \"quoted\" bot"`, accesslog.Options{Key: "user_agent", Kind: "agent"}, instant, `agent:a \"quoted\" bot`, 1},
		{"keyed by referer", common + ` "https://example.com/" "curl/8"`, accesslog.Options{Key: "referer"}, instant, "referer:https://example.com/", 1},

		{"JSON with RFC 3339", `{"time":"2026-01-31T23:05:03+01:00","remote_addr":"192.0.2.1"}`, accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"JSON with a fraction", `{"@timestamp":"2026-01-31T22:05:03.25Z","client_ip":"192.0.2.1","cost":5}`, accesslog.Options{}, instant + 250, "ip:192.0.2.1", 5},
		{"JSON of Caddy", `{"level":"info","ts":1769897103.0,"request":{"remote_ip":"10.0.0.1","client_ip":"192.0.2.1","headers":{"ip":["x"]}}}`, accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"JSON with milliseconds", `{"ts":1769897103007,"ip":"192.0.2.1"}`, accesslog.Options{}, instant + 7, "ip:192.0.2.1", 1},
		{"JSON with microseconds", `{"ts":1769897103007123,"ip":"192.0.2.1"}`, accesslog.Options{}, instant + 7, "ip:192.0.2.1", 1},
		{"JSON with nanoseconds", `{"ts":1769897103007123456,"ip":"192.0.2.1"}`, accesslog.Options{}, instant + 7, "ip:192.0.2.1", 1},
		{"JSON with seconds as text", `{"msec":"1769897103.007","ip":"192.0.2.1"}`, accesslog.Options{}, instant + 7, "ip:192.0.2.1", 1},
		{"JSON whose key is a key", `{"time":"2026-01-31T22:05:03Z","key":"token:abc"}`, accesslog.Options{Key: "key"}, instant, "token:abc", 1},
		{"JSON with fields named", `{"when":"2026-01-31T22:05:03Z","ip":"192.0.2.1","user":{"token":"abc"},"weight":3}`, accesslog.Options{Time: "when", Key: "user.token", Kind: "token", Cost: "weight"}, instant, "token:abc", 3},
		{"JSON with a kind from its field", `{"time":"2026-01-31T22:05:03Z","Api-Key":"abc"}`, accesslog.Options{Key: "api-key"}, instant, "api-key:abc", 1},
		{"JSON with null for the best field", `{"time":"2026-01-31T22:05:03Z","remote_addr":null,"client_ip":"192.0.2.1"}`, accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"JSON with invalid UTF-8 in another field", "{\"time\":\"2026-01-31T22:05:03Z\",\"ip\":\"192.0.2.1\",\"agent\":\"\xff\"}", accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"JSON with a port behind the address", `{"time":"2026-01-31T22:05:03Z","client":"192.0.2.1:4711"}`, accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"JSON with a port behind an IPv6 address", `{"time":"2026-01-31T22:05:03Z","client":"[2001:db8::7]:4711"}`, accesslog.Options{}, instant, "ip:2001:db8::/64", 1},

		{"CSV", "time,path,client_ip,cost\n2026-01-31T22:05:03Z,\"/a,b\",192.0.2.1,2", accesslog.Options{}, instant, "ip:192.0.2.1", 2},
		{"CSV without zones", "timestamp,ip\n2026-01-31 22:05:03.5,192.0.2.1", accesslog.Options{}, instant + 500, "ip:192.0.2.1", 1},
		{"CSV with semicolons", "Time;Key\n2026-01-31T22:05:03Z;token:a,b", accesslog.Options{Key: "key"}, instant, "token:a,b", 1},
		{"CSV with tabs", "time\tip\n31/Jan/2026:23:05:03 +0100\t192.0.2.1", accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"CSV with quotes in a value", "time,ip,agent\n2026-01-31T22:05:03Z,192.0.2.1,\"a \"\"b\"\"\"", accesslog.Options{}, instant, "ip:192.0.2.1", 1},
		{"CSV with columns named", "when,who,n\n1769897103,abc,7", accesslog.Options{Time: "when", Key: "who", Kind: "token", Cost: "n"}, instant, "token:abc", 7},
		{"CSV with an empty cost", "time,ip,cost\n1769897103,192.0.2.1,", accesslog.Options{}, instant, "ip:192.0.2.1", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			records, counts := read(t, test.log, test.options)
			if len(records) != 1 || counts.Bad != 0 {
				t.Fatalf("read %d records, bad lines: %+v", len(records), counts.First)
			}
			if r := records[0]; r.Time != test.time || r.Key.String() != test.key || r.Cost != test.cost {
				t.Errorf("read %d %s %d, want %d %s %d", r.Time, r.Key, r.Cost, test.time, test.key, test.cost)
			}
		})
	}
}

func TestBadLineIsCountedWithTheReason(t *testing.T) {
	jsonLine := `{"time":"2026-01-31T22:05:03Z","ip":"192.0.2.1"}`
	csvHead := "time,ip,cost\n1769897103,192.0.2.1,1"
	for _, test := range []struct{ name, good, bad, why string }{
		{"one word", common, "garbage", "no space after the client"},
		{"no request", common, "192.0.2.1 - - [31/Jan/2026:23:05:03 +0100]", "no quoted request"},
		{"no time", common, `192.0.2.1 - - "GET / HTTP/1.1" 200 1`, "no [time]"},
		{"a month that does not exist", common, strings.Replace(common, "Jan", "Jam", 1), "not written 02/Jan/2006"},
		{"the 31st of April", common, strings.Replace(common, "Jan", "Apr", 1), "not written 02/Jan/2006"},
		{"the 24th hour", common, strings.Replace(common, ":23:", ":24:", 1), "not written 02/Jan/2006"},
		{"a year before 1970", common, strings.Replace(common, "2026", "1969", 1), "years 1970 to 9999"},
		{"a truncated line", common, common[:60], "no status"},
		{"no status", common, strings.Replace(common, " 200", " OK", 1), "no status"},
		{"a line without an end", common, "192.0.2.1 " + strings.Repeat("x", 9<<20), "longer than 8388608 bytes"},

		{"no object", jsonLine, `[1]`, "not one JSON object"},
		{"two objects", jsonLine, jsonLine + jsonLine, "not one JSON object"},
		{"half an object", jsonLine, jsonLine[:30], "ends in its middle"},
		{"broken JSON", jsonLine, `{"time" 1}`, "broken after byte"},
		{"no time in the object", jsonLine, `{"ip":"192.0.2.1"}`, "no field for the time"},
		{"no key in the object", jsonLine, `{"time":1769897103}`, "no field for the key"},
		{"a key that is a number", jsonLine, `{"time":1769897103,"ip":7}`, "not a string"},
		{"an empty key", jsonLine, `{"time":1769897103,"ip":""}`, "is empty"},
		{"a time twice", jsonLine, `{"time":1,"time":2,"ip":"192.0.2.1"}`, "twice"},
		{"a time that is no time", jsonLine, `{"time":"noon","ip":"192.0.2.1"}`, "RFC 3339"},
		{"a time that is an object", jsonLine, `{"time":{},"ip":"192.0.2.1"}`, "RFC 3339"},
		{"a time before 1970", jsonLine, `{"time":-1,"ip":"192.0.2.1"}`, "years 1970 to 9999"},
		{"a huge time", jsonLine, `{"time":1e300,"ip":"192.0.2.1"}`, "years 1970 to 9999"},
		{"a cost of 0", jsonLine, `{"time":1,"ip":"192.0.2.1","cost":0}`, "cost is not a whole number"},
		{"a cost in quotes", jsonLine, `{"time":1,"ip":"192.0.2.1","cost":"2"}`, "cost is not a whole number"},
		{"a huge cost", jsonLine, `{"time":1,"ip":"192.0.2.1","cost":1000000000000001}`, "cost is not a whole number"},

		{"too few values", csvHead, "1769897103", "1 values where the header has 3"},
		{"too many values", csvHead, "1769897103,192.0.2.1,1,2", "4 values where the header has 3"},
		{"a quote that never closes", csvHead, `1769897103,"192.0.2.1,1`, `extraneous or missing "`},
		{"a quote in a bare value", csvHead, `1769897103,192.0."2.1,1`, `bare "`},
		{"no time in the row", csvHead, ",192.0.2.1,1", "time is empty"},
		{"a fraction of a cost", csvHead, "1769897103,192.0.2.1,1.5", "cost is not a whole number"},
		{"a dash for the key", csvHead, "1769897103,-,1", "key is empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			last := test.good[strings.LastIndexByte(test.good, '\n')+1:]
			records, counts := read(t, test.good+"\n\n"+test.bad+"\n"+last, accesslog.Options{})
			if len(records) != 2 || counts.Records != 2 || counts.Bad != 1 || len(counts.First) != 1 || counts.Lines != 3 {
				t.Fatalf("read %d records, got the counts %+v", len(records), counts)
			}
			bad := counts.First[0]
			if want := int64(strings.Count(test.good, "\n") + 3); bad.Line != want {
				t.Errorf("the bad line is number %d, want %d", bad.Line, want)
			}
			if !strings.Contains(bad.Why, test.why) {
				t.Errorf("the reason is %q, want one with %q", bad.Why, test.why)
			}
		})
	}
}

func TestFirstBadLinesAreKeptEscaped(t *testing.T) {
	log := common + "\n" + strings.Repeat("\x1b[31m\u202e"+strings.Repeat("x", 500)+"\n", 25)
	_, counts := read(t, log, accesslog.Options{MaxBad: 3})
	if counts.Bad != 25 || len(counts.First) != 3 {
		t.Fatalf("counted %d and kept %d bad lines, want 25 and 3", counts.Bad, len(counts.First))
	}
	text := counts.First[0].Text
	if !strings.HasPrefix(text, `"\x1b[31m\u202exxx`) || len(text) > 200 {
		t.Errorf("the bad line is shown as %s", text)
	}
}

func TestUnknownFormatIsRefused(t *testing.T) {
	for name, log := range map[string]string{
		"prose":                           "hello\nworld\n",
		"CSV without known names":         "a,b\n1,2\n",
		"binary data":                     "\x00\x01\x02\x03",
		"a first line that never ends":    strings.Repeat("x", 1<<20),
		"a gzip header without gzip data": "\x1f\x8bnot gzip",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := accesslog.NewReader(strings.NewReader(log), "a\nb.log", accesslog.Options{}); err == nil {
				t.Error("there is no error")
			} else if !strings.HasPrefix(err.Error(), `"a\nb.log": `) {
				t.Errorf("the error does not begin with the escaped name: %v", err)
			}
		})
	}
}

func TestBadOptionErrorsSayWhatIsAllowed(t *testing.T) {
	for _, test := range []struct {
		name, log string
		options   accesslog.Options
		want      string
	}{
		{"a bad kind", common, accesslog.Options{Kind: "No"}, "a kind starts with a-z"},
		{"a field that CLF lacks", common, accesslog.Options{Key: "path"}, "remote_addr, user, referer, user_agent or x_forwarded_for"},
		{"a column that is not there", "time,ip\n", accesslog.Options{Format: accesslog.CSV, Key: "token"}, `no column "token" for the key`},
		{"a cost column that is not there", "time,ip\n", accesslog.Options{Format: accesslog.CSV, Cost: "n"}, `no column "n" for the cost`},
		{"no time column", "a,ip\n", accesslog.Options{Format: accesslog.CSV}, "no column for the time"},
		{"an empty CSV", "\n\n", accesslog.Options{Format: accesslog.CSV}, "no line of column names"},
		{"a column that makes no kind", "time,3d\n", accesslog.Options{Format: accesslog.CSV, Key: "3d"}, "name a kind"},
		{"an unknown format", common, accesslog.Options{Format: "xml"}, "write auto, common, combined, json, csv, w3c"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := accesslog.NewReader(strings.NewReader(test.log), "", test.options)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestFormatIsDetected(t *testing.T) {
	for log, want := range map[string]accesslog.Format{
		common:                               accesslog.CLF,
		"cut at the top\n" + common:          accesslog.CLF,
		"\n\n {\"time\":1,\"ip\":\"::1\"}":   accesslog.JSON,
		"TIME,\"Remote_Addr\"\n":             accesslog.CSV,
		"":                                   accesslog.CLF,
		"half an obj\"}\n{\"ip\":\"::1\"}\n": accesslog.JSON,
	} {
		reader, err := accesslog.NewReader(strings.NewReader(log), "", accesslog.Options{})
		if err != nil {
			t.Errorf("%q: %v", log, err)
		} else if reader.Format() != want {
			t.Errorf("Format of %q: got %s, want %s", log, reader.Format(), want)
		}
	}
	for text, want := range map[string]accesslog.Format{"": accesslog.Auto, "Combined": accesslog.CLF, "common": accesslog.CLF, "jsonl": accesslog.JSON, "csv": accesslog.CSV} {
		if got, err := accesslog.ParseFormat(text); err != nil || got != want {
			t.Errorf("ParseFormat(%q): got %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := accesslog.ParseFormat("xml"); err == nil {
		t.Error("ParseFormat(xml): got no error")
	}
}

func pack(t testing.TB, texts ...string) []byte {
	t.Helper()
	var packed bytes.Buffer
	for _, text := range texts {
		out := gzip.NewWriter(&packed)
		if _, err := io.WriteString(out, text); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return packed.Bytes()
}

func TestGzipIsDetectedByItsFirstBytes(t *testing.T) {
	reader, err := accesslog.NewReader(bytes.NewReader(pack(t, common+"\n", common+"\n")), "", accesslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if records := drain(t, reader); len(records) != 2 {
		t.Errorf("read %d records of two gzip members, want 2", len(records))
	}
}

// gzip(1) skips trailing zeros too, and warns of other data behind the last member.
func TestDataBehindTheEndOfGzipLosesNoLine(t *testing.T) {
	one, zeros := pack(t, common+"\n"), make([]byte, 100_000)
	folder := t.TempDir()
	var paths []string
	for i, log := range [][]byte{
		slices.Concat(one, zeros),
		slices.Concat(one, zeros, one),
		slices.Concat(one, []byte("garbage\n")),
		slices.Concat(one, zeros, []byte{0x1f}),
	} {
		paths = append(paths, filepath.Join(folder, fmt.Sprintf("%d\n.gz", i)))
		if err := os.WriteFile(paths[i], log, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := accesslog.OpenFiles(paths, accesslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	records := drain(t, files)
	counts, want := files.Counts(), []string{
		fmt.Sprintf("%q: what follows the gzip data, from byte %d on, is no gzip data and was ignored", paths[2], len(one)),
		fmt.Sprintf("%q: what follows the gzip data, from byte %d on, is no gzip data and was ignored", paths[3], len(one)+len(zeros)),
	}
	if len(records) != 5 || counts.Lines != 5 || counts.Bad != 0 || !slices.Equal(counts.Warnings, want) {
		t.Errorf("%d records of 5; %+v, want the warnings %q", len(records), counts, want)
	}
}

func TestTruncatedGzipErrorNamesTheLastLine(t *testing.T) {
	var log strings.Builder
	for i := range 20_000 {
		log.WriteString(strings.Replace(common, "/ ", "/"+string(rune('a'+i*i%26)), 1) + "\n")
	}
	packed := pack(t, log.String())
	reader, err := accesslog.NewReader(bytes.NewReader(packed[:len(packed)-20]), "cut.gz", accesslog.Options{Format: accesslog.CLF})
	for err == nil {
		_, err = reader.Next()
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), `"cut.gz": the gzip data ends in its middle, after line`) {
		t.Errorf("the error is %v", err)
	}
}

func TestFilesAreReadByTimeEachInItsFormat(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	paths := []string{
		write("a.log", []byte(common+"\nbad\n")),
		write("b.json.gz", pack(t, `{"time":1,"ip":"192.0.2.2"}`+"\nbad\n")),
		write("empty.log", nil),
	}
	files, err := accesslog.OpenFiles(paths, accesslog.Options{MaxBad: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if records := drain(t, files); len(records) != 2 || records[0].Key.String() != "ip:192.0.2.2" {
		t.Errorf("got the records %v", records)
	}
	counts := files.Counts()
	if counts.Lines != 4 || counts.Bad != 2 || len(counts.First) != 1 || counts.First[0].File != paths[1] {
		t.Errorf("got the counts %+v", counts)
	}
	if read, total := files.Progress(); read != total || total == 0 {
		t.Errorf("Progress: got %d of %d bytes", read, total)
	}
}

func TestZerosBeforeTheFirstLineAreSkipped(t *testing.T) {
	const line = "192.0.2.1 - - [20/Nov/2026:14:03:14 +0000] \"GET / HTTP/1.1\" 200 1\n"
	for _, zeros := range []int{1, 100_000, accesslog.MaxLine + 1} {
		reader, err := accesslog.NewReader(strings.NewReader(strings.Repeat("\x00", zeros)+line), "access.log", accesslog.Options{})
		if err != nil {
			t.Fatalf("NewReader of a log with %d zeros: %v", zeros, err)
		}
		if r, err := reader.Next(); err != nil || r.Key.String() != "ip:192.0.2.1" {
			t.Errorf("Next behind %d zeros: got %v, %v, bad %+v", zeros, r, err, reader.Counts().First)
		}
	}
}

func TestOpenFilesRejectsUnreadableFiles(t *testing.T) {
	for name, paths := range map[string][]string{
		"none": nil, "one that is not there": {filepath.Join(t.TempDir(), "none.log")}, "a folder": {t.TempDir()},
	} {
		if _, err := accesslog.OpenFiles(paths, accesslog.Options{}); err == nil {
			t.Errorf("OpenFiles of %s: got no error", name)
		}
	}
}

func TestFullKeyParsesToTheSameKey(t *testing.T) {
	for _, bits := range []int{0, 48, 128} {
		parser := keys.Parser{IPv6Bits: bits}
		for _, text := range []string{"ip:192.0.2.1", "ip:2001:db8::7", "token:abc", "plain"} {
			key, err := parser.Key(text)
			if err != nil {
				t.Fatal(err)
			}
			back, err := parser.Key(accesslog.FullKey(key))
			if err != nil || back != key {
				t.Errorf("FullKey of %s under /%d parses to %v, %v, want %v", text, bits, back, err, key)
			}
		}
	}
}
