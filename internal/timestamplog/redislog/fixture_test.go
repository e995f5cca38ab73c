package redislog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
)

// policy returns a policy of that id with a stack.
func policy(t testing.TB, id int64, stack ...string) *rules.Policy {
	t.Helper()
	parsed, err := rules.ParseStack(stack)
	if err != nil {
		t.Fatal(err)
	}
	return &rules.Policy{ID: id, Version: 1, Generation: 1, Rules: parsed, Mode: rules.Enforce, Algorithm: algorithms.TimestampLog}
}

// ask asks log about key once and gives up at ctx's end.
func ask(ctx context.Context, log *redislog.Log, p *rules.Policy, key string, cost int) timestamplog.Result {
	results := make([]timestamplog.Result, 1)
	log.Decide(ctx, []timestamplog.Request{timestamplog.RequestOf(p, key, cost)}, results)
	return results[0]
}

// entries returns how many times the log of key holds.
func entries(t *testing.T, log *redislog.Log, p *rules.Policy, key string) int {
	t.Helper()
	times, _, err := log.Timestamps(t.Context(), timestamplog.LogIDOf(p, key), rules.MaxLimit)
	if err != nil {
		t.Fatal(err)
	}
	return len(times)
}

// answers reports whether log answers a peek. A caller who gives up counts as a failure of Redis,
// so it waits longer than a busy machine takes.
func answers(log *redislog.Log, p *rules.Policy) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	q := timestamplog.RequestOf(p, "ip:192.0.2.255", 1)
	q.Peek = true
	results := make([]timestamplog.Result, 1)
	log.Decide(ctx, []timestamplog.Request{q}, results)
	return results[0].Err == nil
}

func wantOutage(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, timestamplog.ErrUnreachable) {
		t.Errorf("the error is %v, want one that matches ErrUnreachable", err)
	}
}
