package rules

import "testing"

// TestFurtherKeyOfAKindOfPatternsIsRejected uses kinds that only patterns have: no key could
// ever be counted under them.
func TestFurtherKeyOfAKindOfPatternsIsRejected(t *testing.T) {
	for _, text := range []string{"country 2/m", "ip 2/m", "net 2/m"} {
		if d, err := ParseDerived(text); err == nil {
			t.Errorf("ParseDerived(%q) = %+v, want an error", text, d)
		}
	}
	for _, text := range []string{"account 2/m", "host", "asn 2/m", "net:/24 2/m"} {
		if _, err := ParseDerived(text); err != nil {
			t.Errorf("ParseDerived(%q): %v", text, err)
		}
	}
}
