// Package supervise runs the functions of goroutines, so that a panic in one of them does not
// end the process. A panic is logged with its stack, counted, and becomes an error or a
// restart. Every goroutine of the service must begin with Run, Call or Do; a test searches the
// source for others.
package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// How long Run pauses after a panic: FirstPause, doubled with each further panic up to
// LongestPause. After SteadyAfter without a panic it starts with FirstPause again.
const (
	FirstPause   = time.Second
	LongestPause = time.Minute
	SteadyAfter  = 5 * time.Minute
)

// Panic is a panic as an error.
type Panic struct {
	Name  string // of the goroutine
	Value any
	Stack []byte
}

// Error returns the goroutine's name and the panic's value, without the stack.
func (p *Panic) Error() string { return fmt.Sprintf("%s panicked: %v", p.Name, p.Value) }

var (
	logger atomic.Pointer[slog.Logger]

	mu     sync.Mutex
	panics = map[string]int64{}
)

// LogTo sets the logger for panics. The default is slog.Default().
func LogTo(l *slog.Logger) { logger.Store(l) }

// Panics returns the number of panics since the process started, by name. It omits names
// without panics.
func Panics() map[string]int64 {
	mu.Lock()
	defer mu.Unlock()
	return maps.Clone(panics)
}

// Run calls work until it returns or ctx ends. After a panic it pauses and calls work again, so
// work must be able to continue from any state. name is a constant that describes the work; it
// is a label of a metric.
func Run(ctx context.Context, name string, work func(context.Context)) {
	pause := FirstPause
	for {
		begun := time.Now()
		err := Call(name, func() error { work(ctx); return nil })
		if err == nil {
			return
		}
		if time.Since(begun) >= SteadyAfter {
			pause = FirstPause
		}
		if Sleep(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, LongestPause)
	}
}

// Call calls do once. A panic is logged and counted, and returned as a *Panic.
func Call(name string, do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = report(&Panic{Name: name, Value: value, Stack: debug.Stack()})
		}
	}()
	return do()
}

// Do calls do once, for work without a result. A panic is logged and counted.
func Do(name string, do func()) {
	_ = Call(name, func() error { do(); return nil }) // the error is already logged
}

func report(p *Panic) *Panic {
	mu.Lock()
	panics[p.Name]++
	mu.Unlock()
	l := logger.Load()
	if l == nil {
		l = slog.Default()
	}
	l.Error("a goroutine panicked; the process goes on", "goroutine", p.Name, "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
	return p
}
