package httpserver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestStoreContextEndsOnceTheDatabaseIsSilent(t *testing.T) {
	const silence = 3 * time.Second
	for name, test := range map[string]struct {
		change bool
		before time.Duration // how long ago the last answer was when the request came, 0 for never
		every  time.Duration // how often there is an answer, 0 for no more
		want   time.Duration
	}{
		"it answered before the request":           {before: 100 * time.Millisecond, want: silence},
		"it has been silent for long":              {before: time.Hour, want: silence / 3},
		"it has never answered":                    {want: silence / 3},
		"it answers others and not this request":   {before: 100 * time.Millisecond, every: time.Second, want: HandlerTimeout},
		"a change before it is known to be silent": {change: true, before: 100 * time.Millisecond, want: HandlerTimeout},
		"a change after it has been silent":        {change: true, before: silence, want: silence / 3},
		"a change, and it has never answered":      {change: true, want: silence / 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := StoreLiveness{Max: silence, LastAnswer: func() time.Time {
					switch {
					case test.before == 0:
						return time.Time{}
					case test.every == 0:
						return began.Add(-test.before)
					}
					return time.Now().Truncate(test.every)
				}}
				ctx, cancel := storeContext(s, context.Background(), !test.change)
				defer cancel()
				<-ctx.Done()
				if took := time.Since(began); took != test.want {
					t.Errorf("the context ended after %v, want %v", took, test.want)
				}
				if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
					t.Errorf("the cause is %v, want a DeadlineExceeded", context.Cause(ctx))
				}
			})
		})
	}
}

// A handler that has returned leaves nothing behind that watches the database.
func TestStoreContextIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		s := StoreLiveness{LastAnswer: time.Now}
		ctx, cancel := storeContext(s, context.Background(), true)
		cancel()
		if !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("the cause is %v, want Canceled", context.Cause(ctx))
		}
	})
}
