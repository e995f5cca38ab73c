package logfollow

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
)

// clockGrain is how far the times of files may be behind the clock.
const clockGrain = 50 * time.Millisecond

// drainTime is how long a rotated file is still read: servers write to it until they
// open the new one.
const drainTime = time.Minute

// rotatedLog is one named log: the file at its path, and those that it was rotated to and
// that may still grow or were not read to their ends.
type rotatedLog struct {
	path      string // absolute
	read      accesslog.Options
	isOnce    bool // the log is read to its end and not followed
	isWhole   bool // the log is complete: its last line may have no end, and it may be compressed
	logf      func(format string, args ...any)
	current   *tail // at the path; nil while nothing is there
	old       []*tail
	lookedAt  time.Time             // when the last look at which files there are began
	parser    *accesslog.LineParser // the last one
	sample    sample
	described string      // how the lines are read, as was logged
	err       error       // that the last round met
	finished  []fileState // the last files that were read to their ends
	blank     blankFile
	problem   string // that was logged last, "" after it has ended
}

func (l *rotatedLog) tails() []*tail {
	if l.current == nil {
		return l.old
	}
	return append(l.old[:len(l.old):len(l.old)], l.current)
}

// start opens a log that no state knows.
func (l *rotatedLog) start(fromStart bool, oldest time.Time) error {
	l.lookedAt = time.Now()
	t, err := openTail(l.path, "", 0)
	if err != nil {
		return err
	}
	t.isFinal = l.isWhole
	if t.unpacked != nil && !l.isWhole {
		t.close()
		return &accesslog.InputError{Err: fmt.Errorf("%q is compressed and does not grow; name the log itself, whose compressed rotated files are found", l.path)}
	}
	l.current = t
	if fromStart {
		l.openPredecessors(oldest)
		return nil
	}
	return t.skipToEnd()
}

// skipToEnd moves to the end of the last complete line.
func (t *tail) skipToEnd() error {
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	last := make([]byte, min(info.Size(), accesslog.MaxLine))
	n, err := t.file.ReadAt(last, info.Size()-int64(len(last)))
	if n < len(last) {
		return fmt.Errorf("%q: %w", t.name, err)
	}
	t.offset = info.Size() - int64(len(last)) + int64(bytes.LastIndexByte(last, '\n')+1)
	t.done = t.offset
	return t.startAtLine()
}

// resume opens a log where an earlier process left it.
func (l *rotatedLog) resume(saved *logState, savedAt time.Time) error {
	l.lookedAt = time.Now()
	info, err := os.Stat(l.path)
	if err != nil && !isMissing(err) {
		return err
	}
	l.finished = saved.Finished
	after := cmp.Or(saved.LookedAt, savedAt).Add(-clockGrain)
	var lost []*fileState
	for i := range saved.Files {
		file := &saved.Files[i]
		isLast := i == len(saved.Files)-1
		if info != nil && isLast {
			if isCurrent, err := l.resumeCurrent(file); err != nil || isCurrent {
				l.logLost(lost)
				if err == nil && file.HeadLength == 0 { // an empty file may have been another one
					l.openPredecessors(after)
				}
				return err
			}
		}
		t, modified, err := l.openSaved(file, slices.Concat(saved.Files, saved.Finished), 10)
		if err != nil {
			return err
		}
		if t == nil {
			l.remember(*file) // it may come back
			lost = append(lost, file)
			continue
		}
		t.restore(file)
		l.old = append(l.old, t)
		// Some programs leave the time at which they compressed it, and of a file that held nothing
		// only the inode is known.
		if t.unpacked == nil && file.HeadLength > 0 {
			after = modified
		}
	}
	if err := l.openCurrent(); err != nil && !isMissing(err) {
		return err
	}
	l.logLost(lost)
	l.openPredecessors(after)
	return nil
}

func (l *rotatedLog) logLost(files []*fileState) {
	for _, file := range files {
		if file.HeadLength > 0 && (l.current == nil || l.current.id != file.ID) {
			from, unanswered := file.notAnswered()
			l.logf("The lines that were written to the former file of %q after byte %d%s are lost: no rotated file has the same beginning.", l.path, from, unanswered)
		}
	}
}

