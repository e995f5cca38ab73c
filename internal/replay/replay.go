// Package replay sends the requests of an access log to a running server, at their
// original pace or a multiple of it, and reports the answers.
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
	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/wire"
)

// Doer sends a request over HTTP, as *http.Client does. It must be safe for concurrent use.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Options configure Run. Only URL is required.
type Options struct {
	// URL is the address of the check listener: "http://127.0.0.1:8080".
	URL string
	// Token is the bearer token of the check listener. Empty sends none.
	Token string
	// Policy is the policy of every check. Empty selects it by the key.
	Policy string
	// Outcomes says what is reported of the requests that are allowed; nil for nothing. A
	// request that is refused would have had no outcome.
	Outcomes accesslog.Outcomes
	// Speed is the multiple of the original pace. 0 sends each request as soon as a
	// caller is free.
	Speed float64
	// Callers is the maximum number of concurrent requests. 0 means 64.
	Callers int
	// Client sends the requests. nil means an http.Client with a timeout of 10 s.
	Client Doer
	// Progress, if not nil, is called from time to time with the number of answers, by
	// the goroutine that called Run.
	Progress func(answered int64)
}

// DefaultCallers is the number of concurrent requests if Options name none.
const DefaultCallers = 64

const (
	maxCallers    = 10_000
	answerTimeout = 10 * time.Second
	// queueLength is the number of requests that may wait for one caller, so that a
	// burst of one key does not delay all other keys at once.
	queueLength = 64
	// progressEvery is the number of requests between two calls of Progress.
	progressEvery = 100
)

// Run sends the requests of source, which must be ordered by time, and reports the
// answers. Requests of one key are sent one after another, those of different keys
// concurrently. A request without an answer is counted and not repeated. The report is
// valid even with an error: of the context, the source or the options, ErrToken, ErrPolicy or
// ErrNoAnswer.
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
		err = cause // why dispatch ended
	}
	return s.report(time.Since(start)), err
}

// sender sends the requests of one Run.
type sender struct {
	options   Options
	checkURL  string
	reportURL string
	callers   []*caller
	running   sync.WaitGroup
	answered  atomic.Int64
	stop      context.CancelCauseFunc
	maxLag    time.Duration
}

// caller sends the requests of its share of the keys, one after another.
type caller struct {
	*sender
	queue  chan accesslog.Record
	counts counts
	names  []string // reused by reportOutcomes
}

// Check returns an error that says which of the options is wrong.
func (o Options) Check() error {
	base, err := url.Parse(o.URL)
	switch {
	case err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "":
		return fmt.Errorf("the URL %q is invalid; use the address of the check listener, for example http://127.0.0.1:8080", o.URL)
	case math.IsNaN(o.Speed) || math.IsInf(o.Speed, 0) || o.Speed < 0:
		return fmt.Errorf("the speed %v is invalid; use a multiple of the original pace, for example 60, or 0 for no pauses", o.Speed)
	case o.Callers < 0 || o.Callers > maxCallers:
		return fmt.Errorf("the number of callers is %d; it must be from 1 to %d", o.Callers, maxCallers)
	}
	return nil
}

func newSender(o Options) (*sender, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	base, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Callers == 0 {
		o.Callers = DefaultCallers
	}
	if o.Client == nil {
		o.Client = newClient(o.Callers)
	}
	return &sender{options: o, checkURL: base.JoinPath("v1", "check").String(), reportURL: base.JoinPath("v1", "report").String()}, nil
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
		c := &caller{sender: s, queue: make(chan accesslog.Record, queueLength), counts: newCounts()}
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

// after returns the delay from the first request to one that is ms milliseconds later in
// the log.
func (s *sender) after(ms int64) time.Duration {
	if s.options.Speed == 0 {
		return 0
	}
	wait := float64(ms) * float64(time.Millisecond) / s.options.Speed
	return time.Duration(min(max(wait, 0), math.MaxInt64/2))
}

// await waits until due, or records the lag if that has passed.
func (s *sender) await(ctx context.Context, due time.Time) error {
	wait := time.Until(due)
	if wait <= 0 {
		if s.options.Speed > 0 {
			s.maxLag = max(s.maxLag, -wait)
		}
	}
	return supervise.Sleep(ctx, wait)
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

// ErrToken ends a replay at once, because every further answer would be the same.
var ErrToken = errors.New("the check listener refuses the token; use a valid one")

// ErrPolicy ends a replay at once, for the same reason.
var ErrPolicy = errors.New("the server has no such policy")

// ErrNoAnswer ends a replay that the server has not answered once.
var ErrNoAnswer = errors.New("no answer from the server")

func (c *caller) send(ctx context.Context, record accesslog.Record) {
	sent := time.Now()
	answer, err := c.check(ctx, record)
	took := time.Since(sent)
	switch {
	case ctx.Err() != nil: // cancelled, not failed
		return
	case errors.Is(err, ErrToken), errors.Is(err, ErrPolicy):
		c.stop(err)
		return
	case err != nil && c.answered.Load() == 0:
		c.stop(fmt.Errorf("%w: %w", ErrNoAnswer, err))
		return
	}
	if err == nil {
		c.answered.Add(1)
	}
	c.counts.add(answer, err, took)
	if answer.Decision == wire.Allowed {
		c.reportOutcomes(ctx, record)
	}
}
