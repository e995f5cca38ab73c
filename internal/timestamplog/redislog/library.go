package redislog

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// The parts of the library, in the order in which they are joined behind those
// of the counters: library.lua decides what is asked most.
var (
	//go:embed library.lua
	libraryText string
	//go:embed ids.lua
	idsText string
	//go:embed reservations.lua
	reservationsText string
	//go:embed sorted_set.lua
	sortedSetText string
	//go:embed distinct.lua
	distinctText string
	//go:embed counters.lua
	countersText string
	//go:embed reading.lua
	readingText string
)

// library is the function library as it is loaded.
type library struct {
	text string
	// The names of its functions.
	decide, reservations, cancelReservation, times, reset string
}

var functions = newLibrary(strings.Join([]string{
	fmt.Sprintf("local MAX_WAIT, MAX_RESERVED, ID_LIFETIME = %d, %d, %d",
		timestamplog.MaxWait, timestamplog.MaxReserved, timestamplog.IDLifetime),
	algorithms.Lua(), libraryText, idsText, reservationsText, sortedSetText, distinctText, countersText, readingText,
}, "\n"))

func newLibrary(text string) library {
	sum := sha256.Sum256([]byte(text))
	suffix := hex.EncodeToString(sum[:8])
	head := fmt.Sprintf("#!lua name=%s%s\nlocal suffix = '%s'\n", libraryName, suffix, suffix)
	return library{
		text: head + text, decide: decideFunction + suffix, reservations: reservationsFunction + suffix,
		cancelReservation: cancelFunction + suffix, times: timesFunction + suffix, reset: resetFunction + suffix,
	}
}

// load loads the library wherever client may need it. A library is never
// replaced, so one that is there already is the right one.
func (l *library) load(ctx context.Context, client redis.UniversalClient) error {
	load := func(ctx context.Context, client redis.Cmdable) error {
		err := client.FunctionLoad(ctx, l.text).Err()
		if err != nil && strings.Contains(err.Error(), "already exists") {
			return nil
		}
		return err
	}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, client *redis.Client) error {
			return load(ctx, client)
		})
	}
	return load(ctx, client)
}

// isMissing reports whether err says that the library is not loaded. Redis
// then has done nothing.
func isMissing(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Function not found")
}

// onceCall is a command that is never sent a second time by itself, whatever
// the client's settings: after a time-out it may have been carried out.
type onceCall struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (onceCall) NoRetry() bool { return true }

// tries bounds how often a call is sent whose library is missing. A FUNCTION FLUSH
// between loading and calling can make it miss again.
const tries = 3

// call calls a function and loads the library first where it is missing. args
// are the function's keys and arguments.
func (l *library) call(ctx context.Context, client redis.UniversalClient, function string, keys int, args ...any) (any, error) {
	whole := append(append(make([]any, 0, 3+len(args)), "fcall", function, keys), args...)
	for try := 1; ; try++ {
		cmd := onceCall{redis.NewCmd(ctx, whole...)}
		cmd.SetFirstKeyPos(3)
		err := client.Process(ctx, cmd)
		if err == nil {
			return cmd.Val(), nil
		}
		if !isMissing(err) || try == tries {
			return nil, err
		}
		if err := l.load(ctx, client); err != nil {
			return nil, err
		}
	}
}
