// Package logfollow checks the requests of access logs while the logs grow, through their
// rotation and through restarts of the program and of the server. A line is charged at
// most once: it is sent with an idempotency key made of its file and offset, and the
// state file records what is being sent before it is sent.
package logfollow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/answers"
)

// Server answers checks, as *client.Client does. An error matches *client.OutageError if
// asking again may help.
type Server interface {
	Batch(ctx context.Context, checks []client.Check) ([]client.BatchItem, error)
	ReportBatch(ctx context.Context, reports []client.Report) ([]client.ReportItem, error)
}

// Options configure Run.
type Options struct {
	// Read says how lines are parsed. With a Key, the proxy in front of which clients
	// seem to be is not looked for.
	Read   accesslog.Options
	Server Server
	// Policy is the policy of every check. Empty selects it by the key.
	Policy string
	// Outcomes says which outcomes are reported; nil for none.
	Outcomes answers.Outcomes
	// OutcomesOnly sends reports and no checks, where somebody else asks about each request.
	OutcomesOnly bool
	// State is the path of the state file.
	State string
	// FromStart reads a log without a saved position from its beginning, with the
	// predecessors that are not too old, and not from its end.
	FromStart bool
	// MaxAge is how old a line may be to be checked; 0 for any age.
	MaxAge time.Duration
	// Once ends when the logs are read to their ends.
	Once bool
	// Speed, if not nil, sends whole logs, compressed ones too, at the pace of their lines times
	// Speed, 0 for no pauses. Lines of any age are sent, no position is read or saved, and a server
	// that never answers ends Run with ErrNoAnswer. Once, FromStart and MaxAge are then ignored.
	Speed *float64
	// SummaryEvery is how often a line is logged that says what was done. 0 means a minute.
	SummaryEvery time.Duration
	// DryRun, if not nil, receives each request and its outcomes in the place of the server,
	// and no state is written. Its error ends Run.
	DryRun func(file string, r *accesslog.Record, outcomes []string) error
	// Progress, if not nil, gets what was done, after each batch.
	Progress *Progress
	// Logf writes a line for the operator.
	Logf func(format string, args ...any)
	// Now is the clock that lines are compared with. nil means time.Now.
	Now func() time.Time
}

const (
	// pollEvery is how often the files are looked at.
	pollEvery = 100 * time.Millisecond
	// maxRound and maxRoundSize bound what is read before it is sent, in lines and bytes.
	maxRound     = 4000
	maxRoundSize = 8 << 20
)

// Run follows the logs at paths until ctx ends, and then finishes what is being sent. The
// summary is valid even with an error.
func Run(ctx context.Context, paths []string, o Options) (*Summary, error) {
	f := &follower{o: o, started: time.Now()}
	if f.o.Now == nil {
		f.o.Now = time.Now
	}
	if f.o.SummaryEvery <= 0 {
		f.o.SummaryEvery = time.Minute
	}
	if f.o.Speed != nil {
		f.o.Once, f.o.FromStart, f.o.MaxAge = true, true, 0
		f.pace = &pace{speed: *f.o.Speed}
	}
	f.summarizedAt = f.started
	defer f.close()
	if err := f.open(paths); err != nil {
		return &f.counts, err
	}
	return &f.counts, f.run(ctx)
}

// follower is the work of one Run.
type follower struct {
	o       Options
	logs    []*rotatedLog
	file    *stateFile // nil in a dry run
	saved   *state
	isDirty bool // the state has changed since it was saved
	first   int  // the log that is read first
	pending []pendingCheck
	size    int // of pending, in bytes
	// sendingAt is when the checks that are being sent may first have been sent; zero if none
	// are.
	sendingAt time.Time
	// pace holds lines back, nil if they are sent as they come.
	pace      *pace
	siteKnown string // what logSite has logged
	// outcomes are the outcomes of the last line.
	outcomes []string
	// dryRunErr is the error of Options.DryRun, which ends Run.
	dryRunErr error

	counts, summarized    Summary
	started, summarizedAt time.Time
	maxLag                time.Duration
}

