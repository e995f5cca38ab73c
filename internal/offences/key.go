package offences

import (
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/keys"
)

// ParseKey parses a key as it was counted, whatever the setting for IPv6 was at that time.
func ParseKey(text string) (keys.Key, error) {
	k, err := keys.Parser{}.Key(text)
	if err == nil && k.String() == text {
		return k, nil
	}
	parser := keys.Parser{IPv6Bits: 128}
	if _, bits, has := strings.Cut(text, "/"); has {
		if n, err := strconv.Atoi(bits); err == nil && n > 0 && n < 128 {
			parser.IPv6Bits = n
		}
	}
	return parser.Key(text)
}
