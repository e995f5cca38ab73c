package logfollow_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// rotations are the ways to rotate a log. After each there may be lines
// in the old file.
var rotations = []struct {
	name string
	do   func(s *site)
}{
	{"renamed and created", func(s *site) {
		s.rename(s.path, s.path+".1")
		s.append(s.path+".1", s.more(3)) // a server that has not opened the new file
		s.write(2)
		s.append(s.path+".1", s.more(1))
	}},
	{"renamed and created later", func(s *site) {
		s.rename(s.path, s.path+"-20260131")
		s.awaitCharges()
		s.append(s.path+"-20260131", s.more(2))
		s.awaitCharges()
	}},
	{"copied and truncated", func(s *site) {
		s.copy(s.path, s.path+".1")
		s.truncate(s.path)
	}},
	{"truncated, and longer than before at once", func(s *site) {
		s.awaitCharges()
		s.copy(s.path, s.path+".1")
		text := s.more(500)
		if err := os.WriteFile(s.path, []byte(text), 0o644); err != nil {
			s.Fatal(err)
		}
	}},
	{"truncated by a server that does not append", func(s *site) {
		s.copy(s.path, s.path+".1")
		info, err := os.Stat(s.path)
		if err != nil {
			s.Fatal(err)
		}
		s.truncate(s.path)
		f, err := os.OpenFile(s.path, os.O_WRONLY, 0)
		if err != nil {
			s.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte(s.more(3)), max(info.Size(), 700_000)); err != nil {
			s.Fatal(err)
		}
	}},
	{"deleted and created", func(s *site) {
		s.awaitCharges()
		if err := os.Remove(s.path); err != nil {
			s.Fatal(err)
		}
	}},
	{"renamed without the end of its last line", func(s *site) {
		text := strings.TrimSuffix(s.more(1), "\n")
		s.append(s.path, text[:20])
		s.rename(s.path, s.path+".1")
		s.append(s.path+".1", text[20:]+"\n")
	}},
	{"a link to another file", func(s *site) {
		next := filepath.Join(s.TempDir(), "access-20260201.log")
		s.append(next, s.more(2))
		if err := os.Symlink(next, s.path+".link"); err != nil {
			s.Fatal(err)
		}
		s.rename(s.path, s.path+".1")
		s.rename(s.path+".link", s.path)
	}},
}

func (s *site) copy(from, to string) {
	s.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		os.Remove(to) // rotation renames what is there
		err = os.WriteFile(to, text, 0o644)
	}
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) truncate(path string) {
	s.Helper()
	if err := os.Truncate(path, 0); err != nil {
		s.Fatal(err)
	}
}

func (s *site) gzip(path string) {
	s.Helper()
	if text, err := exec.Command("gzip", "-f", path).CombinedOutput(); err != nil {
		s.Fatalf("gzip: %v: %s", err, text)
	}
}