// open reads the state and opens the logs.
func (f *follower) open(paths []string) (err error) {
	switch {
	case f.pace != nil:
		f.saved = &state{Version: stateVersion, Logs: map[string]*logState{}}
	case f.o.DryRun != nil:
		f.saved, err = readState(f.o.State)
	default:
		f.file, f.saved, err = openState(f.o.State)
	}
	if err != nil {
		return err
	}
	if site := f.o.Outcomes.Site(); site != nil && f.saved.Site != nil {
		if err := site.Restore(f.saved.Site); err != nil {
			return damagedState(f.o.State, err)
		}
		f.logSite()
	}
	for _, path := range paths {
		if path, err = filepath.Abs(path); err != nil {
			return err
		}
		if err := f.checkPath(path); err != nil {
			return err
		}
		l := &rotatedLog{path: path, read: f.o.Read, isOnce: f.o.Once, isWhole: f.pace != nil, logf: f.o.Logf}
		f.logs = append(f.logs, l)
		from := "the saved position"
		if saved := f.saved.Logs[path]; saved != nil && len(saved.Files) > 0 {
			if err := l.resume(saved, f.saved.SavedAt); err != nil {
				return err
			}
		} else {
			if err := l.start(f.o.FromStart, f.oldest()); err != nil {
				return err
			}
			from = fmt.Sprintf("byte %d", l.current.offset)
		}
		// A log that is followed already is not judged: who sends most of the requests
		// could keep it from being followed.
		if err := l.judge(); err != nil && f.saved.Logs[path] == nil && (f.pace == nil || !errors.As(err, new(*ProxyError))) {
			return err
		} else if err != nil {
			f.o.Logf("Warning: %v.", err)
		}
		f.o.Logf("Following %q from %s.", path, from)
	}
	return f.save()
}

// checkPath refuses a path that is, or may become, the same file as another one: its lines
// would be charged twice.
func (f *follower) checkPath(path string) error {
	info, err := os.Stat(path)
	if err != nil && !(isMissing(err) && f.saved.Logs[path] != nil) {
		return err
	}
	for _, l := range f.logs {
		other, err := os.Stat(l.path)
		switch {
		case l.path == path, err == nil && info != nil && os.SameFile(info, other):
			return &accesslog.InputError{Err: fmt.Errorf("%q and %q are the same file; name it once", l.path, path)}
		case filepath.Dir(l.path) != filepath.Dir(path):
		case isPredecessor(filepath.Base(path), filepath.Base(l.path)):
			return rotatedFile(path, l.path)
		case isPredecessor(filepath.Base(l.path), filepath.Base(path)):
			return rotatedFile(l.path, path)
		}
	}
	return nil
}

func rotatedFile(path, of string) error {
	return &accesslog.InputError{Err: fmt.Errorf("%q is a rotated file of %q, and is found without being named", path, of)}
}

// oldest returns the time before which lines are too old.
func (f *follower) oldest() time.Time {
	if f.o.MaxAge <= 0 {
		return time.Time{}
	}
	return f.o.Now().Add(-f.o.MaxAge)
}

