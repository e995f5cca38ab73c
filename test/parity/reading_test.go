package parity

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/keys"
)

// readings are what operators write, with the patterns that it means; "" for what is refused.
var readings = []struct{ text, want string }{
	{"1.2.3.4", "ip:1.2.3.4"},
	{"ip:1.2.3.4", "ip:1.2.3.4"},
	{"1.2.3.0/24", "ip:1.2.3.0/24"},
	{"1.2.3.0 / 24", "ip:1.2.3.0/24"},
	{"2001:db8::7", "ip:2001:db8::/64"},
	{"10.0.0.1-10.0.0.9", "ip:10.0.0.1, ip:10.0.0.2/31, ip:10.0.0.4/30, ip:10.0.0.8/31"},
	{"198.51.100.96 - 198.51.100.105", "ip:198.51.100.96/29, ip:198.51.100.104/31"},
	{"1.2.3.4, 1.2.3.5", "ip:1.2.3.4, ip:1.2.3.5"},
	{"AS64500", "asn:64500"},
	{"RU", "country:RU"},
	{"token:a,b", "token:a,b"},
	{"token:abc*", "token:abc*"},
	{"1.2.3.0/33", ""},
	{"1.2.3.4/24", ""},
	{"300.1.1.1", ""},
	{"ip:300.1.1.1", ""},
	{"10.0.0.9-10.0.0.1", ""},
	{"1.2.3.4, 1.2.3.300", ""},
	{"1.2.3.4:443", ""},
	{"fd00:db8::zz", ""},
	{"fd12:3456:789a::1/129", ""},
	{"fe80::1%eth0", ""},
	{"fe80:1:2:3", ""},
	{"ab:cd:ef:01:02:03", ""},
	{"sshd: 192.0.2.55", ""},
	{"example.org:443", ""},
	{"https://malware.example/path", ""},
	{"evil.example", ""},
	{"user42", ""},
	{"fd12:7", ""},
}

// literally are texts that are refused, and keys if they are meant literally.
var literally = []string{"sshd: 192.0.2.55", "evil.example", "user42", "fd12:7", "300.1.1.1"}

// entrance is a way by which an operator adds blocks. It returns what it answers if it refuses
// the text, and "" if it adds it.
type entrance struct {
	name string
	add  func(o *operator, text string, literal bool) (refusal string)
}

var entrances = []entrance{
	{"REST", func(o *operator, text string, literal bool) string {
		return refused(o.ask(send("POST", "/v1/blocks", object{"pattern": text, "reason": "x", "literal": literal, "confirm": confirmOf(text)})))
	}},
	{"the preview of REST", func(o *operator, text string, literal bool) string {
		answer := o.ask(send("POST", "/v1/blocks/preview", object{"pattern": text, "literal": literal}))
		if answer.status != http.StatusOK {
			return refused(answer)
		}
		// What it read is added, to be compared.
		return refused(o.ask(send("POST", "/v1/blocks", object{"pattern": answer.member("pattern"), "literal": literal, "confirm": confirmOf(text)})))
	}},
	{"a page", func(o *operator, text string, literal bool) string {
		fields := []string{"pattern", text, "reason", "x", "for", "24h", "confirm", confirmOf(text)}
		if literal {
			fields = append(fields, "literal", "yes")
		}
		answer := o.submit("/blocks", fields...)
		if answer.status == http.StatusSeeOther {
			return ""
		}
		return pageText(answer.body)
	}},
	{"a command", func(o *operator, text string, literal bool) string {
		return o.runs(literal, "", "block", "add", text, "--reason", "x", "--for", "24h", "--yes")
	}},
	{"a CSV", func(o *operator, text string, literal bool) string {
		rows := [][]string{{"pattern", "literal"}, {text, ""}}
		if literal {
			rows[1][1] = "true"
		}
		var file bytes.Buffer
		must(o.t, csv.NewWriter(&file).WriteAll(rows))
		return o.runs(false, file.String(), "block", "import", "-", "--format", "csv", "--reason", "x", "--for", "24h", "--yes")
	}},
	{"a JSON", func(o *operator, text string, literal bool) string {
		row := object{"pattern": text}
		if literal {
			row["literal"] = true
		}
		return o.runs(false, jsonOf(o.t, row), "block", "import", "-", "--format", "json", "--reason", "x", "--for", "24h", "--yes")
	}},
	{"a plain list", func(o *operator, text string, literal bool) string {
		if literal {
			text = jsonOf(o.t, text)
		}
		return o.runs(false, text+"\n", "block", "import", "-", "--format", "plain", "--reason", "x", "--for", "24h", "--yes")
	}},
	{"a plain list with a flag", func(o *operator, text string, literal bool) string {
		return o.runs(literal, text+"\n", "block", "import", "-", "--format", "plain", "--reason", "x", "--for", "24h", "--yes")
	}},
	{"an import on a page", func(o *operator, text string, literal bool) string {
		fields := []string{"for", "24h", "on_conflict", "keep", "reason", "x"}
		if literal {
			fields = append(fields, "literal", "yes")
		}
		answer := o.upload("/blocks/import", text+"\n", fields...)
		answer.wants(http.StatusOK)
		again := o.submit("/blocks/import/confirm", "file", answer.hidden("file"), "confirm", confirmOf(text))
		if again.status == http.StatusOK {
			return ""
		}
		return pageText(again.body)
	}},
}

