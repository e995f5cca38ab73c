package profilelist_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profilelist"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
)

// read returns the rows and errors of a file, one on each line.
func read(text string, format profilelist.Format) string {
	var all []string
	for p, err := range profilelist.Read(strings.NewReader(text), format, keys.Reading{}) {
		if err != nil {
			all = append(all, "! "+err.Error())
			continue
		}
		if p.HasLimit {
			all = append(all, "its limit is left")
		}
		if p.Profile == nil {
			continue
		}
		all = append(all, strings.Join([]string{p.Key, p.Plan, strings.Join(p.Labels, "+"), p.Note}, "|"))
	}
	return strings.Join(all, "\n")
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name   string
		format profilelist.Format
		text   string
		want   []string // the beginning of each line
	}{
		{"csv", profilelist.CSV, "\xef\xbb\xbfKey,labels,plan\ntoken:a,vip;region=eu,gold\nip:2001:db8::7,,free\n", []string{"token:a|gold|region=eu+vip|", "ip:2001:db8::/64|free||"}},
		{"csv of an export", profilelist.CSV, "key,plan,labels,note,limit,limit_expires_at,limit_reason\ntoken:a,gold,,n,5/1s,,x\n", []string{"its limit is left", "token:a|gold||n"}},
		{"bad rows", profilelist.CSV, "key,plan\nip:300.1.1.1,gold\ntoken:a,Gold\ntoken:b\ntoken:c,\n\"token:d,gold", []string{"! line 2: ", "! line 3: plan must be", "! line 4: it has 1 cells", "! line 5: it has neither", "! line 6: it is not valid CSV"}},
		{"csv of a spreadsheet", profilelist.CSV, "key;labels;plan\ntoken:a;vip region=eu;gold\n", []string{"token:a|gold|region=eu+vip|"}},
		{"no key", profilelist.CSV, "plan\ngold\n", []string{"! line 1: the header has no column key"}},
		{"unknown column", profilelist.CSV, "key,<b>\n", []string{`! line 1: the header has the column "<b>"; the columns are key, plan, labels and note`}},
		{"empty", profilelist.CSV, "", []string{"! line 1: there is no header"}},
		{"json", profilelist.JSON, `{"key":"token:a","plan":"gold","labels":["b","a"]}` + "\n\n" + `{"key":"token:b","note":"n"}`, []string{"token:a|gold|a+b|", "token:b|||n"}},
		{"json list", profilelist.JSON, `[{"key":"token:a","plan":"gold"},` + "\n" + `{"key":"token:b","note":"n","limit":"5/1s"}]`, []string{"token:a|gold||", "its limit is left", "token:b|||n"}},
		{"bad json", profilelist.JSON, "3\n{\"key\":\"token:a\",\"plans\":1}\n{\"key\":\"token:a\",\"labels\":\"b\"}\n{\"key\":\"token:a\",\"labels\":[7]}\n{\"key\":\"token:a\",\"plan\":\"gold\"}\n{\"key\"", []string{
			`! line 1: it is not a key; write for example {"key":`, "! line 2: it has a field that a key does not have: plans", "! line 3: the field labels must be a list of strings",
			"! line 4: the field labels/0 must be a string", "token:a|gold||", "! line 6: the file ends in the middle"}},
		{"long", profilelist.JSON, `{"key":"` + strings.Repeat("x", 3<<20), []string{"! line 1: the row is longer"}},
		{"long csv", profilelist.CSV, "key,plan\n\"" + strings.Repeat("x", 3<<20), []string{"! line 2: the row is longer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Split(read(c.text, c.format), "\n")
			if len(got) != len(c.want) {
				t.Fatalf("read: got %q, want %d lines", got, len(c.want))
			}
			for i, want := range c.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("line %d: got %q, want %q", i+1, got[i], want)
				}
			}
		})
	}
}

func TestWrittenProfilesAreReadBack(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000)
	all := []*profiles.Profile{
		{Key: `=cmd|"x"`, Plan: "gold", Labels: []string{"a", "b"}, Note: "+1,\n\"2\""},
		{Key: "token:x", Plan: "free", Limit: &profiles.Limit{Reason: "r", Expires: now.Add(time.Hour)}},
		{Key: "token:y", Limit: &profiles.Limit{Rules: rules.Stack{{Limit: 5, Window: time.Second}}, Reason: "r", Expires: now.Add(time.Hour)}},
		{Key: "token:z", Limit: &profiles.Limit{Rules: rules.Stack{{Limit: 5, Window: time.Second}}, Reason: "r", Expires: now.Add(-time.Hour)}},
	}
	for _, format := range []profilelist.Format{profilelist.CSV, profilelist.JSON} {
		var file bytes.Buffer
		w := profilelist.NewWriter(&file, format)
		for _, p := range all {
			if err := w.Write(p, now); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if format == profilelist.CSV && strings.Contains(file.String(), "\n=cmd") {
			t.Errorf("a cell is a formula: %s", file.String())
		}
		if got := read(file.String(), format); got != "=cmd|\"x\"|gold|a+b|+1,\n\"2\"\ntoken:x|free||\nits limit is left" { // that of token:y
			t.Errorf("%s: read back %q", format, got)
		}
	}
}
