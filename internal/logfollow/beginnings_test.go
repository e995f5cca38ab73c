package logfollow_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
)

// header is with what each file of a log in CSV begins.
const header = "time,remote_addr,path\n"

func newCSVSite(t *testing.T) *site {
	s := newSite(t)
	s.options.Read = accesslog.Options{Key: "remote_addr"}
	s.options.FromStart = true
	return s
}

// rows returns n lines of some clients, which are expected to be charged.
func (s *site) rows(n int) string {
	var b strings.Builder
	for range n {
		s.lines++
		ip := fmt.Sprintf("203.0.113.%d", s.lines%7+1)
		s.wrote[ip]++
		fmt.Fprintf(&b, "%s,%s,/page/%d\n", time.Now().UTC().Format(time.RFC3339Nano), ip, s.lines)
	}
	return b.String()
}

// A new file that holds only the column names begins as each one before it does, which must
// not make these known.
func TestFilesThatShareOnlyTheirHeaderDiffer(t *testing.T) {
	s := newCSVSite(t)
	s.append(s.path, header+s.rows(3))
	s.follow()
	s.awaitCharges()
	if err := s.leave(); err != nil {
		t.Fatal(err)
	}
	s.append(s.path, s.rows(2))
	s.rename(s.path, s.path+".2")
	s.append(s.path+".1", header+s.rows(20))
	s.append(s.path, header)
	s.follow()
	s.awaitCharges()
	s.write7Rows()
}

// write7Rows appends a line for each client and waits until all were charged, none twice.
func (s *site) write7Rows() {
	s.Helper()
	s.append(s.path, s.rows(7))
	s.awaitCharges()
}

// A file that held only the column names when it was left must not be taken for an older one,
// which was read.
func TestFileThatWasOnlyAHeaderIsNoOlderFile(t *testing.T) {
	s := newCSVSite(t)
	s.append(s.path, header+s.rows(20))
	if _, err := s.once(); err != nil {
		t.Fatal(err)
	}
	s.rename(s.path, s.path+".1")
	s.append(s.path, header)
	if _, err := s.once(); err != nil {
		t.Fatal(err)
	}
	s.rename(s.path+".1", s.path+".2")
	s.gzip(s.path + ".2")
	s.append(s.path, s.rows(5))
	s.rename(s.path, s.path+".1")
	s.gzip(s.path + ".1")
	s.append(s.path, header)
	s.follow()
	s.awaitCharges()
	s.write7Rows()
}

// The inode of an empty file that was deleted may be that of a copy of the log later.
func TestCopyWithTheInodeOfAnEmptyFileIsReadOnce(t *testing.T) {
	s := newSite(t)
	s.follow()
	s.rename(s.path, s.path+".1")
	s.write(20)
	s.awaitCharges()
	if err := s.leave(); err != nil {
		t.Fatal(err)
	}
	s.write(5)
	text, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	s.append(s.path+".1", string(text))
	s.truncate(s.path)
	s.write(5)
	s.follow()
	s.awaitCharges()
	s.write(7)
	s.awaitCharges()
}

// An empty file is found by its inode alone, which says nothing of when the others were rotated.
func TestFilesBeforeOneWithTheInodeOfAnEmptyFileAreRead(t *testing.T) {
	s := newSite(t)
	s.follow()
	if err := s.leave(); err != nil {
		t.Fatal(err)
	}
	s.write(5)
	s.copy(s.path, s.path+".2")
	s.truncate(s.path)
	time.Sleep(50 * time.Millisecond) // for another time of modification
	s.write(5)
	s.rename(s.path, s.path+".1")
	s.write(5)
	s.follow()
	s.awaitCharges()
}
