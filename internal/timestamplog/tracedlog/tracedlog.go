// Package tracedlog is a log in front of another that makes a span of each decision.
package tracedlog

import (
	"context"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/tracing"
)

// New returns log, with a span for what each traced check asks it. Without a tracer it
// is log itself.
func New(log timestamplog.Log, t *tracing.Tracer) timestamplog.Log {
	if t == nil || log == nil {
		return log
	}
	return &tracedLog{log, t}
}

// tracedLog is a log whose decisions are spans.
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
