package logfollow_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
)

// stall follows the log and loses the answers of the server, so that the follower waits for it
// and does not look at the files. resume ends that.
func (s *site) stall() (resume func()) {
	s.Helper()
	server := &unreachable{Server: s.options.Server, loses: true}
	s.options.Server = server
	s.follow()
	s.write(5)
	s.await("the follower waits for the server", func() bool { _, probed := server.count(); return probed > 0 })
	return func() {
		server.set(false)
		s.options.Server = server.Server
	}
}

// While the server does not answer, the files may be rotated more than once.
func TestLogRotatedTwiceDuringAnOutageIsReadCompletely(t *testing.T) {
	ways := map[string]func(*site){"copied": (*site).rotateByCopy, "renamed": (*site).rotateByRename}
	for first, rotate := range ways {
		for second, rotateAgain := range ways {
			for _, restarts := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s and %s, restart %t", first, second, restarts), func(t *testing.T) {
					s := newSite(t)
					resume := s.stall()
					s.write(5)
					rotate(s)
					s.write(5)
					rotateAgain(s)
					s.write(5)
					if restarts {
						s.leave()
					}
					resume()
					if restarts {
						s.follow()
					}
					s.awaitCharges()
					s.leave()
					if strings.Contains(s.logged.String(), "are lost") || s.summary.Bad > 0 {
						t.Errorf("lines were lost: %s", s.summary)
					}
				})
			}
		}
	}
}

// A log that was empty when it was last looked at is rotated while the lines of another one
// are being sent. What was written since it looked is read, though it does not show that the
// log was truncated; where the follower ends, though the state was saved later.
func TestEmptyLogRotatedDuringAnOutageIsReadCompletely(t *testing.T) {
	for _, restarts := range []bool{true, false} {
		for _, isEmpty := range []bool{true, false} {
			t.Run(fmt.Sprintf("restart %t, empty again %t", restarts, isEmpty), func(t *testing.T) { testEmptyLogRotated(t, restarts, isEmpty) })
		}
	}
}

func testEmptyLogRotated(t *testing.T, restarts, isEmpty bool) {
	s := newSite(t)
	s.appendEarlier(s.path+"-errors.1", lineOf("198.51.100.1", time.Now(), 0)) // was never followed
	s.path2 = s.path + "-errors"
	s.append(s.path2, "")
	server := &slow{unreachable: &unreachable{Server: s.options.Server, loses: true}, called: make(chan struct{}), release: make(chan struct{})}
	s.options.Server = server
	s.follow()
	s.write(5)
	<-server.called
	s.append(s.path2, s.more(5))
	s.rename(s.path2+".1", s.path2+".2")
	s.copy(s.path2, s.path2+".1")
	s.truncate(s.path2)
	if !isEmpty {
		s.append(s.path2, s.more(5))
	}
	time.Sleep(200 * time.Millisecond) // for a later time of the state
	close(server.release)
	s.await("the follower waits for the server", func() bool { _, probed := server.count(); return probed > 0 })
	if restarts {
		s.leave()
		s.options.Server = server.Server
		s.follow()
	} else {
		server.set(false)
	}
	s.awaitCharges()
	s.leave()
	if n := s.charged("198.51.100.1"); n > 0 {
		t.Errorf("an older rotated file was charged %d times", n)
	}
}

// slow is a server that answers no batch before release is closed.
type slow struct {
	*unreachable
	once            sync.Once
	called, release chan struct{}
}

func (s *slow) Batch(ctx context.Context, checks []client.Check) ([]client.BatchItem, error) {
	if !checks[0].Peek {
		s.once.Do(func() { close(s.called) })
		<-s.release
	}
	return s.unreachable.Batch(ctx, checks)
}
