// Package tracedlog is a Log that records a tracing span for each decision of another Log.
package tracedlog

import (
	"context"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/tracing"
)

// New returns a Log that passes calls to log and adds a span for each decision of a traced
// check. If t is nil, it returns log itself.
func New(log timestamplog.Log, t *tracing.Tracer) timestamplog.Log {
	if t == nil || log == nil {
		return log
	}
	return &tracedLog{log, t}
}

// tracedLog is a Log that records its decisions as spans.
type tracedLog struct {
	timestamplog.Log
	tracer *tracing.Tracer
}

// Decide implements timestamplog.Log.
func (l *tracedLog) Decide(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	ctx, span := l.tracer.Part(ctx, "log decide")
	span.SetInt("stint.requests", len(requests))
	l.Log.Decide(ctx, requests, results)
	var err error
	for i := range results[:len(requests)] {
		if results[i].Err != nil {
			err = results[i].Err
		}
	}
	span.End(err)
}

// DecideAll implements timestamplog.Log.
func (l *tracedLog) DecideAll(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) error {
	ctx, span := l.tracer.Part(ctx, "log decide all")
	span.SetInt("stint.requests", len(requests))
	err := l.Log.DecideAll(ctx, requests, results)
	span.End(err)
	return err
}
