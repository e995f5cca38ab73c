// Package eventlog writes decisions and changes where other programs look for them: as JSON lines with the
// fields of the Elastic Common Schema to standard output or a file, or as syslog (RFC 5424) over TCP and TLS.
//
// A check never waits for it. What the writer has not written yet is bounded; what does not fit is counted, and
// a line says how much that was. What is written for syslog is on disk first, in a Backlog that is bounded too, and
// is sent again if the connection breaks: a receiver may see a line twice, with the same event.id.
package eventlog

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/supervise"
)

// Bounds of the writer.
const (
	maxWaiting = 8192 // events that are not written yet
	maxBatch   = 512  // events that are written at once
	// retryAfter is how long the writer waits after an error.
	retryAfter = time.Second
)

// Target is where events are written. The zero value is nowhere.
type Target struct {
	Stdout bool
	File   string // absolute path
	Syslog string // host:port
	TLS    bool   // for Syslog
}

// errTarget is the error of a text that names no target.
const errTarget = "must be stdout, the path of a file such as /var/log/stint/events.json, syslogs://host:6514 for syslog over TLS, or syslog://host:601 for syslog without"

// ParseTarget reads a target: "", "stdout", an absolute path, or a URL of the scheme syslogs or syslog.
func ParseTarget(text string) (Target, error) {
	switch {
	case text == "":
		return Target{}, nil
	case text == "stdout":
		return Target{Stdout: true}, nil
	case filepath.IsAbs(text) && !strings.HasSuffix(text, "/"):
		return Target{File: filepath.Clean(text)}, nil
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "syslog" && u.Scheme != "syslogs") || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return Target{}, errors.New(errTarget)
	}
	t := Target{Syslog: u.Host, TLS: u.Scheme == "syslogs"}
	if host, port, err := net.SplitHostPort(u.Host); err != nil || host == "" || port == "" {
		return Target{}, errors.New(errTarget + "; the port is missing")
	}
	return t, nil
}

// IsZero reports whether t is nowhere.
func (t Target) IsZero() bool { return t == Target{} }

// String returns what ParseTarget reads.
func (t Target) String() string {
	switch {
	case t.Stdout:
		return "stdout"
	case t.Syslog != "" && t.TLS:
		return "syslogs://" + t.Syslog
	case t.Syslog != "":
		return "syslog://" + t.Syslog
	}
	return t.File
}

// Settings are what an operator sets.
type Settings struct {
	To Target
	// Allowed is the ratio of allowed checks that are written, 0 to 1. Everything else is written.
	Allowed float64
	// Size bounds the bytes of the file with those before it, or of the backlog.
	Size int64
	TLS  TLSFiles
}

// Options configure a Log.
type Options struct {
	Settings

	// Backlog is the folder for what waits for syslog.
	Backlog string
	// Node and Version are the name of this node and the version of this program.
	Node, Version         string
	OmitPaths, OmitAgents bool
	Parser                func() keys.Parser
	Stdout                io.Writer
	Log                   *slog.Logger
	Now                   func() time.Time
}

// output takes lines. Its write returns when they would outlive a crash of this process.
type output interface {
	write(lines []byte) error
	// stop says that the node stops: a write that does not end soon fails from then on.
	stop()
	// lost returns how many lines were deleted unread since the last call.
	lost() int64
	close() error
}

// Log writes events. It is safe for concurrent use.
type Log struct {
	o       Options
	queue   chan entry
	omitted atomic.Int64 // events that did not fit into queue since the last line about it
	total   atomic.Int64
	// run and count make the id of each decision: that of its refusal is shared by all of a key and minute.
	run   string
	count atomic.Uint64

	mu  sync.Mutex // for out, while it writes
	out output

	stateMu sync.Mutex
	state   State

	// unwritten are lines that Run could not write before its end.
	unwritten []byte
	sender    *sender // nil without syslog
}

// State says whether events are written, or for syslog sent.
type State struct {
	Good  time.Time // when one last was, zero for never
	Err   error     // of the last attempt, nil if it succeeded
	Since time.Time // of the first of the present failures
}

func (s *State) done(at time.Time, err error) {
	if err == nil {
		*s = State{Good: at}
		return
	}
	if s.Err == nil {
		s.Since = at
	}
	s.Err = err
}

// entry is a decision that waits, with what an Event does not have.
type entry struct {
	events.Event
	agent string
}

var _ gate.Recorder = (*Log)(nil)

// New opens the target. The error is one line and names what is wrong.
func New(o Options) (*Log, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Log{o: o, queue: make(chan entry, maxWaiting), run: crand.Text()[:12]}
	var err error
	switch {
	case o.To.Stdout:
		l.out = &stdout{to: o.Stdout, end: make(chan struct{})}
	case o.To.File != "":
		l.out, err = openFile(o.To.File, o.Size)
	default:
		var s *backlog
		if s, err = openBacklog(o.Backlog, o.Size); err != nil {
			break
		}
		l.out = s
		l.sender, err = newSender(s, &o)
	}
	return l, err
}

