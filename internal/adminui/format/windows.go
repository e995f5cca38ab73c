package format

import (
	"strings"
	"time"
)

func WindowWords(w time.Duration) string {
	for _, u := range DurationUnits {
		if w%u.Length == 0 {
			return Plural(int64(w/u.Length), unitWords[u.Name])
		}
	}
	return Number(w.Milliseconds()) + " ms"
}

var unitWords = map[string]string{"d": "day", "h": "hour", "min": "minute", "s": "second"}

// WindowName names the period of a window: "day", "10 seconds".
func WindowName(w time.Duration) string {
	return strings.TrimPrefix(WindowWords(w), "1 ")
}