func TestEachLineIsChargedOnceForEveryKindOfRotation(t *testing.T) {
	for _, rotation := range rotations {
		t.Run(rotation.name, func(t *testing.T) {
			s := newSite(t)
			s.append(s.path, lineOf("198.51.100.1", timeNow(), 0)) // before it is followed
			s.follow()
			s.write(30)
			s.awaitCharges()
			s.write(10)
			rotation.do(s)
			s.write(20)
			s.awaitCharges()
			rotation.do(s) // into a log that was rotated before
			s.write(5)
			s.awaitCharges()
			if err := s.leave(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.once(); err != nil { // nothing is left
				t.Fatal(err)
			}
			s.awaitCharges()
			if got := s.charged("198.51.100.1"); got != 0 {
				t.Errorf("a line from before following was charged %d times", got)
			}
		})
	}
}

func TestUnterminatedLastLineOfARotatedLogIsRead(t *testing.T) {
	s := newSite(t)
	s.follow()
	s.append(s.path, strings.TrimSuffix(s.more(1), "\n"))
	s.leave()
	s.rename(s.path, s.path+".1")
	s.gzip(s.path + ".1")
	s.write(1)
	if _, err := s.once(); err != nil {
		t.Fatal(err)
	}
	s.awaitCharges()
}

// A file that was rotated while no process followed is found by its beginning.
func TestLogRotatedBetweenTwoRunsIsRead(t *testing.T) {
	for name, rotate := range map[string]func(s *site){
		"renamed": func(s *site) { s.rename(s.path, s.path+".1") },
		"renamed and compressed": func(s *site) {
			s.rename(s.path, s.path+"-20260131")
			s.gzip(s.path + "-20260131")
		},
		"renamed three times": func(s *site) {
			s.rename(s.path, s.path+".3")
			s.gzip(s.path + ".3")
			s.append(s.path+".2", s.more(9))
			s.gzip(s.path + ".2")
			s.append(s.path+".1", s.more(8))
		},
		"renamed and compressed by Caddy": func(s *site) {
			to := strings.TrimSuffix(s.path, ".log") + "-2026-01-31T22-05-03.123-size.log"
			s.rename(s.path, to)
			s.gzip(to)
		},
		"renamed twice, compressed with another time": func(s *site) {
			s.rename(s.path, s.path+".2")
			s.append(s.path+".1", s.more(9))
			s.gzip(s.path + ".2")
			late := time.Now().Add(time.Second)
			if err := os.Chtimes(s.path+".2.gz", late, late); err != nil {
				s.Fatal(err)
			}
		},
		"copied and truncated": func(s *site) {
			s.copy(s.path, s.path+".1")
			s.truncate(s.path)
		},
		"copied, truncated and compressed": func(s *site) {
			s.copy(s.path, s.path+".1")
			s.gzip(s.path + ".1")
			s.truncate(s.path)
		},
		"moved to another disk": func(s *site) {
			s.copy(s.path, s.path+".moved")
			s.rename(s.path+".moved", s.path)
		},
		"compressed while the plain file is there": func(s *site) {
			s.rename(s.path, s.path+".1")
			s.append(s.path+".2", s.more(4))
			s.copy(s.path+".2", s.path+".4")
			s.gzip(s.path + ".4")
		},
		"compressed and filled up with zeros": func(s *site) {
			s.rename(s.path, s.path+".1")
			s.gzip(s.path + ".1")
			s.append(s.path+".1.gz", strings.Repeat("\x00", 5000))
		},
		"compressed, with other data behind its end": func(s *site) {
			s.rename(s.path, s.path+".1")
			s.gzip(s.path + ".1")
			s.append(s.path+".1.gz", "garbage")
		},
		"not at all": func(*site) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			// An older predecessor, which was never followed.
			s.appendEarlier(s.path+".9", lineOf("198.51.100.1", timeNow(), 0))
			s.follow()
			s.write(40)
			s.awaitCharges()
			s.leave()
			s.write(10)
			rotate(s)
			s.write(10)
			summary, err := s.once()
			if err != nil {
				t.Fatal(err)
			}
			s.awaitCharges()
			if summary.Replayed > 0 {
				t.Errorf("lines were sent twice: %s", summary)
			}
			if n := s.charged("198.51.100.1"); n > 0 {
				t.Errorf("the log that was never followed was read: its line is charged %d times", n)
			}
			if warns := strings.Contains(s.logged.String(), "was ignored"); warns != strings.HasSuffix(name, "behind its end") {
				t.Errorf("whether it warns of other data: got %t", warns)
			}
			if again, err := s.once(); err != nil || again.Lines > 0 {
				t.Errorf("the second Run: got %v, %s, want no lines", err, again)
			}
		})
	}
}

