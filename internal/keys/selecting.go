package keys

import (
	"net/netip"
	"strings"
	"unicode/utf8"
)

// Selecting returns the canonical spelling of every pattern that selects k, the most specific
// first. It is for looking up stored patterns by their spelling. There are at most some hundreds:
// one for each prefix or network.
func Selecting(k Key) []string {
	if k.IsZero() {
		return nil
	}
	var spellings []string
	if k.network.IsValid() {
		for bits := k.network.Bits(); bits >= 0; bits-- {
			spellings = append(spellings, NetworkPattern(netip.PrefixFrom(k.network.Addr(), bits)).text)
		}
		for _, p := range OriginPatterns(OriginOf(k)) {
			spellings = append(spellings, p.text)
		}
		return append(spellings, "ip:*", "*")
	}
	spellings = append(spellings, escape(k.text))
	if kind, _, found := strings.Cut(k.text, ":"); found {
		for n := len(k.text); n > len(kind); n-- {
			if n == len(k.text) || utf8.RuneStart(k.text[n]) {
				spellings = append(spellings, escape(k.text[:n])+"*")
			}
		}
	}
	return append(spellings, "*")
}
