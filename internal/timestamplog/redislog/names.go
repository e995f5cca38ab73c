package redislog

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// DefaultPrefix begins the name of every key where no other is set.
const DefaultPrefix = "stint"

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// CheckPrefix returns an error unless prefix may begin the names of keys: a
// brace in it would make a hash tag of its own.
func CheckPrefix(prefix string) error {
	if !prefixForm.MatchString(prefix) {
		return fmt.Errorf("the prefix %q of the Redis keys must be 1 to 64 letters, digits, dots, colons, underscores or dashes", prefix)
	}
	return nil
}

// Shards is over how many hash tags the logs are spread, and so the largest
// number of primaries of a Redis Cluster that can share them. It is part of
// every log's name: a change forgets all logs.
const Shards = 256

// logName returns the name of a log: prefix:{shard}:policy.generation:key.
func logName(prefix string, shard int, id timestamplog.LogID) string {
	var text [48]byte
	middle := strconv.AppendInt(append(text[:0], ":{"...), int64(shard), 10)
	middle = strconv.AppendInt(append(middle, "}:"...), id.Policy, 10)
	middle = strconv.AppendInt(append(middle, '.'), id.Generation, 10)
	var name strings.Builder // whose string is not copied
	name.Grow(len(prefix) + len(middle) + 1 + len(id.Key))
	name.WriteString(prefix)
	name.Write(middle)
	name.WriteByte(':')
	name.WriteString(id.Key)
	return name.String()
}

// idsName returns the name of what is known of the IDs of the log of a name:
// prefix:{shard}:ipolicy.generation:key. No log has it, for theirs have a digit
// there.
func idsName(log string) string { return strings.Replace(log, "}:", "}:i", 1) }

// The names of the function library and its functions end in the hash of its
// text: two versions that run side by side then each call their own.
const (
	libraryName          = "stint_"
	decideFunction       = "stint_decide_"
	reservationsFunction = "stint_reserve_"
	cancelFunction       = "stint_cancel_"
	timesFunction        = "stint_times_"
	resetFunction        = "stint_reset_"
)
