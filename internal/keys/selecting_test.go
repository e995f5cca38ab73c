package keys

import (
	"slices"
	"testing"
)

func TestSelectingReturnsExactlyThePatternsThatSelectAKey(t *testing.T) {
	patterns := []string{
		"*", "ip:*", "ip:203.0.113.7", "ip:203.0.113.0/24", "ip:203.0.114.0/24", "ip:0.0.0.0/0", "ip:::/0",
		"ip:2001:db8::1/128", "ip:2001:db8::/64", "ip:2001:db8::/32", "token:*", "token:a*", `token:a\**`, `token:a\*b`,
		`token:a\\*`, "token:é*", "token:éa", "bare", "barely",
	}
	for _, text := range []string{
		"ip:203.0.113.7", "ip:2001:db8::1", "ip:2001:db8::/64", "token:a*b", "token:a", "token:a\\", "token:éa", "token:éb", "bare",
	} {
		k, err := Parser{}.Key(text)
		if err != nil {
			t.Fatal(err)
		}
		spellings := Selecting(k)
		for _, spelling := range patterns {
			p, err := Parser{}.Pattern(spelling)
			if err != nil {
				t.Fatal(err)
			}
			if named := slices.Contains(spellings, p.String()); named != p.Matches(k) {
				t.Errorf("key %q, pattern %q: in Selecting %v, Matches returns %v", text, p, named, p.Matches(k))
			}
		}
	}
	if Selecting(Key{}) != nil {
		t.Error("Selecting of the zero key is not nil")
	}
}
