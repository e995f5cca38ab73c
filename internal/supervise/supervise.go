// Package supervise starts the work of goroutines, so that a panic in one of
// them does not end the process: it is logged with its stack, counted, and
// becomes an error or a restart. A goroutine of the service begins with Run,
// Call or Do and with nothing else; a test reads the source for others.
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

// How long Run pauses after a panic: FirstPause, doubled with each further
// panic up to LongestPause. Work that ran for SteadyAfter begins with
// FirstPause again.
const (
	FirstPause   = time.Second
	LongestPause = time.Minute
	SteadyAfter  = 5 * time.Minute
)

// Panic is the error that a panic became.
type Panic struct {
	Name  string // of the goroutine
	Value any
	Stack []byte
}

// Error names the goroutine and what it panicked with, without the stack.
func (p *Panic) Error() string { return fmt.Sprintf("%s panicked: %v", p.Name, p.Value) }

var (
	logger atomic.Pointer[slog.Logger]

	mu     sync.Mutex
	panics = map[string]int64{}
)

// LogTo sets where panics are logged; until it is called, slog.Default().
func LogTo(l *slog.Logger) { logger.Store(l) }

// Panics returns how many panics each goroutine has had since the process
// began, by name. A goroutine without one is left out.
func Panics() map[string]int64 {
	mu.Lock()
	defer mu.Unlock()
	return maps.Clone(panics)
}

// Run calls work until it returns or ctx ends. After a panic it pauses and
// calls work again, so work must be able to begin from what it left behind.
// name is a constant that says what the work is; it is a label of a metric.
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

// Call calls do once. A panic is logged and counted and becomes a *Panic.
func Call(name string, do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = report(&Panic{Name: name, Value: value, Stack: debug.Stack()})
		}
	}()
	return do()
}

// Do calls do once, for work that nobody waits for. A panic is logged and
// counted.
func Do(name string, do func()) {
	_ = Call(name, func() error { do(); return nil }) // nobody is there to hear of it; report has logged it
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
