package entries

import (
	"errors"
	"strconv"
	"testing"
)

// textRow is a row of one column.
type textRow string

func (r textRow) Scan(to ...any) error {
	*to[0].(*string) = string(r)
	return nil
}

func TestPackedScannerRejectsMalformedRows(t *testing.T) {
	const good = "7 3 1000 9223372036854775807 12 2 13 3 9 5 9 block b1 user:1 &ünï a b automatic login challenge the author"
	e, err := new(packedScanner).Scan(textRow(good))
	if err != nil || e.ID != "b1" || e.Pattern.String() != "user:1 &ünï" || e.Reason != "a b" || e.Scope != "login" || e.Action != "challenge" || e.Author != "the author" || e.PolicyID != 7 || e.Level != 3 {
		t.Fatalf("%+v, %v", e, err)
	}
	for what, row := range map[string]textRow{
		"nothing":                  "",
		"a text":                   "a block",
		"numbers only":             "1 2 3 4 5 6 7 8",
		"no number":                "7 3 now 9223372036854775807 12 2 6 3 9 5 0 block b1 user:1 a b automatic login  me",
		"a length below 0":         "7 3 1000 9223372036854775807 12 2 -6 3 9 5 0 block b1 user:1 a b automatic login  me",
		"a sign only":              "7 - 1000 9223372036854775807 12 2 6 3 9 5 0 block b1 user:1 a b automatic login  me",
		"a scope beyond the end":   "7 3 1000 9223372036854775807 12 2 6 3 9 50 0 block b1 user:1 a b automatic login  me",
		"a number beyond 64 bits":  "7 3 1000 9223372036854775808 12 2 6 3 9 5 0 block b1 user:1 a b automatic login  me",
		"a number of 20 digits":    "7 3 1000 00000000000000000001 12 2 6 3 9 5 0 block b1 user:1 a b automatic login  me",
		"an id that is longer":     "7 3 1000 9223372036854775807 12 1 6 3 9 5 0 block b1 user:1 a b automatic login  me",
		"an id that is shorter":    "7 3 1000 9223372036854775807 12 3 6 3 9 5 0 block b1 user:1 a b automatic login  me",
		"a pattern beyond the end": "7 3 1000 9223372036854775807 12 2 600 3 9 5 0 block b1 user:1 a b automatic login  me",
		"a length of all bits":     "7 3 1000 9223372036854775807 12 9223372036854775807 9223372036854775807 3 9 5 0 block b1 user:1 a b automatic login  me",
		"a reason beyond the end":  "7 3 1000 9223372036854775807 12 2 6 99 9 5 0 block b1 user:1 a b automatic login  me",
		"no author":                "7 3 1000 9223372036854775807 12 2 6 3 9 5 0 block b1 user:1 a b automatic",
	} {
		if e, err := new(packedScanner).Scan(row); !errors.Is(err, errPacked) {
			t.Errorf("%s: got %+v, %v, want errPacked", what, e, err)
		}
	}
}

func TestPackedNumberMatchesParseInt(t *testing.T) {
	for _, text := range []string{
		"0", "7", "-1", "007", "9223372036854775807", "-9223372036854775808",
		"", "-", "--1", "1-", "a", "9223372036854775808", "-9223372036854775809", "9999999999999999999", "18446744073709551617",
	} {
		s := packedScanner{rest: text + " rest"}
		got := s.number()
		want, err := strconv.ParseInt(text, 10, 64)
		if s.bad != (err != nil) || !s.bad && (got != want || s.rest != "rest") {
			t.Errorf("%q: got %d, bad %v, rest %q; ParseInt returns %d, %v", text, got, s.bad, s.rest, want, err)
		}
	}
}
