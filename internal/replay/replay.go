// Package replay sends the requests of an access log to a running Stint, at
// the pace at which they came or a multiple of it, and reports what it
// answered.
package replay

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
)

// Doer sends a request over HTTP; *http.Client is one. It is used by many
// goroutines at once.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Options say where and how fast to send. Only URL is needed.
type Options struct {
	// URL is that of the check listener: "http://127.0.0.1:8080".
	URL string
	// Token is the bearer token of the check listener, "" for none.
	Token string
	// Policy is asked for by name in every check, "" lets the key select it.
	Policy string
	// Speed is how many times faster than they came the requests are sent. 0
	// sends each as soon as there is a caller for it.
	Speed float64
	// Callers is how many requests may be on their way at once. 0 means 64.
	Callers int
	// Client sends the requests. nil means one that waits 10 s for an answer.
	Client Doer
	// Progress, if not nil, is told now and then how many were answered. It is
	// called by the goroutine that called Run.
	Progress func(answered int64)
}

const (
	defaultCallers = 64
	maxCallers     = 10_000
	answerTimeout  = 10 * time.Second
	// queueLength is how many requests may wait for one caller. It keeps a
	// burst of one key from holding up all the others at once.
	queueLength = 64
	// progressEvery is after how many requests the progress is told.
	progressEvery = 100
)

// Run sends the requests of source, which must be in the order of time, and
// returns what was answered. Requests of one key are sent one after another;
// those of different keys at once. A request without an answer is counted and
// not repeated. The report holds what was done even when there is an error: of
// the context, of the source, of the options, or because Stint refuses the
// token or has never answered at all.
func Run(ctx context.Context, source accesslog.Source, o Options) (*Report, error) {
	s, err := newSender(o)
	if err != nil {
		return &Report{}, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.stop = stop
	start := time.Now()
	s.startCallers(ctx)
	err = s.dispatch(ctx, source, start)
	s.finish()
	if cause := context.Cause(ctx); cause != nil {
		err = cause // the reason for whatever dispatch ended with
	}
	return s.report(time.Since(start)), err
}

// sender sends the requests of one Run.
type sender struct {
	options  Options
	checkURL string
	callers  []*caller
	running  sync.WaitGroup
	answered atomic.Int64
	stop     context.CancelCauseFunc
	maxLag   time.Duration
}

// caller sends the requests of its share of the keys, one after another.
type caller struct {
	*sender
	queue chan accesslog.Record
	tally tally
}

func newSender(o Options) (*sender, error) {
	base, err := url.Parse(o.URL)
	switch {
	case err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "":
		return nil, fmt.Errorf("the URL %q is bad; write that of the check listener, for example http://127.0.0.1:8080", o.URL)
	case math.IsNaN(o.Speed) || math.IsInf(o.Speed, 0) || o.Speed < 0:
		return nil, fmt.Errorf("the speed %v is bad; write how many times faster than real time, for example 60, or 0 for no pauses", o.Speed)
	case o.Callers < 0 || o.Callers > maxCallers:
		return nil, fmt.Errorf("%d callers are out of bounds; write 1 to %d", o.Callers, maxCallers)
	}
	if o.Callers == 0 {
		o.Callers = defaultCallers
	}
	if o.Client == nil {
		o.Client = newClient(o.Callers)
	}
	return &sender{options: o, checkURL: base.JoinPath("v1", "check").String()}, nil
}

// newClient returns a client that keeps a connection for each caller.
func newClient(callers int) *http.Client {
	return &http.Client{
		Timeout:   answerTimeout,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: callers, IdleConnTimeout: time.Minute},
	}
}

func (s *sender) startCallers(ctx context.Context) {
	for range s.options.Callers {
		c := &caller{sender: s, queue: make(chan accesslog.Record, queueLength), tally: newTally()}
		s.callers = append(s.callers, c)
		s.running.Go(func() { c.run(ctx) })
	}
}

// dispatch hands each request to the caller of its key when its time has come.
func (s *sender) dispatch(ctx context.Context, source accesslog.Source, start time.Time) error {
	seed := maphash.MakeSeed()
	first := int64(0)
	for n := int64(0); ; n++ {
		record, err := source.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if n == 0 {
			first = record.Time
		}
		if err := s.await(ctx, start.Add(s.after(record.Time-first))); err != nil {
			return err
		}
		c := s.callers[maphash.String(seed, record.Key.String())%uint64(len(s.callers))]
		select {
		case c.queue <- record:
		case <-ctx.Done():
			return ctx.Err()
		}
		if s.options.Progress != nil && n%progressEvery == 0 {
			s.options.Progress(s.answered.Load())
		}
	}
}

// after returns how long after the first request one is sent that came ms
// milliseconds after it.
func (s *sender) after(ms int64) time.Duration {
	if s.options.Speed == 0 {
		return 0
	}
	wait := float64(ms) * float64(time.Millisecond) / s.options.Speed
	return time.Duration(min(max(wait, 0), math.MaxInt64/2))
}

// await waits until due and remembers how late it is when that has passed.
func (s *sender) await(ctx context.Context, due time.Time) error {
	wait := time.Until(due)
	if wait <= 0 {
		if s.options.Speed > 0 {
			s.maxLag = max(s.maxLag, -wait)
		}
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *sender) finish() {
	for _, c := range s.callers {
		close(c.queue)
	}
	s.running.Wait()
	if s.options.Progress != nil {
		s.options.Progress(s.answered.Load())
	}
	if client, ok := s.options.Client.(*http.Client); ok {
		client.CloseIdleConnections()
	}
}

func (c *caller) run(ctx context.Context) {
	for record := range c.queue {
		if ctx.Err() == nil {
			c.send(ctx, record)
		}
	}
}

// errToken ends a replay at once: every further answer would be the same.
var errToken = errors.New("the token is refused by the check listener; give one that it knows")

func (c *caller) send(ctx context.Context, record accesslog.Record) {
	sent := time.Now()
	answer, err := c.check(ctx, record)
	took := time.Since(sent)
	switch {
	case ctx.Err() != nil: // cut off, not failed
		return
	case errors.Is(err, errToken):
		c.stop(err)
		return
	case err != nil && c.answered.Load() == 0:
		c.stop(fmt.Errorf("no answer from Stint: %w", err))
		return
	}
	if err == nil {
		c.answered.Add(1)
	}
	c.tally.count(answer, err, took)
}