// confirmOf confirms the patterns of the table that are broad.
func confirmOf(text string) string {
	switch text {
	case "AS64500":
		return "asn:64500"
	case "RU":
		return "country:RU"
	}
	return ""
}

// refused returns the message of a problem, "" for success.
func refused(a *answer) string {
	if a.status < 300 {
		return ""
	}
	var p struct{ Detail string }
	_ = json.Unmarshal([]byte(a.body), &p)
	return p.Detail
}

// runs returns what a command writes to standard error if it fails.
func (o *operator) runs(literal bool, stdin string, args ...string) string {
	o.t.Helper()
	if literal {
		args = append(args, "--literal")
	}
	code, text := o.run(run(args...).input(stdin))
	if code == console.OK {
		return ""
	}
	return text
}

// endAll ends all active entries, and returns their patterns, the oldest first.
func (o *operator) endAll(path string) string {
	o.t.Helper()
	var page struct {
		Items []struct{ ID, Pattern string }
	}
	must(o.t, json.Unmarshal([]byte(o.ask(send("GET", path+"?limit=1000")).body), &page))
	var all []string
	for _, entry := range page.Items {
		o.ask(send("DELETE", path+"/"+entry.ID)).wants(http.StatusOK)
		all = append(all, entry.Pattern)
	}
	return sorted(strings.Join(all, ", "))
}

