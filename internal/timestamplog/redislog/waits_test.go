package redislog

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// watchedContext is a context that ends only at its deadline, like that of the gate.
type watchedContext struct {
	context.Context
	until time.Time
}

func (c *watchedContext) Deadline() (time.Time, bool) { return c.until, true }

func (c *watchedContext) EndsAtDeadline() bool { return true }

// Done must not be called by a batcher.
func (c *watchedContext) Done() <-chan struct{} { panic("a watched caller waits for its context") }

func watched(in time.Duration) context.Context {
	return &watchedContext{context.Background(), time.Now().Add(in)}
}

// Callers wait for their answer or their deadline, whichever comes first, both if the batcher
// watches their deadlines and if they wait for their contexts.
func TestCallersWaitForTheirAnswersOrTheirDeadlines(t *testing.T) {
	waysToWait := map[string]func(*testing.T, time.Duration) context.Context{
		"watched": func(_ *testing.T, in time.Duration) context.Context { return watched(in) },
		"plain": func(t *testing.T, in time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), in)
			t.Cleanup(cancel)
			return ctx
		},
	}
	for name, contextOf := range waysToWait {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, 2))
				var answered, late atomic.Int64
				for range 100 {
					took := time.Duration(random.IntN(40)) * time.Millisecond
					var answers sync.Map // maps *item to the time of its answer
					b := &batcher{timeout: time.Second, send: func(ctx context.Context, items []*item, _ time.Time) error {
						select {
						case <-time.After(took):
						case <-ctx.Done():
							return ctx.Err()
						}
						for _, it := range items {
							it.result = timestamplog.Result{Allowed: true}
							answers.Store(it, time.Now())
						}
						return nil
					}}
					var group sync.WaitGroup
					for range 1 + random.IntN(20) {
						// No answer arrives exactly at a deadline.
						ctx := contextOf(t, time.Duration(random.IntN(60))*time.Millisecond+time.Microsecond)
						until, _ := ctx.Deadline()
						g := new(groups).get(1)
						b.submit(ctx, g)
						group.Go(func() {
							err := g.wait(ctx)
							ended := time.Now()
							if err == nil {
								err = g.answer(0, nil).Err
							}
							at, found := answers.Load(&g.items[0])
							switch {
							case err == nil && (!found || !ended.Equal(at.(time.Time)) || ended.After(until)):
								t.Errorf("answered at %s, the answer came at %v, the deadline was %s", ended, at, until)
							case err == nil:
								answered.Add(1)
							case !errors.Is(err, timestamplog.ErrUnreachable) || !ended.Equal(until) || found && at.(time.Time).Before(until):
								t.Errorf("%v at %s, the answer came at %v, the deadline was %s", err, ended, at, until)
							default:
								late.Add(1)
							}
						})
					}
					group.Wait()
					time.Sleep(2 * time.Second) // the calls end too
					synctest.Wait()
					if b.inFlight != 0 || len(b.deadlines.groups) != 0 {
						t.Fatalf("%d calls and %d deadlines are left", b.inFlight, len(b.deadlines.groups))
					}
				}
				if answered.Load() < 100 || late.Load() < 100 {
					t.Errorf("%d callers were answered and %d came too late", answered.Load(), late.Load())
				}
			})
		})
	}
}

// The wait of each watched caller ends at its own deadline, in whatever order the callers came,
// and a later answer is dropped.
func TestWatchedCallersStopWaitingAtTheirOwnDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tr := newBatcher()
		began := time.Now()
		for _, wait := range []time.Duration{70, 30, 110, 50} {
			go func() {
				err := <-decide(watched(wait*time.Millisecond), b, 1)
				if waited := time.Since(began); !errors.Is(err, timestamplog.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) || waited != wait*time.Millisecond {
					t.Errorf("a caller with %dms: %v after %s", wait, err, waited)
				}
			}()
			synctest.Wait()
		}
		time.Sleep(200 * time.Millisecond)
		tr.sizes()
		again := decide(watched(time.Second), b, 1)
		wantSizes(t, tr, 1)
		tr.answer <- nil
		if err := <-again; err != nil {
			t.Error(err)
		}
	})
}
