package rules_test

import "testing"

func TestStackIsDescribedInPlainWords(t *testing.T) {
	for text, want := range map[string]string{
		"":         "Every request is allowed: there are no rules.",
		"0/s 20/m": "No request is allowed.",
		"20/m":     "At most 20 in any minute.",
		"1/s 20/m 800/d": "At most 1 in any second, 20 in any minute and 800 in any day. " +
			"At full speed the minute's 20 are used up after 19 seconds and the day's 800 after 39 minutes 19 seconds.",
		"2/s 12/m 200/h 800/d 6000/7d": "At most 2 in any second, 12 in any minute, 200 in any hour and 800 in any day. " +
			"At full speed the minute's 12 are used up after 5 seconds, the hour's 200 after 16 minutes 3 seconds and the day's 800 after 3 hours 16 minutes.",
		"5/10s 1500/7d": "At most 5 in any 10 seconds and 1,500 in any 7 days. " +
			"At full speed the 1,500 of any 7 days are used up after 49 minutes 50 seconds.",
		"1/250ms 2/s": "At most 1 in any 250 milliseconds and 2 in any second. " +
			"At full speed the second's 2 are used up after 250 milliseconds.",
	} {
		if got := mustStack(t, text).Describe(); got != want {
			t.Errorf("%q is described as\n\t%s\nwant\n\t%s", text, got, want)
		}
	}
}
