package redislog

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// observeCalls calls observe after each call of client, unless observe is nil. In a Cluster it
// observes the calls of each server, so that a redirected call counts twice.
func observeCalls(client redis.UniversalClient, observe func(ctx context.Context, isDecision bool, began time.Time, err error)) {
	if observe == nil {
		return
	}
	if cluster, is := client.(*redis.ClusterClient); is {
		cluster.OnNewNode(func(server *redis.Client) { server.AddHook(observer(observe)) })
		return
	}
	client.AddHook(observer(observe))
}

// observer is a hook of go-redis.
type observer func(ctx context.Context, isDecision bool, began time.Time, err error)

// DialHook implements redis.Hook.
func (o observer) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (o observer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmd)
		o(ctx, cmd.Name() == "fcall", began, withoutNil(err))
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (o observer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmds)
		failed, isDecision := err, false
		if len(cmds) > 0 { // the library may be loaded in the same pipeline, before the call
			last := cmds[len(cmds)-1]
			isDecision = last.Name() == "fcall"
			if isThere(err) {
				failed = last.Err()
			}
		}
		o(ctx, isDecision, began, withoutNil(failed))
		return err
	}
}

// withoutNil returns err, or nil for redis.Nil, which only says that there was nothing to read.
func withoutNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}
