package redislog

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Settle implements timestamplog.Log, in one call. It publishes nothing: no node keeps a refusal of a
// log with holds.
func (l *Log) Settle(ctx context.Context, m timestamplog.Settlement) (timestamplog.Settled, error) {
	if err := l.shards.check(); err != nil {
		return timestamplog.Settled{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	name := l.nameOf(m.LogID)
	reply, err := l.callAtomic(ctx, functions.settle, 2, []any{
		name, settledName(name, m.Value), l.override(), l.stackOf(&m.Request), fmt.Sprintf("%016x", m.Value), m.Used, m.Extend,
	})
	if err != nil {
		return timestamplog.Settled{}, unreachable(err)
	}
	return readSettled(reply, name)
}

func readSettled(reply any, name string) (r timestamplog.Settled, err error) {
	parts, _ := reply.([]any)
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i], _ = part.(string)
	}
	if len(texts) == 1 {
		return r, unanswerable(fmt.Errorf("%w: %q", timestamplog.ErrForeign, name))
	}
	if len(texts) != 2 {
		return r, unreachable(fmt.Errorf("%w: %T", errReply, reply))
	}
	var state algorithms.HoldState
	again := ""
	if _, err := fmt.Sscan(texts[0], &r.Now); err != nil {
		return r, unreachable(fmt.Errorf("%w: %q", errReply, texts[0]))
	}
	if n, err := fmt.Sscan(texts[1], &state, &r.Held, &r.Used, &r.Over, &r.Expires, &r.Was, &again); n < 6 {
		return r, unreachable(fmt.Errorf("%w: %q: %w", errReply, texts[1], err))
	}
	r.State, r.Repeated = state, again != ""
	return r, nil
}
