package supervise_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/supervise"
)

func TestSleepWaitsForTheDurationOrTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, step := range []struct {
			name  string
			d     time.Duration
			after time.Duration
			want  error
		}{
			{"nothing to wait for", -time.Second, 0, nil},
			{"the whole duration", 45 * time.Second, 45 * time.Second, nil},
			{"the context ends first", 45 * time.Second, 15 * time.Second, context.DeadlineExceeded},
			{"the context has ended", 0, 0, context.DeadlineExceeded},
		} {
			began := time.Now()
			if err := supervise.Sleep(ctx, step.d); !errors.Is(err, step.want) || time.Since(began) != step.after {
				t.Errorf("%s: Sleep: got %v after %s, want %v after %s", step.name, err, time.Since(began), step.want, step.after)
			}
		}
	})
}