// run reads and sends until ctx ends.
func (f *follower) run(ctx context.Context) error {
	every := pollEvery
	if f.pace != nil {
		every = paceEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		now := time.Now()
		for _, l := range f.logs {
			l.err = l.poll(now)
		}
		f.pace.beginRound(now)
		isFull := f.collect(now)
		if f.dryRunErr != nil {
			return f.dryRunErr
		}
		if err := f.send(ctx); err != nil {
			return err
		}
		f.logSummary(time.Now())
		f.o.Progress.publish(f, time.Time{}, false)
		if err := unknownFormat(f.logs); err != nil && f.o.Once {
			return err
		}
		if isFull && ctx.Err() == nil {
			continue
		}
		if f.isDirty {
			if err := f.save(); err != nil {
				return err
			}
		}
		if ctx.Err() != nil || f.o.Once && f.isAtEnd() {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// unknownFormat returns the error of a log whose lines have no known format, nil if there
// is none. Only new lines can end it.
func unknownFormat(logs []*rotatedLog) error {
	for _, l := range logs {
		if unknown := (*formatError)(nil); errors.As(l.err, &unknown) {
			return l.err
		}
	}
	return nil
}

// isAtEnd reports whether everything was read. The last lines of rotated files are read
// first, though they have no end.
func (f *follower) isAtEnd() bool {
	isAtEnd := true
	for _, l := range f.logs {
		for _, t := range l.old {
			if !t.isFinal {
				t.isFinal, isAtEnd = true, false
			}
			isAtEnd = isAtEnd && t.isAtEnd() && t.start == t.end
		}
		if l.current != nil {
			isAtEnd = isAtEnd && l.current.isAtEnd() && (!l.isWhole || l.current.start == l.current.end)
		}
		for _, t := range l.tails() {
			isAtEnd = isAtEnd && t.held == nil
		}
	}
	return isAtEnd
}

// collect reads lines into f.pending. isFull says that there may be more.
func (f *follower) collect(now time.Time) (isFull bool) {
	f.pending, f.size = f.pending[:0], 0
	f.first++
	for i := range f.logs {
		l := f.logs[(f.first+i)%len(f.logs)]
		for _, t := range l.tails() {
			n, err := f.collectFrom(l, t)
			if t.packed != nil && t.packed.Ignored() > 0 {
				f.o.Logf("Warning: %q: %s.", t.name, accesslog.IgnoredText(t.packed.Ignored()))
				t.packed = nil
			}
			if n > 0 {
				t.retiredAt, f.isDirty = now, true
			}
			switch {
			case err == nil, errors.Is(err, errTruncated): // the next poll deals with it
			case t.unpacked != nil:
				f.o.Logf("%v: the rest of the file is not read.", err)
				t.abandon()
			default:
				l.err = err
			}
		}
		l.report()
	}
	return len(f.pending) >= maxRound || f.size >= maxRoundSize
}

// collectFrom reads the lines of one file and returns how many there were.
func (f *follower) collectFrom(l *rotatedLog, t *tail) (n int, err error) {
	parser, err := l.parserOf(t)
	if err != nil || parser == nil {
		return 0, err
	}
	for len(f.pending) < maxRound && f.size < maxRoundSize && f.dryRunErr == nil {
		if t.held != nil {
			if !f.pace.isDue(t.held.record.Time) {
				return n, nil
			}
			held := t.held
			t.held = nil
			f.take(l, t, &held.record, held.line)
			n++
			continue
		}
		line, ok, err := t.next()
		if err != nil || !ok {
			return n, err
		}
		n++
		if parser.IsBlank(line.text) {
			continue
		}
		pending, isPending := t.uncertain.lineAt(line.start)
		if line.isLong {
			if isPending {
				f.counts.Lines++
				f.bad(t.name, line, accesslog.ErrLongLine)
			}
			continue
		}
		r, err := parser.Parse(line.text) // also of a line that was answered, which may be a part of the next
		if !isPending || errors.Is(err, accesslog.ErrPart) {
			continue // an earlier process had its answer
		}
		f.counts.Lines++
		if errors.Is(err, accesslog.ErrSkipped) {
			f.counts.Skipped++
			continue
		}
		if err != nil {
			f.bad(t.name, line, err)
			continue
		}
		if f.pace != nil && !f.pace.isDue(r.Time) {
			t.held = &heldLine{record: r, line: pending}
			n--
			continue
		}
		f.take(l, t, &r, pending)
	}
	return n, nil
}

// take takes a request to be checked.
func (f *follower) take(l *rotatedLog, t *tail, r *accesslog.Record, pending pendingLine) {
	if l.sample.lines < minSample && l.read.Key == "" {
		l.sample.add(r)
		if err := l.checkSample(); err != nil {
			f.o.Logf("Warning: %v.", err)
		}
	}
	if f.o.DryRun != nil {
		r.Learn(f.o.Outcomes)
		f.outcomes = r.AppendOutcomes(f.outcomes[:0], f.o.Outcomes)
		f.dryRunErr = f.o.DryRun(t.name, r, f.outcomes)
		return
	}
	f.add(t, r, pending)
}

// accept marks everything that was read as checked.
func (f *follower) accept() {
	for _, l := range f.logs {
		for _, t := range l.tails() {
			t.done = t.offset
			if t.uncertain.to <= t.done {
				t.uncertain = uncertainLines{}
			}
		}
	}
	for i := range f.pending {
		t := f.pending[i].tail
		t.lastTime = max(t.lastTime, f.pending[i].at)
	}
	f.pending = f.pending[:0]
	f.isDirty = true
}

// save writes the state.
func (f *follower) save() error {
	f.isDirty = false
	if f.file == nil {
		return nil
	}
	f.saved.SavedAt = f.o.Now().UTC()
	lists := f.mustListPending()
	for _, l := range f.logs {
		saved := &logState{LookedAt: l.lookedAt.UTC(), Finished: l.finished}
		for _, t := range l.tails() {
			file := l.save(t)
			if lists {
				t.listPending(&file, f.pending, f.sendingAt)
			} else if !f.sendingAt.IsZero() && t.offset > t.done {
				file.SendingTo, file.SentAt = t.offset, f.sendingAt
			}
			saved.Files = append(saved.Files, file)
		}
		f.saved.Logs[l.path] = saved
	}
	if site := f.o.Outcomes.Site(); site != nil {
		f.saved.Site = site.State(f.o.Now())
	}
	return f.file.save(f.saved)
}

func (f *follower) close() {
	for _, l := range f.logs {
		for _, t := range l.tails() {
			t.close()
		}
	}
	if f.file != nil {
		f.file.close()
	}
}

// StatePath returns where the state file is if none is named: in the folder that systemd
// names, or else below the user's folder for state.
func StatePath(getenv func(string) string) (string, error) {
	if folder := getenv("STATE_DIRECTORY"); folder != "" {
		return filepath.Join(folder, "follow.json"), nil
	}
	folder := getenv("XDG_STATE_HOME")
	if folder == "" {
		home := getenv("HOME")
		if home == "" {
			return "", errors.New("there is no folder for the state file; name the file with --state")
		}
		folder = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(folder, "stint", "follow.json"), nil
}