func TestTruncatedPredecessorIsReadAsFarAsPossible(t *testing.T) {
	s := newSite(t)
	s.append(s.path+".1", s.more(5000))
	s.gzip(s.path + ".1")
	whole, err := os.Stat(s.path + ".1.gz")
	if err == nil {
		err = os.Truncate(s.path+".1.gz", whole.Size()/2)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.write(5)
	s.options.FromStart = true
	summary, err := s.once()
	if err != nil || summary.Checked < 100 || summary.Checked > 4900 {
		t.Fatalf("Run: got %v, %s", err, summary)
	}
	s.awaitLog("the rest of the file is not read")
	if again, err := s.once(); err != nil || again.Lines > 0 {
		t.Errorf("the second Run: got %v, %s, want no lines", err, again)
	}
}

func TestFromStartReadsPredecessors(t *testing.T) {
	s := newSite(t)
	s.append(s.path+".2", s.more(5))
	s.gzip(s.path + ".2")
	s.append(s.path+".1", s.more(5))
	s.write(5)
	s.options.FromStart = true
	if summary, err := s.once(); err != nil || summary.Checked != 15 {
		t.Fatalf("Run: got %v, %s", err, summary)
	}
	s.awaitCharges()
}

// rotateFiles renames the predecessors as logrotate does, and compresses the second.
func (s *site) rotateFiles() {
	s.Helper()
	for n := 8; n >= 2; n-- {
		from := fmt.Sprintf("%s.%d.gz", s.path, n)
		if _, err := os.Stat(from); err == nil {
			s.rename(from, fmt.Sprintf("%s.%d.gz", s.path, n+1))
		}
	}
	if _, err := os.Stat(s.path + ".1"); err == nil {
		s.rename(s.path+".1", s.path+".2")
		s.gzip(s.path + ".2")
	}
}

// rotateByRename renames the log and creates another one.
func (s *site) rotateByRename() {
	s.Helper()
	s.rotateFiles()
	s.rename(s.path, s.path+".1")
	s.append(s.path, "")
}

// rotateByCopy copies the log and truncates it.
func (s *site) rotateByCopy() {
	s.Helper()
	s.rotateFiles()
	s.copy(s.path, s.path+".1")
	s.truncate(s.path)
}

// A server writes continuously, its log is rotated in both ways, and the process that
// follows is restarted repeatedly.
func TestEachLineIsChargedOnceWhileTheLogIsWrittenAndRotated(t *testing.T) {
	s := newSite(t)
	s.follow()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		file := s.reopen(nil)
		for n := range 1500 {
			text := s.more(3)
			cut := len(text) - n%40 // a line is often written in two parts
			for _, part := range []string{text[:cut], text[cut:]} {
				if _, err := file.WriteString(part); err != nil {
					t.Error(err)
					return
				}
			}
			time.Sleep(time.Millisecond)
			switch n % 300 {
			case 100:
				s.rotateByRename() // and the server continues to write to the old file
			case 105:
				file = s.reopen(file)
			case 250:
				s.rotateByCopy()
			}
		}
		file.Close()
	}()
	for isFinished := false; !isFinished; {
		select {
		case <-finished:
			isFinished = true
		case <-time.After(300 * time.Millisecond):
		}
		if err := s.leave(); err != nil {
			t.Fatal(err)
		}
		s.follow()
	}
	s.awaitCharges()
	s.leave()
	if strings.Contains(s.logged.String(), "is gone") || s.summary.Bad > 0 {
		t.Errorf("lines were lost: %s", s.summary)
	}
}

func (s *site) reopen(old *os.File) *os.File {
	if old != nil {
		old.Close()
	}
	file, err := os.OpenFile(s.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		s.Error(err)
	}
	return file
}

// If a file returns to the path of its log, only its new lines are read.
func TestFileThatReturnsToItsPathIsNotReadAgain(t *testing.T) {
	s := newSite(t)
	s.follow()
	s.write(10)
	s.awaitCharges()
	other := s.path + "-other"
	for range 3 {
		s.rename(s.path, s.path+"-away")
		s.append(s.path, s.more(5))
		s.awaitCharges()
		s.rename(s.path, other)
		s.rename(s.path+"-away", s.path)
		s.write(5)
		s.awaitCharges()
		s.leave()
		s.rename(s.path, s.path+"-away") // while no process follows
		s.rename(other, s.path)
		s.write(5)
		s.follow()
		s.awaitCharges()
		s.rename(s.path, other)
		s.rename(s.path+"-away", s.path)
		s.write(5)
		s.awaitCharges()
		if err := os.Remove(other); err != nil {
			t.Fatal(err)
		}
	}
	s.leave()
}
