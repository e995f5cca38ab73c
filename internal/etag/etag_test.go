package etag

import (
	"testing"

	"github.com/stint-dev/stint/internal/fault"
)

func TestTagDependsOnAllParts(t *testing.T) {
	state := Of(1, 23)
	if state == Of(12, 3) || state != Of(1, 23) {
		t.Error("Of: different parts have the same tag, or equal parts have different tags")
	}
}

func TestParse(t *testing.T) {
	tag := Of(1)
	for _, text := range []string{"", "*", string(tag), "3-" + string(tag)} {
		if got, err := Parse("If-Match", text); err != nil || got != Tag(text) {
			t.Errorf("Parse(%q): got %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"3", "W/x", string(tag) + "0", "x-" + string(tag), "3-", "**"} {
		if _, err := Parse("If-Match", text); !fault.Is(err, fault.Invalid) {
			t.Errorf("Parse(%q): got %v", text, err)
		}
	}
}

func TestCheck(t *testing.T) {
	first, second := Of(1), Of(2)
	for _, c := range []struct {
		now, expect Tag
		code        fault.Code // "" for none
	}{
		{New, New, ""}, {New, Any, ""}, {first, first, ""}, {first, Any, ""},
		{New, first, fault.NotFound}, {first, New, fault.NeedVersion}, {second, first, fault.Outdated},
	} {
		if err := Check("policy", c.now, c.expect); c.code == "" && err != nil || c.code != "" && !fault.Is(err, c.code) {
			t.Errorf("Check of %q while %q is expected: got %v", c.now, c.expect, err)
		}
	}
}
