package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stint-dev/stint/internal/notify"
)

// channelRow is a row of the table of types: the type, and the form of its URL.
var channelRow = regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| `([a-z]+://[^`]+)`")

// TestEveryChannelTypeIsDocumented compares the table of docs/NOTIFICATIONS.md with the types.
func TestEveryChannelTypeIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "NOTIFICATIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := channelRow.FindAllStringSubmatch(string(text), -1)
	types := notify.Types()
	if len(rows) != len(types) {
		t.Fatalf("docs/NOTIFICATIONS.md has %d types of channels, want %d", len(rows), len(types))
	}
	for i, want := range types {
		if rows[i][1] != string(want.Type) || rows[i][2] != want.URL {
			t.Errorf("row %d of docs/NOTIFICATIONS.md is %s with %s, want %s with %s", i+1, rows[i][1], rows[i][2], want.Type, want.URL)
		}
	}
}
