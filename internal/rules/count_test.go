package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/rules"
)

// TestNumbersAreReadAsPagesShowThem: commas between groups of three digits are read, other
// separators are refused with what was meant, and nothing is read as another number.
func TestNumbersAreReadAsPagesShowThem(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "20": 20, "1000": 1000, "1,000": 1000, "25,170": 25170, "1,000,000": 1_000_000} {
		if got, err := rules.ParseCount(text); err != nil || got != want {
			t.Errorf("ParseCount(%q) = %d, %v, want %d", text, got, err, want)
		}
		if got, err := rules.ParseRule(text + "/h"); err != nil || got.Limit != want {
			t.Errorf("ParseRule(%q/h) = %v, %v, want %d", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"1.000": "write 1000 or 1,000", "1 000": "write 1000 or 1,000", "1'000": "write 1000 or 1,000", "1_000": "write 1000 or 1,000", "1\u202f000": "write 1000 or 1,000",
		"1.000.000": "write 1000000 or 1,000,000", "1,5": "whole number", "1.5": "whole number", "10,00": "whole number", "1,0000": "whole number", ",100": "whole number",
		"1,": "whole number", "": "whole number", "-5": "whole number", "99999999999999999999": "too large",
	} {
		if got, err := rules.ParseCount(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("ParseCount(%q) = %d, %v, want an error with %q", text, got, err, says)
		}
		if got, err := rules.ParseRule(text + "/h"); err == nil || strings.Contains(says, "write") && !strings.Contains(err.Error(), says) {
			t.Errorf("ParseRule(%q/h) = %v, %v, want an error with %q", text, got, err, says)
		}
	}
	for text, want := range map[string][]string{
		"1,000/h,20/m": {"1,000/h", "20/m"}, "1,000,000/d 1,000/h; 5/s": {"1,000,000/d", "1,000/h", "5/s"}, "20/1m, 800/1d": {"20/1m", "800/1d"},
		"15/d distinct path,1,000/d distinct path": {"15/d distinct path", "1,000/d distinct path"}, "20,30/h": {"20,30/h"}, "20": {"20"}, "": nil,
		"10 per minute": {"10 per minute"}, "10 tokens per minute, 5/s": {"10 tokens per minute", "5/s"}, "10 / minute 5/s": {"10 / minute", "5/s"},
		"1M tokens / 1d": {"1M tokens / 1d"},
	} {
		if got := rules.SplitRules(text); !slices.Equal(got, want) {
			t.Errorf("SplitRules(%q) = %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"1,000ms", "1.5h", "1,5h", "1 000s"} {
		if d, err := rules.ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %s, want an error", text, d)
		}
	}
}
