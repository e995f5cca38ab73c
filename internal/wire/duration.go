package wire

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time as people write it: "90s", "15m", "24h", "7d",
// "1w", "1h30m". The zero value is "0s".
type Duration time.Duration

// unitLengths are the units that a duration may be written in.
var unitLengths = map[string]time.Duration{
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute,
	"h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
}

// writtenUnits are the units that String writes, the longest first.
var writtenUnits = []string{"d", "h", "m", "s"}

var errDuration = errors.New(`must be a length of time in whole units of ms, s, m, h, d or w, for example "90m", "24h" or "7d"`)

var (
	errNoDuration   = errors.New("must be longer than 0")
	errLongDuration = errors.New("must be at most 106751d")
)

// ParseDuration reads a length of time, the larger units first. There are no
// signs, no fractions and no spaces.
func ParseDuration(text string) (time.Duration, error) {
	rest, total := text, int64(0)
	last := time.Duration(math.MaxInt64)
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		tail := rest[digits:]
		letters := len(tail) - len(strings.TrimLeft(tail, "abcdefghijklmnopqrstuvwxyz"))
		length, known := unitLengths[tail[:letters]]
		count, err := strconv.ParseInt(rest[:digits], 10, 64)
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange), !known, length >= last:
			return 0, errDuration
		case err != nil, count > (math.MaxInt64-total)/int64(length):
			return 0, errLongDuration
		}
		total += count * int64(length)
		last, rest = length, tail[letters:]
	}
	if text == "" {
		return 0, errDuration
	}
	return time.Duration(total), nil
}

// String writes d as a number and the largest unit that divides it.
func (d Duration) String() string {
	if d == 0 {
		return "0s"
	}
	for _, unit := range writtenUnits {
		if length := unitLengths[unit]; time.Duration(d)%length == 0 {
			return strconv.FormatInt(int64(time.Duration(d)/length), 10) + unit
		}
	}
	return strconv.FormatInt(time.Duration(d).Milliseconds(), 10) + "ms"
}

// Std returns d as the standard library's duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// MarshalText writes d as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDuration does, but not 0: on the wire the zero
// Duration means that there is none.
func (d *Duration) UnmarshalText(text []byte) error {
	unsigned, negative := strings.CutPrefix(string(text), "-")
	parsed, err := ParseDuration(unsigned)
	if !errors.Is(err, errDuration) && (negative || err == nil && parsed == 0) {
		parsed, err = 0, errNoDuration
	}
	*d = Duration(parsed)
	return err
}
