package format

import (
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/phrase"
)

func WindowWords(w time.Duration) string {
	for _, u := range phrase.Units {
		if w%u.Length == 0 {
			return phrase.Count(int64(w/u.Length), unitWords[u.Name])
		}
	}
	return phrase.Number(w.Milliseconds()) + " ms"
}

var unitWords = map[string]string{"d": "day", "h": "hour", "min": "minute", "s": "second"}

// WindowName names the period of a window: "day", "10 seconds".
func WindowName(w time.Duration) string {
	return strings.TrimPrefix(WindowWords(w), "1 ")
}
