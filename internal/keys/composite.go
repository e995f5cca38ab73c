package keys

import "strings"

// partEnd is between the values of a key of several values, such as "ip+path:203.0.113.7|/login".
const partEnd = "|"

var partEscaper = strings.NewReplacer("%", "%25", partEnd, "%7C")

// JoinValues returns the values of a key of several values as its text has them behind the kinds. A value that
// has the character between them is escaped, so that no client can choose one that reads as two.
func JoinValues(values []string) string {
	escaped := make([]string, len(values))
	for i, v := range values {
		escaped[i] = partEscaper.Replace(v)
	}
	return strings.Join(escaped, partEnd)
}

// HasClient reports whether k is a key of several values of which the first is an address.
func (k Key) HasClient() bool { return strings.HasPrefix(k.text, "ip+") }

// ClientOf returns the key of the address in a key of several values whose first kind is ip, the zero
// key for other keys. Blocks and exemptions of the address apply to such a key as well.
func (p Parser) ClientOf(k Key) Key {
	rest, is := strings.CutPrefix(k.text, "ip+")
	if !is {
		return Key{}
	}
	_, values, _ := strings.Cut(rest, ":")
	address, _, _ := strings.Cut(values, partEnd)
	client, err := p.Key("ip:" + address)
	if err != nil {
		return Key{}
	}
	return client
}
