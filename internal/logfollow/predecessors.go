package logfollow

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
)

// rotated matches what rotation adds to a name: ".1", "-20260131", ".2026-01-31.gz",
// "-2026-01-31T22-05-03.123-size" as Caddy does since 2.11, and "-size_1" where that was there.
var rotated = regexp.MustCompile(`^(\.[0-9]{1,3}|[._-][0-9]{4}[0-9._:T-]{2,}(-(size|time)(_[0-9]+)?)?)(\.gz)?$|^\.old$`)

// predecessor is a file beside a log that rotation may have made of it.
type predecessor struct {
	path         string
	identity     identity
	size         int64
	modified     time.Time
	isCompressed bool
	head         []byte
}

// predecessorsOf returns the predecessors of the log at path that can be read, the oldest
// first. It looks again if one was renamed while it looked.
func predecessorsOf(path string) []predecessor {
	for range 10 {
		if all, isStable := listPredecessors(path); isStable {
			return all
		}
		time.Sleep(20 * time.Millisecond)
	}
	all, _ := listPredecessors(path)
	return all
}

// listPredecessors reports in isStable whether all names were there to the end.
func listPredecessors(path string) (all []predecessor, isStable bool) {
	isStable = true
	logs := []string{path}
	target, err := filepath.EvalSymlinks(path)
	if err == nil && target != path {
		logs = append(logs, target)
	}
	for _, log := range logs {
		directory, base := filepath.Split(log)
		entries, err := os.ReadDir(directory)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			name := filepath.Join(directory, entry.Name())
			if name == target || !isPredecessor(entry.Name(), base) && (log == path || !hasOtherDate(entry.Name(), base)) {
				continue
			}
			p, err := readPredecessor(name)
			isStable = isStable && !isMissing(err)
			if err == nil && !slices.ContainsFunc(all, func(q predecessor) bool { return q.identity == p.identity }) {
				all = append(all, p)
			}
		}
	}
	slices.SortStableFunc(all, func(p, q predecessor) int { return p.modified.Compare(q.modified) })
	for i := range all {
		info, err := os.Stat(all[i].path)
		isStable = isStable && err == nil && identityOf(info) == all[i].identity
	}
	return all, isStable
}

// errMoved says that another file is at the path of a predecessor now, or none.
var errMoved = errors.New("the predecessor was renamed")

// open opens p at an offset.
func (p *predecessor) open(id string, offset int64) (*tail, error) {
	t, err := openTail(p.path, id, offset)
	switch {
	// A new file that is shorter may have the inode of p, which was deleted.
	case isMissing(err), errors.Is(err, errTruncated):
		return nil, errMoved
	case err != nil:
		return nil, err
	case t.identity != p.identity:
		t.close()
		return nil, errMoved
	}
	return t, nil
}

// openSaved opens a saved file that was rotated, where it was left, and returns when it
// was modified. It returns nil if there is no such file. others are all files that are known.
func (l *rotatedLog) openSaved(saved *fileState, others []fileState, tries int) (*tail, time.Time, error) {
	for try := range tries {
		if try > 0 {
			time.Sleep(100 * time.Millisecond) // it may be between two names
		}
		found := locate(saved, others, predecessorsOf(l.path))
		if found == nil {
			continue
		}
		t, err := found.open(saved.ID, saved.Offset)
		if err == nil || !errors.Is(err, errMoved) {
			return t, found.modified, err
		}
	}
	return nil, time.Time{}, nil
}

// isPredecessor reports whether rotation may have made a file of that name of the log
// called base: access.log.1, access.log-20260131.gz, access-20260131.log.
func isPredecessor(name, base string) bool {
	if rest, ok := strings.CutPrefix(name, base); ok {
		return rotated.MatchString(rest)
	}
	extension := filepath.Ext(base)
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(base, extension))
	if !ok || extension == "" {
		return false
	}
	rest, isCompressed := strings.CutSuffix(rest, ".gz")
	rest, ok = strings.CutSuffix(rest, extension)
	if isCompressed {
		rest += ".gz"
	}
	return ok && rotated.MatchString(rest)
}

// date matches the date in the name of a file to which a link leads.
var date = regexp.MustCompile(`[0-9]{4}[0-9._:T-]{2,}`)

