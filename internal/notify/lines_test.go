package notify

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestLinesSayWhatIsLeftOut(t *testing.T) {
	doubled := func(s string) string { return strings.ReplaceAll(s, "ä", "&auml;") }
	long := strings.Repeat("ä", 500)
	one := Message{Total: 1, Items: []Notification{{Subject: "s", Text: long}}, Link: "https://stint.example/"}
	got := one.Lines(300, doubled)
	text, link, _ := strings.Cut(got, "\n")
	if !strings.HasSuffix(text, "&auml;...") || len(text) > 300 || len(text) < 200 || link != one.Link || !utf8.ValidString(got) {
		t.Errorf("Lines of a long text: got %d bytes: %s", len(text), got)
	}
	if got := one.Lines(1e6, doubled); got != doubled(long)+"\n"+one.Link {
		t.Errorf("Lines of a text that fits: got %s", got)
	}
	many := Message{Total: 40, Items: []Notification{{Subject: "first", Text: "x"}, {Subject: strings.Repeat("b", 90)}, {Subject: strings.Repeat("c", 90)}}}
	if got, want := many.Lines(108, doubled), "first\n"+strings.Repeat("b", 90)+"\nand 38 more"; got != want {
		t.Errorf("Lines of several notifications: got %s", got)
	}
	if got, want := many.Lines(107, doubled), "first\nand 39 more"; got != want {
		t.Errorf("Lines of several notifications in one byte less: got %s", got)
	}
	if got, want := many.Lines(1000, doubled), "and 37 more"; !strings.HasSuffix(got, want) {
		t.Errorf("Lines of several notifications: got %s", got)
	}
	many.Total = 3
	if got := many.Lines(1000, doubled); strings.Contains(got, "more") {
		t.Errorf("Lines of all notifications: got %s", got)
	}
	bare := Message{Total: 1, Items: []Notification{{Subject: "a subject alone"}}}
	if got := bare.Lines(1000, doubled); got != "a subject alone" {
		t.Errorf("Lines of a subject alone: got %s", got)
	}
}

func TestLinesAreBoundedForAnyMessage(t *testing.T) {
	longer := func(s string) string { return strings.ReplaceAll(s, "&", "&amp;") }
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune("&ä \n€x")), 0, 400, -1))
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Notification {
			return Notification{Subject: text.Draw(t, "subject"), Text: text.Draw(t, "text")}
		}), 0, 6).Draw(t, "items")
		m := Message{Items: items, Total: len(items) + rapid.SampledFrom([]int{0, 1, 1e6}).Draw(t, "further")}
		m.Link = rapid.SampledFrom([]string{"", "https://a.example/", "https://a.example/" + strings.Repeat("x", 60)}).Draw(t, "link")
		maxBytes := rapid.IntRange(64, 1100).Draw(t, "bytes")
		got := m.Lines(maxBytes, longer)
		if len(got) > maxBytes || strings.Count(got, "&") != strings.Count(got, "&amp;") {
			t.Fatalf("got %d bytes, want at most %d: %q", len(got), maxBytes, got)
		}
		if m.Link != "" && len(m.Link) <= maxBytes/2 && !strings.HasSuffix(got, m.Link) {
			t.Fatalf("%q does not end with the link", got)
		}
		if m.Total > len(items) && !strings.Contains(got, " more") {
			t.Fatalf("%q does not say that something is left out", got)
		}
	})
}