// notAnswered returns the offset behind which no line of a file was answered, and names those
// before it that were not, to be put behind it in a sentence.
func (f *fileState) notAnswered() (from int64, before string) {
	if f.ListedTo <= f.Offset {
		return f.Offset, ""
	}
	switch n := len(f.Pending); n {
	case 0:
		return f.ListedTo, ""
	case 1:
		return f.ListedTo, fmt.Sprintf(" and the one at byte %d", f.Pending[0].Start)
	default:
		return f.ListedTo, fmt.Sprintf(" and %d from byte %d on", n, f.Pending[0].Start)
	}
}

// remember keeps the position in a file that is no longer read.
func (l *rotatedLog) remember(file fileState) {
	l.finished = append(l.finished, file)
	l.finished = l.finished[max(0, len(l.finished)-maxFinished):]
}

// resumeCurrent goes on with the file at the path, if it is the saved one.
func (l *rotatedLog) resumeCurrent(file *fileState) (bool, error) {
	t, err := openTail(l.path, file.ID, 0)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	size := int64(0)
	if info, err := t.file.Stat(); err == nil {
		size = info.Size()
	}
	isSame := t.identity == identity{file.Device, file.Inode}
	// A file that was moved to another disk begins as it did, and nothing else does.
	isMoved := !isSame && file.HeadLength > 0 && locate(file, nil, predecessorsOf(l.path)) == nil
	if t.unpacked != nil || size < file.Offset || !file.begins(t.head) || !isSame && !isMoved {
		t.close()
		return false, nil
	}
	t.offset, t.done = file.Offset, file.Offset
	t.restore(file)
	t.uncertain.end(size) // a crash of the machine may have undone the last lines
	l.current = t
	return true, t.startAtLine()
}

// restore reads what was saved beside the offset.
func (t *tail) restore(saved *fileState) {
	t.uncertain.restore(saved)
	t.retiredAt = time.Now()
	if !saved.LastTime.IsZero() {
		t.lastTime = saved.LastTime.UnixMilli()
	}
}

// openCurrent opens the file at the path: a new one, or one that was there before.
func (l *rotatedLog) openCurrent() error {
	t, err := openTail(l.path, "", 0)
	if err != nil {
		return err
	}
	for i, old := range l.old {
		if old.identity == t.identity && old.unpacked == nil {
			t.close()
			l.old = slices.Delete(l.old, i, i+1)
			old.isFinal = false
			l.current = old
			return nil
		}
	}
	for i := range l.finished {
		before := &l.finished[i]
		if info, err := t.file.Stat(); err == nil && before.HeadLength > 0 && before.begins(t.head) && info.Size() >= before.Offset {
			t.id, t.offset, t.done = before.ID, before.Offset, before.Offset
			t.restore(before)
			if err := t.startAtLine(); err != nil {
				return err
			}
			break
		}
	}
	l.current = t
	return nil
}

// openPredecessors opens the predecessors that were written after a time, to be read from
// their beginnings, but for those that begin as one in except.
func (l *rotatedLog) openPredecessors(after time.Time, except ...predecessor) {
	for _, p := range l.unread(after, except) {
		t, err := p.open("", 0)
		if errors.Is(err, errMoved) { // look again
			l.openPredecessors(after, except...)
			return
		}
		if err != nil {
			l.logf("%v: this rotated file is not read.", err)
			continue
		}
		t.retiredAt = time.Now()
		l.old = append(l.old, t)
	}
}

// poll notices truncation, rotation, and files that have been read to their ends.
func (l *rotatedLog) poll(now time.Time) error {
	l.closeDrained(now)
	if err := l.look(now); err != nil {
		return err
	}
	l.watchBlank(now)
	l.lookedAt = now
	return nil
}