// hasOtherDate reports whether two names are equal except for a date, like the names of files to
// which a link leads one after another: access-2026-01-31.log.
func hasOtherDate(name, base string) bool {
	name = strings.TrimSuffix(name, ".gz")
	return name != base && date.MatchString(base) && date.ReplaceAllString(name, "*") == date.ReplaceAllString(base, "*")
}

func readPredecessor(path string) (predecessor, error) {
	info, err := os.Stat(path)
	if err != nil {
		return predecessor{}, err
	}
	if !info.Mode().IsRegular() {
		return predecessor{}, fs.ErrInvalid
	}
	t, err := openTail(path, "", 0)
	if err != nil {
		return predecessor{}, err
	}
	defer t.close()
	return predecessor{
		path: path, identity: t.identity, size: info.Size(), modified: info.ModTime(), isCompressed: t.unpacked != nil, head: t.head,
	}, nil
}

// locate returns the path of a saved file among the predecessors: the file itself, or a
// copy of it. A file that held nothing is not recognised by its beginning: one that begins as
// another known file has only its inode.
func locate(saved *fileState, others []fileState, among []predecessor) *predecessor {
	var found *predecessor
	for i := range among {
		p := &among[i]
		if !saved.begins(p.head) || !p.isCompressed && p.size < saved.Offset {
			continue
		}
		isSame := !p.isCompressed && p.identity == identity{saved.Device, saved.Inode}
		if isSame && saved.HeadLength == 0 && slices.ContainsFunc(others, func(f fileState) bool { return f.HeadLength > 0 && f.begins(p.head) }) {
			continue
		}
		switch {
		case isSame:
			return p
		case saved.HeadLength > 0 && (found == nil || !p.isCompressed):
			found = p
		}
	}
	return found
}

// unread returns each predecessor that was written after a time and not read at all, unless it
// begins like one in except.
func (l *rotatedLog) unread(since time.Time, except []predecessor) []predecessor {
	var found []predecessor
	for _, p := range predecessorsOf(l.path) {
		p.head = l.ownHead(p.head)
		isKnown := slices.ContainsFunc(l.tails(), func(t *tail) bool { return t.identity == p.identity || sameHead(l.ownHead(t.head), p.head) }) ||
			slices.ContainsFunc(l.finished, func(f fileState) bool { return f.HeadLength > 0 && f.begins(p.head) }) ||
			slices.ContainsFunc(except, func(q predecessor) bool { return sameHead(l.ownHead(q.head), p.head) })
		if isKnown || p.modified.Before(since) || len(p.head) == 0 {
			continue
		}
		if i := slices.IndexFunc(found, func(q predecessor) bool { return sameHead(q.head, p.head) }); i >= 0 {
			if found[i].isCompressed { // it may not be complete
				found[i] = p
			}
			continue
		}
		found = append(found, p)
	}
	return found
}

// blankFile is a current file that does not differ from others by its beginning yet. Its
// truncation cannot be detected. The zero value means no file.
type blankFile struct {
	*tail
	since, modified time.Time
	beside          []predecessor // that there were since then
}

// watchBlank reads the copies that were made of a blank file since it was looked at last.
func (l *rotatedLog) watchBlank(now time.Time) {
	before := l.blank
	l.blank = blankFile{}
	if l.current == nil {
		return
	}
	info, err := l.current.file.Stat()
	isSame := before.tail == l.current
	if err != nil || isSame && info.ModTime().Equal(before.modified) {
		l.blank = before
		return
	}
	if isSame {
		l.openPredecessors(before.since.Add(-clockGrain), before.beside...)
	}
	if len(l.ownHead(l.current.head)) == 0 {
		l.blank = blankFile{l.current, now, info.ModTime(), predecessorsOf(l.path)}
	}
}

// ownHead returns the beginning of a file, or nothing if it is only the line of column names of
// a CSV, with which all files of a log begin.
func (l *rotatedLog) ownHead(head []byte) []byte {
	if end := bytes.IndexByte(head, '\n'); end < 0 || end < len(head)-1 {
		return head
	}
	parser, err := accesslog.NewLineParser(head, l.read)
	if err == nil && parser.Format() == accesslog.CSV {
		return nil
	}
	return head
}

// save returns the position in a file of the log.
func (l *rotatedLog) save(t *tail) fileState { return t.save(l.ownHead(t.head)) }

// isMissing reports whether nothing is at a path.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
