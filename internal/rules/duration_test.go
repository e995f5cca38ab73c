package rules_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/rules"
)

func TestParseDurationAcceptsCommonSpellings(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"24h":             24 * time.Hour,
		"7d":              7 * 24 * time.Hour,
		"1h30m":           90 * time.Minute,
		"90s":             90 * time.Second,
		"2w":              14 * 24 * time.Hour,
		"2 weeks":         14 * 24 * time.Hour,
		"1 day 12 hours":  36 * time.Hour,
		" 1H 5Min ":       65 * time.Minute,
		"1500ms":          1500 * time.Millisecond,
		"106751d":         106751 * 24 * time.Hour,
		"0d1s":            time.Second,
		"1w1d1h1m1s1ms":   8*24*time.Hour + time.Hour + time.Minute + time.Second + time.Millisecond,
		"0000000000001 m": time.Minute,
	} {
		if got, err := rules.ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseDurationRejectsBadInputAndSaysWhatIsAllowed(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "is empty",
		"   ":                   "is empty",
		"-3h":                   "is negative",
		"1h-3m":                 `the unit "h-"`,
		"1.5h":                  "has a fraction",
		"1,5h":                  "has a fraction",
		"0s":                    "has no length",
		"5":                     "no unit after 5",
		"1h 5":                  "no unit after 5",
		"h":                     "no number",
		"3 months":              `the unit "months"`,
		"1m1h":                  "out of order",
		"1h1h":                  "out of order or twice",
		"106752d":               "too long",
		"106751d24h":            "too long",
		"99999999999999999999s": "too long",
		"for ever":              "no number",
		"1h\x1b[31m":            "the unit",
	} {
		_, err := rules.ParseDuration(text)
		var wrong *rules.DurationError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseDuration(%q): got %v, want a *DurationError with %q", text, err, want)
		} else if strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("the message %q is not safe to print", err)
		}
	}
}

func TestDurationsAreWrittenInTheLargestUnits(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s":      0,
		"1d":      24 * time.Hour,
		"14d":     14 * 24 * time.Hour,
		"1h30m":   90 * time.Minute,
		"1m30s":   90 * time.Second,
		"1s500ms": 1500*time.Millisecond + 7,
		"-1h":     -time.Hour,
	} {
		if got := rules.FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%v) = %q, want %q", d, got, want)
		}
	}
	if got := rules.FormatDuration(-999); got != "0s" {
		t.Errorf("less than a millisecond is written %q, want 0s", got)
	}
	if got := rules.FormatDuration(math.MinInt64); !strings.HasPrefix(got, "-106751d") {
		t.Errorf("the most negative duration is written %q", got)
	}
}

func TestEveryDurationRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, math.MaxInt64/int64(time.Millisecond)).Draw(t, "ms")) * time.Millisecond
		if back, err := rules.ParseDuration(rules.FormatDuration(d)); err != nil || back != d {
			t.Fatalf("%v is written %q and reads back as %v, %v", d, rules.FormatDuration(d), back, err)
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"24h", "1h30m", "2 weeks", "1d 12h", "-1s", "1.5h", "99999999999999999999s", "1h\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := rules.ParseDuration(text)
		if err != nil {
			return
		}
		if back, err := rules.ParseDuration(rules.FormatDuration(d)); d <= 0 || err != nil || back != d {
			t.Fatalf("%q is %v, which reads back as %v, %v", text, d, back, err)
		}
	})
}
