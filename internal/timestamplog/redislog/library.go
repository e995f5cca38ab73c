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

// loadEverywhere loads the library to every primary of a Cluster.
func (l *library) loadEverywhere(ctx context.Context, cluster *redis.ClusterClient) error {
	return cluster.ForEachMaster(ctx, func(ctx context.Context, server *redis.Client) error {
		if err := server.FunctionLoad(ctx, l.text).Err(); err != nil && !isThere(err) {
			return err
		}
		return nil
	})
}

// loadAndCall loads the library to the server that has a key, and calls in the same piece: a
// FUNCTION FLUSH hardly comes in between.
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
		return err // of a connection that was not made, which no command has
	case notLoaded != nil && !isThere(notLoaded) && cmd.Err() != nil:
		return notLoaded
	}
	return cmd.Err() // nil where somebody else has loaded it: what was done must not be done again
}

// firstKey returns the first key of a call's arguments.
func firstKey(args []any) string {
	if name, is := args[0].(*string); is {
		return *name
	}
	return fmt.Sprint(args[0])
}

// isThere reports whether err says that the library that was to be loaded is there. One is
// never replaced, so it is the right one.
func isThere(err error) bool { return err != nil && strings.Contains(err.Error(), "already exists") }

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
// are the function's keys and arguments, at least one key.
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
			// A slot moves, and the server that answers now may lack the library too.
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
