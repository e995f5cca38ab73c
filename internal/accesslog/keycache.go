package accesslog

import (
	"errors"

	"github.com/stint-dev/stint/internal/keys"
)

var errNoKey = errors.New("the field that makes the key is empty")

// keyCacheSize is how many spellings of keys a keyCache remembers.
const keyCacheSize = 1 << 16

// keyCache parses the text of a log into keys and caches them. It is emptied when full, so
// that its memory does not grow with the log.
type keyCache struct {
	parser keys.Parser
	kind   string // wholeKey: the text is a key already
	known  map[string]keys.Key
}

func newKeyCache(parser keys.Parser, kind string) *keyCache {
	return &keyCache{parser: parser, kind: kind, known: make(map[string]keys.Key)}
}

// key returns the key that value makes. It allocates nothing for a value that
// it remembers.
func (c *keyCache) key(value []byte) (keys.Key, error) {
	if key, known := c.known[string(value)]; known {
		return key, nil
	}
	if len(value) == 0 || string(value) == "-" { // servers write a dash for nothing
		return keys.Key{}, errNoKey
	}
	return c.add(value)
}

func (c *keyCache) add(value []byte) (keys.Key, error) {
	key, err := c.parse(string(value))
	if err != nil {
		return keys.Key{}, err
	}
	if len(c.known) >= keyCacheSize {
		clear(c.known)
	}
	c.known[string(value)] = key
	return key, nil
}

func (c *keyCache) parse(value string) (keys.Key, error) {
	switch c.kind {
	case wholeKey:
		return c.parser.Key(value)
	case addressKind:
		// A list of addresses names hops. The nearest proxy has written the last of them;
		// some load balancers write the client's port behind its address.
		if addr, ok := lastAddress(value); ok {
			return c.parser.AddressKey(addr), nil
		}
	}
	return c.parser.Key(c.kind + ":" + value)
}
