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

// Reset implements timestamplog.Log. It also publishes the reset to every WatchResets. The log is
// reset even if publishing fails, for example because the Redis user must not publish.
func (l *Log) Reset(ctx context.Context, id timestamplog.LogID) (bool, error) {
	if err := l.shards.check(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	name := l.nameOf(id)
	if err := l.client.Unlink(ctx, idsName(name)).Err(); err != nil {
		return false, unreachable(err)
	}
	existed, err := functions.call(ctx, l.client, functions.reset, 1, name, l.override())
	if err != nil {
		return false, unreachable(err)
	}
	l.publishReset(ctx, id)
	return existed == int64(1), nil
}

// publishReset publishes a reset to every WatchResets. It ignores errors.
func (l *Log) publishReset(ctx context.Context, id timestamplog.LogID) {
	_ = l.client.Publish(ctx, resetsChannel(l.prefix), resetMessage(id)).Err() // see Reset
}

// resetsChannel returns the name of the channel on which resets are published.
func resetsChannel(prefix string) string { return prefix + ":resets" }

func resetMessage(id timestamplog.LogID) string {
	return fmt.Sprintf("%d.%d:%s", id.Policy, id.Generation, id.Key)
}

func parseResetMessage(text string) (id timestamplog.LogID, ok bool) {
	numbers, key, found := strings.Cut(text, ":")
	policy, generation, dotted := strings.Cut(numbers, ".")
	var errPolicy, errGeneration error
	id.Policy, errPolicy = strconv.ParseInt(policy, 10, 64)
	id.Generation, errGeneration = strconv.ParseInt(generation, 10, 64)
	id.Key = key
	return id, found && dotted && errPolicy == nil && errGeneration == nil
}

// resubscribe is the pause after which a broken subscription is tried again.
const resubscribe = 250 * time.Millisecond

// WatchResets calls reset with each log that this or another node resets. It calls missed
// whenever it may have missed resets: at the beginning and after each lost connection. It returns
// when ctx ends.
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
	stop := context.AfterFunc(ctx, func() { supervise.Do("reset subscription", func() { _ = subscription.Close() }) }) // Receive ignores ctx
	defer stop()
	for {
		received, err := subscription.Receive(ctx)
		if err != nil {
			return
		}
		switch received := received.(type) {
		case *redis.Subscription:
			missed()
		case *redis.Message:
			if id, ok := parseResetMessage(received.Payload); ok {
				reset(id)
			}
		}
	}
}