// look notices truncation and rotation.
func (l *rotatedLog) look(now time.Time) error {
	if l.current != nil {
		if err := l.current.checkHead(); errors.Is(err, errTruncated) {
			if err := l.restart(); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
	}
	info, err := os.Stat(l.path)
	switch {
	case isMissing(err):
		return nil // between two files, or deleted: the open file is read on
	case err != nil:
		return err
	case l.current != nil && identityOf(info) == l.current.identity:
		return nil
	}
	before := l.current
	if err := l.openCurrent(); isMissing(err) {
		return nil
	} else if err != nil {
		return err
	}
	if before != nil && before != l.current {
		l.retire(before, now)
	}
	return nil
}

// retire goes on with the old file beside the new one, and with those that came and went
// between them.
func (l *rotatedLog) retire(t *tail, now time.Time) {
	l.logf("%q was rotated after byte %d: reading the new file.", l.path, t.offset)
	t.retiredAt = now
	l.old = append(l.old, t)
	if info, err := t.file.Stat(); err == nil {
		l.openPredecessors(info.ModTime())
	}
}

// restart reads a file that was truncated from its beginning, and what was not read of it
// from the copy that was made before, if there is one. It may have been truncated more than
// once since it was last looked at, so that further copies are read too.
func (l *rotatedLog) restart() error {
	t := l.current
	l.logf("%q was truncated after byte %d: reading it from its beginning.", l.path, t.offset)
	saved := l.save(t)
	after := l.lookedAt.Add(-clockGrain)
	rest, modified, err := l.openSaved(&saved, l.finished, 3)
	if err != nil {
		l.logf("%v: the lines of the copy are not read.", err)
	} else if rest != nil {
		if rest.unpacked == nil {
			after = modified
		}
		rest.parser = t.parser
		rest.restore(&saved)
		l.old = append(l.old, rest)
	}
	t.close()
	l.current = nil
	err = l.openCurrent()
	l.openPredecessors(after)
	return err
}

// closeDrained closes rotated files that were read to their ends.
func (l *rotatedLog) closeDrained(now time.Time) {
	kept := l.old[:0]
	for _, t := range l.old {
		switch {
		case t.isFinal && t.held == nil && t.start == t.end && t.done == t.offset && t.isAtEnd():
			t.close()
			l.remember(l.save(t))
			continue
		case now.Sub(t.retiredAt) > drainTime && t.isAtEnd():
			t.isFinal = true // its last line may have no end
		}
		kept = append(kept, t)
	}
	clear(l.old[len(kept):])
	l.old = kept
}

// isAtEnd reports whether nothing was written behind what was read.
func (t *tail) isAtEnd() bool {
	if t.unpacked != nil {
		n, err := t.fill()
		return n == 0 && err == nil
	}
	info, err := t.file.Stat()
	return err == nil && info.Size() <= t.offset+int64(t.end-t.start)
}

// parserOf returns the parser of a file's lines. It is nil without an error while the file
// has no complete line.
func (l *rotatedLog) parserOf(t *tail) (*accesslog.LineParser, error) {
	if t.parser != nil {
		return t.parser, nil
	}
	head, err := t.beginning()
	if err != nil || len(bytes.TrimSpace(head)) == 0 {
		return nil, err
	}
	t.parser, err = accesslog.NewLineParser(head, l.read)
	switch {
	case err == nil:
		if err := t.direct(); err != nil {
			t.parser = nil
			return nil, err
		}
		l.parser = t.parser
		l.describe()
	case l.parser != nil:
		t.parser = l.parser // a CSV that was truncated has no header
	case !l.isOnce && bytes.Count(head, []byte{'\n'}) < minFormatLines:
		return nil, nil // the next lines may show the format
	default:
		return nil, &formatError{&accesslog.InputError{Err: fmt.Errorf("%q: %w", t.name, err)}}
	}
	return t.parser, nil
}

// describe logs how the lines are read, once.
func (l *rotatedLog) describe() {
	text := l.parser.Describe()
	if text == l.described {
		return
	}
	l.described = text
	l.logf("Reading %q as %s.", l.path, text)
	if missing := l.parser.Columns().Missing(); missing != "" {
		l.logf("Warning: %q: %s.", l.path, missing)
	}
}

// formatError says that the lines of a file have no known format.
type formatError struct{ error }

func (e *formatError) Unwrap() error { return e.error }

// minFormatLines is how many lines without a known format are an error.
const minFormatLines = 19

// report logs the error of a round once for as long as it lasts.
func (l *rotatedLog) report() {
	text := ""
	if l.err != nil {
		text = l.err.Error()
	}
	if text != "" && text != l.problem {
		l.logf("%s; trying again.", text)
	}
	l.problem = text
}
