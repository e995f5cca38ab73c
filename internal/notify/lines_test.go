package notify

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWhatAMessageLeavesOutIsSaid(t *testing.T) {
	doubled := func(s string) string { return strings.ReplaceAll(s, "ä", "&auml;") }
	long := strings.Repeat("ä", 500)
	one := Message{Total: 1, Items: []Notification{{Subject: "s", Text: long}}, Link: "https://stint.example/"}
	got := one.Lines(300, doubled)
	text, link, _ := strings.Cut(got, "\n")
	if !strings.HasSuffix(text, "&auml;...") || len(text) > 300 || len(text) < 200 || link != one.Link || !utf8.ValidString(got) {
		t.Errorf("a long text is %d bytes: %s", len(text), got)
	}
	if got := one.Lines(1e6, doubled); got != doubled(long)+"\n"+one.Link {
		t.Errorf("a text with room is %s", got)
	}
	many := Message{Total: 40, Items: []Notification{{Subject: "first", Text: "x"}, {Subject: strings.Repeat("b", 90)}, {Subject: strings.Repeat("c", 90)}}}
	if got, want := many.Lines(100, doubled), "first\n"+strings.Repeat("b", 90)+"\nand 38 more"; got != want {
		t.Errorf("several are %s", got)
	}
	if got, want := many.Lines(1000, doubled), "and 37 more"; !strings.HasSuffix(got, want) {
		t.Errorf("several are %s", got)
	}
	many.Total = 3
	if got := many.Lines(1000, doubled); strings.Contains(got, "more") {
		t.Errorf("all are %s", got)
	}
	bare := Message{Total: 1, Items: []Notification{{Subject: "a subject alone"}}}
	if got := bare.Lines(1000, doubled); got != "a subject alone" {
		t.Errorf("got %s", got)
	}
}
