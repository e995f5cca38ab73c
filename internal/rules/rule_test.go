package rules_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

func TestParseRuleAcceptsCommonSpellings(t *testing.T) {
	for text, want := range map[string]string{
		"1/s":          "1/1s",
		"20/min":       "20/1m",
		"20/m":         "20/1m",
		"20/1m":        "20/1m",
		"200/hour":     "200/1h",
		"800/day":      "800/1d",
		"5/10s":        "5/10s",
		"0/s":          "0/1s",
		"3/60s":        "3/1m",
		"3/90 seconds": "3/90s",
		" 7 / 24H ":    "7/1d",
		"1000/week":    "1000/7d",
		"1/31d":        "1/31d",
		"100000/1ms":   "100000/1ms",
		"5/1000ms":     "5/1s",
		"007/s":        "7/1s",

		"15/d distinct path":         "15/1d distinct path",
		"3/90 seconds distinct a_b2": "3/90s distinct a_b2",
		"10000/31d  distinct  path":  "10000/31d distinct path",
	} {
		r, err := rules.ParseRule(text)
		if err != nil || r.String() != want {
			t.Errorf("ParseRule(%q) = %s, %v; want %s", text, r, err, want)
		}
	}
}

func TestParseRuleRejectsBadInputAndSaysWhatIsAllowed(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing at all":                       {"", "no slash"},
		"no slash":                             {"20 per minute", "write count/window"},
		"no count":                             {"/s", "no count before the slash"},
		"a fraction":                           {"1.5/s", "whole number"},
		"a negative count":                     {"-1/s", "whole number"},
		"a plus sign":                          {"+1/s", "whole number"},
		"a comma within thousands":             {"1,00/s", "whole number"},
		"digits of another script":             {"٣/s", "whole number"},
		"a count above the largest":            {"1001T/s", "at most 1000T"},
		"a count that overflows":               {"99999999999999999999/s", "at most 1000T"},
		"a letter alone":                       {"M/s", "whole number"},
		"an unknown letter":                    {"5B/s", "whole number"},
		"two letters":                          {"5kk/s", "whole number"},
		"no unit":                              {"20/60", "no unit"},
		"no name of a value":                   {"20/d distinct", "must name one value"},
		"two names of values":                  {"20/d distinct path host", "must name one value"},
		"an invalid name of a value":           {"20/d distinct Path", "names a value that must be 1 to 64"},
		"too many distinct values":             {"10001/d distinct path", "outside 1 to 10000"},
		"no distinct value":                    {"0/d distinct path", "outside 1 to 10000"},
		"no window before the name of a value": {"20/distinct path", "no unit"},
		"no window":                            {"20/", "no unit"},
		"an unknown unit":                      {"20/x", `the unit "x"`},
		"a window of no length":                {"20/0s", "no length"},
		"a window above the longest":           {"20/32d", "longer than 31d"},
		"a window that overflows":              {"20/99999999999999999999d", "longer than 31d"},
		"a window that overflows its unit":     {"20/106751991167301d", "longer than 31d"},
		"a window of two units":                {"20/1h30m", "write it in one: 90m"},
		"a month, which has no fixed length":   {"20/month", "write days"},
		"a second slash":                       {"20/1m/2", "the unit"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rules.ParseRule(c.text)
			var wrong *rules.Error
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("ParseRule(%q): got %v, want a *rules.Error with %q", c.text, err, c.want)
			}
		})
	}
}

func TestRuleIsValidOnlyWithinItsBounds(t *testing.T) {
	for name, c := range map[string]struct {
		rule  rules.Rule
		valid bool
	}{
		"the largest limit and window":  {rules.Rule{Limit: algorithms.MaxAmount, Window: rules.MaxWindow}, true},
		"the smallest limit and window": {rules.Rule{Limit: 0, Window: rules.MinWindow}, true},
		"a negative limit":              {rules.Rule{Limit: -1, Window: time.Second}, false},
		"a limit too large":             {rules.Rule{Limit: algorithms.MaxAmount + 1, Window: time.Second}, false},
		"what is concurrent":            {rules.Rule{Limit: rules.MaxConcurrent}, true},
		"nothing concurrent":            {rules.Rule{}, false},
		"too much concurrent":           {rules.Rule{Limit: rules.MaxConcurrent + 1}, false},
		"a window too long":             {rules.Rule{Limit: 1, Window: rules.MaxWindow + 1}, false},
		"part of a millisecond":         {rules.Rule{Limit: 1, Window: time.Millisecond + 1}, false},
	} {
		if err := c.rule.Validate(); (err == nil) != c.valid {
			t.Errorf("%s: Validate returns %v, want valid: %v", name, err, c.valid)
		}
	}
}

func TestPaceIsTheTimeBetweenRequestsOnAverage(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"2/s": 500 * time.Millisecond, "800/d": 108 * time.Second, "0/s": 0,
	} {
		if got := mustRule(t, text).Pace(); got != want {
			t.Errorf("the pace of %s is %v, want %v", text, got, want)
		}
	}
}

func TestEveryRuleRoundTripsThroughItsCanonicalForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rules.Rule{
			Limit:  rapid.IntRange(0, rules.MaxLimit).Draw(t, "limit"),
			Window: time.Duration(rapid.Int64Range(1, rules.MaxWindow.Milliseconds()).Draw(t, "window")) * time.Millisecond,
		}
		back, err := rules.ParseRule(r.String())
		if err != nil || back != r {
			t.Fatalf("%v reads back from %q as %v, %v", r, r.String(), back, err)
		}
	})
}

func FuzzRule(f *testing.F) {
	for _, seed := range []string{"1/s", "20/min", "5/10s", "0/s", "1000/week", "20/1h30m", "1/31d", "x/y/z", "٣/s", "1/\x00s", "9999999999999999999/9999999999999999999ms"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := rules.ParseRule(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r\x00\x1b") {
				t.Fatalf("the message %q is not safe to print", err)
			}
			return
		}
		if err := r.Validate(); err != nil {
			t.Fatalf("%q was read as a rule that is not valid: %v", text, err)
		}
		back, err := rules.ParseRule(r.String())
		if err != nil || back != r || back.String() != r.String() {
			t.Fatalf("%q is %s, which reads back as %s, %v", text, r, back, err)
		}
	})
}

func BenchmarkParseRule(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rules.ParseRule("200/hour"); err != nil {
			b.Fatal(err)
		}
	}
}

func mustRule(t testing.TB, text string) rules.Rule {
	t.Helper()
	r, err := rules.ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mustStack parses rules that are separated by spaces.
func mustStack(t testing.TB, text string) rules.Stack {
	t.Helper()
	s, err := rules.ParseStack(strings.Fields(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLimitsOfAmountsAreWrittenWithSuffixes(t *testing.T) {
	for text, want := range map[string]string{
		"1M/d": "1M/1d", "1000000/d": "1M/1d", "1500k/d": "1500k/1d", "500k/h": "500k/1h", "250001/h": "250001/1h",
		"100k/h": "100000/1h", "2G/31d": "2G/31d", "1000T/d": "1000T/1d", "5k/m": "5000/1m",
	} {
		r, err := rules.ParseRule(text)
		if err != nil || r.String() != want {
			t.Errorf("ParseRule(%q): got %v, %v, want %s", text, r, err, want)
			continue
		}
		if again, err := rules.ParseRule(r.String()); err != nil || again != r {
			t.Errorf("ParseRule(%q): got %v, %v, want %v", r.String(), again, err, r)
		}
	}
}
