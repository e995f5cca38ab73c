package output

import (
	"bytes"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestYAMLEqualsJSONAndIsEscaped(t *testing.T) {
	values := []string{"plain", "true", "12", "null", "", "a: b # c", "- x", "two\nlines", "\u202eevil", "tag\U000e0001", "\x1b[2J", "\x7f", "~", "'", `"`, "2026-11-20T10:00:00Z"}
	var b bytes.Buffer
	p := &Printer{Out: &b, Format: JSON, YAML: true}
	if err := p.JSON(map[string]any{"values": values, "n": 1 << 60, "none": nil, "empty": []int{}, "yes": true}); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.ContainsAny(text, "\u202e\U000e0001\x1b\x7f") {
		t.Errorf("hidden characters in %q", text)
	}
	var read struct {
		Values []string
		N      int64
		None   any
		Empty  []int
		Yes    bool
	}
	if err := yaml.Unmarshal(b.Bytes(), &read); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	if strings.Join(read.Values, "|") != strings.Join(values, "|") || read.N != 1<<60 || read.None != nil || !read.Yes {
		t.Errorf("read %q, want %q", read.Values, values)
	}
}
