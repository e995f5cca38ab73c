package accesslog

import (
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/keys"
)

func TestKeyCacheIsBounded(t *testing.T) {
	cache := newKeyCache(keys.Parser{}, "token")
	for i := range 3*keyCacheSize + 7 {
		value := fmt.Sprint(i)
		if key, err := cache.key([]byte(value)); err != nil || key.String() != "token:"+value {
			t.Fatalf("key(%s): got %v, %v", value, key, err)
		}
		if len(cache.known) > keyCacheSize {
			t.Fatalf("after %d keys the cache has %d, want at most %d", i+1, len(cache.known), keyCacheSize)
		}
	}
}
