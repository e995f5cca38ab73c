package redislog

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Reset implements timestamplog.Log. It also tells every WatchResets; where that
// fails, as for a Redis user without the right to publish, the log is reset all
// the same.
func (l *Log) Reset(ctx context.Context, ref timestamplog.LogID) (bool, error) {
	if err := l.shards.check(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	name := l.nameOf(ref)
	if err := l.client.Unlink(ctx, idsName(name)).Err(); err != nil {
		return false, unreachable(err)
	}
	held, err := functions.call(ctx, l.client, functions.reset, 1, name, l.override())
	if err != nil {
		return false, unreachable(err)
	}
	l.publishReset(ctx, ref)
	return held == int64(1), nil
}

// publishReset tells every WatchResets, as well as it can.
func (l *Log) publishReset(ctx context.Context, ref timestamplog.LogID) {
	_ = l.client.Publish(ctx, resetsChannel(l.prefix), resetMessage(ref)).Err() // see Reset
}

// resetsChannel is where resets are published.
func resetsChannel(prefix string) string { return prefix + ":resets" }

func resetMessage(ref timestamplog.LogID) string {
	return fmt.Sprintf("%d.%d:%s", ref.Policy, ref.Generation, ref.Key)
}

func parseResetMessage(text string) (ref timestamplog.LogID, ok bool) {
	numbers, key, found := strings.Cut(text, ":")
	policy, generation, dotted := strings.Cut(numbers, ".")
	var errPolicy, errGeneration error
	ref.Policy, errPolicy = strconv.ParseInt(policy, 10, 64)
	ref.Generation, errGeneration = strconv.ParseInt(generation, 10, 64)
	ref.Key = key
	return ref, found && dotted && errPolicy == nil && errGeneration == nil
}

// resubscribe is how long a broken subscription waits before it is tried again.
const resubscribe = 250 * time.Millisecond

// WatchResets calls reset with each log that this or another node resets, and
// missed whenever some may have passed unheard: at its beginning and after each
// break. It returns when ctx ends.
func (l *Log) WatchResets(ctx context.Context, reset func(timestamplog.LogID), missed func()) {
	for ctx.Err() == nil {
		l.watchResets(ctx, reset, missed)
		select {
		case <-ctx.Done():
		case <-time.After(resubscribe):
		}
	}
}

// watchResets follows one subscription until it breaks.
func (l *Log) watchResets(ctx context.Context, reset func(timestamplog.LogID), missed func()) {
	subscription := l.client.Subscribe(ctx, resetsChannel(l.prefix))
	defer subscription.Close()
	stop := context.AfterFunc(ctx, func() { supervise.Do("reset subscription", func() { _ = subscription.Close() }) }) // Receive does not heed ctx
	defer stop()
	for {
		heard, err := subscription.Receive(ctx)
		if err != nil {
			return
		}
		switch heard := heard.(type) {
		case *redis.Subscription:
			missed()
		case *redis.Message:
			if ref, ok := parseResetMessage(heard.Payload); ok {
				reset(ref)
			}
		}
	}
}