// Record implements gate.Recorder.
func (l *Log) Record(d *gate.Decision) {
	if !events.IsEvent(d) || (events.IsAllowed(d) && (l.o.Allowed == 0 || rand.Float64() >= l.o.Allowed)) { //nolint:gosec // a sample
		return
	}
	if len(l.queue) == cap(l.queue) { // so that no text is copied in vain
		l.omit()
		return
	}
	e := entry{Event: events.Of(d, l.o.Parser(), l.o.OmitPaths)}
	if !l.o.OmitAgents {
		e.agent = strings.Clone(d.Check.Request.Value(conditions.Agent))
	}
	select {
	case l.queue <- e:
	default:
		l.omit()
	}
}

func (l *Log) omit() {
	l.omitted.Add(1)
	l.total.Add(1)
}

// Omitted returns how many events were not written, since they came faster than they could be, or were deleted
// from the backlog before they were sent.
func (l *Log) Omitted() int64 { return l.total.Load() }

// Waiting returns how many bytes wait on disk for the receiver, 0 without syslog.
func (l *Log) Waiting() int64 {
	if l.sender == nil {
		return 0
	}
	return l.sender.backlog.waiting()
}

// State returns whether events are written and sent.
func (l *Log) State() State {
	l.stateMu.Lock()
	state := l.state
	l.stateMu.Unlock()
	if l.sender == nil || state.Err != nil {
		return state
	}
	return l.sender.read()
}

// Run writes what Record receives until ctx ends. Call Close afterwards.
func (l *Log) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { supervise.Do("event log", l.out.stop) })()
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-l.queue:
			l.writeAll(ctx, l.batch(first))
		}
	}
}

// Send sends what is kept for syslog until ctx ends. It returns at once for other targets.
func (l *Log) Send(ctx context.Context) {
	if l.sender != nil {
		l.sender.run(ctx)
	}
}

// Close writes what waits in memory, and closes the target. The error says that something is lost.
func (l *Log) Close() error {
	lines := l.unwritten
	for more := true; more; {
		select {
		case first := <-l.queue:
			lines = append(lines, l.batch(first)...)
		default:
			more = false
		}
	}
	var err error
	if len(lines) > 0 || l.omitted.Load() > 0 {
		err = l.write(lines)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(err, l.out.close())
}

// batch encodes an event and those that wait after it.
func (l *Log) batch(first entry) []byte {
	lines := l.decision(nil, &first)
	for range maxBatch {
		select {
		case e := <-l.queue:
			lines = l.decision(lines, &e)
		default:
			return lines
		}
	}
	return lines
}

// writeAll writes lines as often as it takes. Meanwhile the queue fills, and what does not fit is counted.
func (l *Log) writeAll(ctx context.Context, lines []byte) {
	for l.write(lines) != nil {
		wait := time.NewTimer(retryAfter)
		select {
		case <-ctx.Done():
			wait.Stop()
			l.unwritten = lines // Close tries it once more
			return
		case <-wait.C:
		}
	}
}

// write writes lines, and how many are missing before them.
func (l *Log) write(lines []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.out.lost()
	l.total.Add(lost)
	missing := l.omitted.Swap(0) + lost
	if missing > 0 {
		lines = append(l.missing(missing), lines...)
	}
	err := l.out.write(lines)
	if err != nil {
		l.omitted.Add(missing)
	}
	l.done(err)
	return err
}

func (l *Log) done(err error) {
	l.stateMu.Lock()
	defer l.stateMu.Unlock()
	if err != nil && l.state.Err == nil {
		l.o.Log.Error("events cannot be written to the event log", "to", l.o.To.String(), "error", err)
	}
	if err == nil && l.state.Err != nil {
		l.o.Log.Info("events are written to the event log again", "to", l.o.To.String())
	}
	l.state.done(l.o.Now(), err)
}

// Changes writes changes, and returns nil once they would outlive a crash.
func (l *Log) Changes(all []events.Event) error {
	var lines []byte
	for i := range all {
		lines = l.change(lines, &all[i])
	}
	return l.write(lines)
}

// stdout writes lines to standard output, which may be a pipe that nobody reads.
type stdout struct {
	to  io.Writer
	end chan struct{} // closed by stop
	// writing is closed when the last write has ended. It is nil before the first.
	writing chan struct{}
}

// lastWrite is how long a write may take after the node began to stop.
const lastWrite = 2 * time.Second

var errStuck = errors.New("standard output is not read")

func (s *stdout) write(lines []byte) error {
	if s.writing != nil && !s.await(s.writing) { // a write that was given up
		return errStuck
	}
	done, result := make(chan struct{}), error(nil)
	s.writing = done
	go func() {
		defer close(done)
		result = supervise.Call("event log", func() error {
			_, err := s.to.Write(lines)
			return err
		})
	}()
	switch {
	case !s.await(done):
		return errStuck
	case result != nil:
		return fmt.Errorf("standard output: %w", result)
	}
	return nil
}

// await waits for the end of a write, and reports false if it takes long while the node stops.
func (s *stdout) await(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-s.end:
	}
	longest := time.NewTimer(lastWrite)
	defer longest.Stop()
	select {
	case <-done:
		return true
	case <-longest.C:
		return false
	}
}

func (s *stdout) stop()      { close(s.end) }
func (*stdout) lost() int64  { return 0 }
func (*stdout) close() error { return nil }