func sorted(list string) string {
	all := strings.Split(list, ", ")
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestEveryEntranceReadsPatternsAlike adds each text at each entrance: it becomes the same
// entries, or is refused in the same words.
func TestEveryEntranceReadsPatternsAlike(t *testing.T) {
	o := startNode(t)
	for _, c := range readings {
		_, meant := keys.Reading{}.Patterns(c.text)
		for _, e := range entrances {
			refusal := e.add(o, c.text, false)
			got := o.endAll("/v1/blocks")
			switch {
			case c.want != "" && (refusal != "" || got != sorted(c.want)):
				t.Errorf("%q at %s: became %q, %q; want %q", c.text, e.name, got, refusal, c.want)
			case c.want == "" && (got != "" || meant == nil || !containsSentence(refusal, strings.TrimPrefix(meant.Error(), "the pattern "))):
				t.Errorf("%q at %s: became %q, %q; want the refusal %v", c.text, e.name, got, refusal, meant)
			}
		}
	}
	for _, text := range literally {
		for _, e := range entrances {
			if refusal, got := e.add(o, text, true), o.endAll("/v1/blocks"); refusal != "" || got != text {
				t.Errorf("%q, meant literally, at %s: became %q, %q", text, e.name, got, refusal)
			}
		}
	}
}

// TestExemptionsAreReadAsBlocksAre tries what matters most: one that is mistyped exempts nobody.
func TestExemptionsAreReadAsBlocksAre(t *testing.T) {
	o := startNode(t)
	for _, c := range readings {
		answer := o.ask(send("POST", "/v1/exemptions", object{"pattern": c.text, "confirm": confirmOf(c.text)}))
		_, meant := keys.Reading{}.Patterns(c.text)
		got := o.endAll("/v1/exemptions")
		if got != sorted(c.want) || c.want == "" && !containsSentence(refused(answer), strings.TrimPrefix(meant.Error(), "the pattern ")) {
			t.Errorf("%q: became %q, %s; want %q", c.text, got, answer.body, c.want)
		}
	}
}

// TestEveryFilterReadsPatternsAlike: a filter reads addresses as entries do, and refuses what
// looks like one and is none. Kinds and keys without a kind need not be known there.
func TestEveryFilterReadsPatternsAlike(t *testing.T) {
	o := startNode(t)
	filters := []struct {
		name string
		find func(text string) (ok bool, answered string)
	}{
		{"blocks of REST", func(text string) (bool, string) {
			a := o.ask(send("GET", "/v1/blocks?within="+url.QueryEscape(text)))
			return a.status == http.StatusOK, refused(a)
		}},
		{"blocks of a page", func(text string) (bool, string) {
			a := o.page("/blocks?within=" + url.QueryEscape(text))
			return a.status == http.StatusOK, pageText(a.body)
		}},
		{"blocks of a command", func(text string) (bool, string) {
			refusal := o.runs(false, "", "block", "list", "--within", text)
			return refusal == "", refusal
		}},
		{"offenders of REST", func(text string) (bool, string) {
			a := o.ask(send("GET", "/v1/offenders?pattern="+url.QueryEscape(text)))
			return a.status == http.StatusOK, refused(a)
		}},
		{"offenders of a page", func(text string) (bool, string) {
			a := o.page("/offenders?pattern=" + url.QueryEscape(text))
			return a.status == http.StatusOK, pageText(a.body)
		}},
		{"live checks of a page", func(text string) (bool, string) {
			a := o.page("/live?pattern=" + url.QueryEscape(text))
			return a.status == http.StatusOK, pageText(a.body)
		}},
	}
	for _, text := range []string{"1.2.3.4", "1.2.3.0 / 24", "AS64500", "RU", "10.0.0.1-10.0.0.3", "1.2.3.0/33", "300.1.1.1", "fd00:db8::zz", "fe80::1%eth0", "ab:cd:ef:01:02:03", "user42", "shop:7"} {
		_, meant := keys.Reading{AnyKind: true}.Pattern(text)
		for _, f := range filters {
			ok, answered := f.find(text)
			if ok != (meant == nil) || meant != nil && !containsSentence(answered, strings.TrimPrefix(meant.Error(), "the pattern ")) {
				t.Errorf("%q in %s: %v, %q; want %v", text, f.name, ok, answered, meant)
			}
		}
	}
}

// TestEveryEntranceOfKeysReadsAlike gives mistyped addresses, networks, ranges and lists to what
// takes one key. A key of a kind that nobody uses, or of none, is a customer's.
func TestEveryEntranceOfKeysReadsAlike(t *testing.T) {
	o := startNode(t)
	command := func(args ...string) func(string) string {
		return func(text string) string {
			filled := slices.Clone(args)
			for i := range filled {
				filled[i] = strings.ReplaceAll(filled[i], "KEY", text)
			}
			return o.runs(false, "", filled...)
		}
	}
	page := func(path string, fields ...string) func(string) string {
		return func(text string) string {
			answer := o.submit(path, append([]string{"key", text}, fields...)...)
			if answer.status == http.StatusSeeOther {
				return ""
			}
			return pageText(answer.body)
		}
	}
	for _, e := range []struct {
		name string
		give func(text string) string
	}{
		{"key set", command("key", "set", "KEY", "--label", "region=eu")},
		{"key limit", command("key", "limit", "KEY", "5/m", "--for", "1h", "--reason", "x")},
		{"key show", command("key", "show", "KEY")},
		{"key reset", command("key", "reset", "KEY")},
		{"key note add", command("key", "note", "add", "KEY", "x")},
		{"key import", func(text string) string {
			return o.runs(false, jsonOf(t, object{"key": text, "note": "x"}), "key", "import", "-", "--format", "json")
		}},
		{"REST, a profile", func(text string) string {
			answer := o.ask(send("PUT", "/v1/keys/"+url.PathEscape(text), object{"note": "x"}))
			if answer.status == http.StatusPreconditionRequired || answer.status == http.StatusPreconditionFailed || answer.status == http.StatusConflict {
				return "" // it read the key, which has a profile
			}
			return refused(answer)
		}},
		{"REST, an explanation", func(text string) string {
			return refused(o.ask(send("GET", "/v1/keys?key="+url.QueryEscape(text))))
		}},
		{"a note on a page", page("/key/note", "text", "x")},
		{"a reset on a page", page("/key/reset")},
	} {
		for _, text := range []string{"1.2.3.4", "ip:1.2.3.4", "token:abc", "token:a,b", "shop:7", "user42", "300.1.1.1", "1.2.3.0/33", "1.2.3.0/24", "1.2.3.0 / 24", "10.0.0.1-10.0.0.9", "1.2.3.4, 1.2.3.5", "AS64500", "fd00:db8::zz", "1.2.3.4:443"} {
			_, meant := keys.Reading{}.Key(text)
			refusal := e.give(text)
			if (refusal == "") != (meant == nil) || meant != nil && !containsSentence(refusal, strings.TrimPrefix(meant.Error(), "the key ")) {
				t.Errorf("%q at %s: %q; want %v", text, e.name, refusal, meant)
			}
		}
	}
	if _, err := (keys.Reading{}).Key("300.1.1.1"); err == nil {
		t.Error("300.1.1.1 is a key")
	}
}
