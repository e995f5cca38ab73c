package redislog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/redisconn"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// CheckOptions are the settings of Check.
type CheckOptions struct {
	// AllowEviction accepts servers that may evict keys, which lifts limits.
	AllowEviction bool
}

// Check tests whether the servers can hold logs. It reads the settings of each server, and
// makes each decide about a log of its own, which expires within milliseconds. A
// *redisconn.ConfigError says what an operator must change first. Any other error matches
// timestamplog.ErrUnreachable and may be temporary. Health describes the servers that answered.
func (l *Log) Check(ctx context.Context, options CheckOptions) (Health, error) {
	h, err := healthOf(ctx, l.client, l.timeout)
	for i := range h.Nodes {
		if wrong := h.Nodes[i].problem(l.target, options); wrong != nil {
			return h, wrong
		}
	}
	if err == nil {
		err = l.tryAll(ctx)
	}
	if err == nil {
		return h, nil
	}
	if wrong := l.target.Explain(ctx, err); wrong != nil {
		return h, wrong
	}
	return h, unreachable(err)
}

// problem returns what makes a server of t unfit, nil if it is fit.
func (n *NodeHealth) problem(t redisconn.Target, options CheckOptions) *redisconn.ConfigError {
	if wrong := t.CheckMode(n.Addr, n.Mode); wrong != nil {
		return wrong
	}
	wrong := func(format string, args ...any) *redisconn.ConfigError {
		return &redisconn.ConfigError{Problem: fmt.Sprintf("the server %s ", n.Addr) + fmt.Sprintf(format, args...)}
	}
	switch {
	case n.isTooOld():
		return wrong("is Redis %s; Stint needs Redis 7 or newer, or Valkey", n.Version)
	case n.MayEvict() && !options.AllowEviction:
		return wrong("has maxmemory-policy %s, by which it may delete logs and so lift limits; set it to noeviction, or start with --allow-redis-eviction", n.MaxMemoryPolicy)
	}
	return nil
}

// tryAll makes each server decide once.
func (l *Log) tryAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	client, clustered := l.client.(*redis.ClusterClient)
	if !clustered {
		return l.try(ctx, l.client, 0)
	}
	tried := map[*redis.Client]bool{}
	for shard := range Shards {
		primary, err := client.MasterForKey(ctx, shardTags[shard])
		if err != nil {
			return err
		}
		if tried[primary] {
			continue
		}
		tried[primary] = true
		// Use the client of the Cluster: the slot may have moved since.
		if err := l.try(ctx, client, shard); err != nil {
			return err
		}
	}
	return nil
}

// try makes the server of a shard decide about a log that belongs to no policy, and execute
// every command of the function library.
func (l *Log) try(ctx context.Context, client redis.UniversalClient, shard int) error {
	stack := rules.Stack{{Limit: rules.MaxLimit, Window: rules.MinWindow}}
	q := timestamplog.Request{
		LogID: timestamplog.LogID{Key: "start"}, Rules: stack, Retention: rules.Retention{}.Cover(stack), Cost: 1,
	}
	asked := []*item{{
		name: logName(l.prefix, shard, q.LogID), shard: shard, rules: stack, cost: 1,
		stack: writeStack(stack, q.Retention),
	}}
	keys, args := arguments(l.override(), asked)
	reply, err := functions.call(ctx, client, functions.decide, keys, args...)
	if err == nil {
		err = readReply(reply, asked, new(serverClock))
	}
	if err == nil {
		err = asked[0].result.Err
	}
	if err == nil || errors.Is(err, timestamplog.ErrDenied) {
		// What a denied UNLINK leaves behind is no log.
		tried := logName(l.prefix, shard, timestamplog.LogID{Key: "try"})
		reply, err = functions.call(ctx, client, functions.try, 2, tried, idsName(tried))
	}
	if err != nil {
		return err
	}
	return deniedCommands(reply)
}

// deniedCommands returns the error for a reply of stint_try, nil if the user may call every
// command.
func deniedCommands(reply any) error {
	names, ok := reply.([]any)
	if !ok {
		return errReply
	}
	if len(names) == 0 {
		return nil
	}
	rights := make([]string, len(names))
	for i, name := range names {
		rights[i] = "+" + strings.ToLower(fmt.Sprint(name))
	}
	return &redisconn.ConfigError{Problem: "the user of the URL has too few rights, it also needs " + strings.Join(rights, " ") + "; docs/REDIS.md names all that are needed"}
}

// isTooOld reports whether a server is known to be older than Redis 7.
func (n *NodeHealth) isTooOld() bool {
	major, _, _ := strings.Cut(n.Version, ".")
	number, err := strconv.Atoi(major)
	return err == nil && number < 7
}

// Describe returns the text of an error of a Log in one short line, without that of
// timestamplog.ErrUnreachable.
func Describe(err error) string {
	return escape.OneLine(strings.TrimPrefix(err.Error(), timestamplog.ErrUnreachable.Error()+": "))
}
