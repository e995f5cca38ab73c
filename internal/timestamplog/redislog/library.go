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
	"github.com/stint-dev/stint/internal/redisconn"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// The parts of the library, in the order in which they follow those of the counters.
// library.lua decides the most frequent requests.
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

// library is the text of the function library and the names of its functions.
type library struct {
	text string
	// Names of the functions.
	decide, across, reservations, cancelReservation, times, numbers, holds, reset, settle, try string
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
		text: head + text, decide: decideFunction + suffix, across: acrossFunction + suffix, reservations: reservationsFunction + suffix,
		cancelReservation: cancelFunction + suffix, times: timesFunction + suffix, reset: resetFunction + suffix,
		numbers: numbersFunction + suffix, holds: holdsFunction + suffix, settle: settleFunction + suffix, try: tryFunction + suffix,
	}
}

// loadEverywhere loads the library to every primary of a Cluster.
func (l *library) loadEverywhere(ctx context.Context, cluster *redis.ClusterClient) error {
	return cluster.ForEachMaster(ctx, func(ctx context.Context, server *redis.Client) error {
		if err := server.FunctionLoad(ctx, l.text).Err(); err != nil && !isThere(err) {
			return err
		}
		return nil
	})
}

// loadAndCall loads the library to the server that has a key, and calls the function in the
// same pipeline, so that a FUNCTION FLUSH is unlikely to come in between.
func (l *library) loadAndCall(ctx context.Context, client redis.UniversalClient, key string, cmd onceCall) error {
	server := client
	if cluster, is := client.(*redis.ClusterClient); is {
		var err error
		if server, err = cluster.MasterForKey(ctx, key); err != nil {
			return err
		}
	}
	pipeline := server.Pipeline()
	loaded := pipeline.FunctionLoad(ctx, l.text)
	_ = pipeline.Process(ctx, cmd) // it only waits for Exec
	_, err := pipeline.Exec(ctx)
	switch notLoaded := loaded.Err(); {
	case notLoaded == nil && cmd.Err() == nil:
		return err // the error of connecting, which no command has
	case notLoaded != nil && !isThere(notLoaded) && cmd.Err() != nil:
		return notLoaded
	}
	return cmd.Err() // nil if somebody else has loaded it: a call that was executed must not be repeated
}

// firstKey returns the first key of a call's arguments.
func firstKey(args []any) string {
	if name, is := args[0].(*string); is {
		return *name
	}
	return fmt.Sprint(args[0])
}

// isThere reports whether err says that the library is loaded already. Its name contains the
// hash of its text and it is never replaced, so it is the right one.
func isThere(err error) bool { return redisconn.Refuses(err, "ERR Library ") }

// isMissing reports whether err says that the library is not loaded. Redis has done nothing
// then.
func isMissing(err error) bool {
	return redisconn.Refuses(err, "ERR Function not found")
}

// onceCall is a command that the client never retries, whatever its settings: after a timeout
// it may have been executed.
type onceCall struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (onceCall) NoRetry() bool { return true }

// tries bounds how often a call is sent if the library is missing. A FUNCTION FLUSH between
// loading and calling can make it fail again.
const tries = 3

// call calls a function, and loads the library first if it is missing. args are the function's
// keys and arguments, with at least one key.
func (l *library) call(ctx context.Context, client redis.UniversalClient, function string, keys int, args ...any) (any, error) {
	whole := append(append(make([]any, 0, 3+len(args)), "fcall", function, keys), args...)
	newCall := func() onceCall {
		cmd := onceCall{redis.NewCmd(ctx, whole...)}
		cmd.SetFirstKeyPos(3)
		return cmd
	}
	cmd := newCall()
	err := client.Process(ctx, cmd)
	for try := 1; isMissing(err) && try < tries; try++ {
		cmd = newCall()
		err = l.loadAndCall(ctx, client, firstKey(args), cmd)
		if cluster, is := client.(*redis.ClusterClient); is && err != nil && wasNotDone(err) {
			// A slot is moving, and the server that answers now may lack the library too.
			if err := l.loadEverywhere(ctx, cluster); err != nil {
				return nil, err
			}
			cmd = newCall()
			err = client.Process(ctx, cmd)
		}
	}
	if err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}
