package logfollow_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/logfollow"
)

var errDial = &client.OutageError{Attempts: 1, Err: &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}

func errProblem(status int, code string) error {
	return &client.OutageError{Attempts: 1, Err: &client.Problem{Status: status, Code: code, Title: http.StatusText(status)}}
}

// failing answers some batches of checks, and other batches and probes with errors.
type failing struct {
	logfollow.Server
	mu     sync.Mutex
	left   int   // batches that are answered
	err    error // of the others
	probed int
}

func (s *failing) Batch(ctx context.Context, checks []client.Check) ([]client.BatchItem, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if checks[0].Peek {
		s.probed++
		return nil, s.err
	}
	if s.left--; s.left < 0 {
		return nil, s.err
	}
	return s.Server.Batch(ctx, checks)
}

func (s *failing) isProbed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.probed > 0
}

// later advances the clock of the site.
func (s *site) later(d time.Duration) {
	now := time.Now().Add(d)
	s.options.Now = func() time.Time { return now }
}

// followUntilItFails writes lines and follows until a server that answers a number of batches has
// failed. The lines are written before, so that one round reads them all: of a text that is
// longer than a page of the file, a follower may see the first page only.
func (s *site) followUntilItFails(lines, answered int, err error) {
	s.Helper()
	server := s.options.Server
	broken := &failing{Server: server, left: answered, err: err}
	s.options.Server, s.options.FromStart = broken, true
	s.write(lines)
	s.follow()
	s.await("the server has failed", broken.isProbed)
	if err := s.leave(); err != nil {
		s.Fatal(err)
	}
	s.options.Server = server
}

// If some lines of a round were answered and others not, each is charged once, however
// long ago the round was sent.
func TestPartlyAnsweredRoundIsContinued(t *testing.T) {
	for name, test := range map[string]struct {
		err      error
		isInPart bool // the lines without an answer may have been charged
	}{
		"no connection":             {errDial, false},
		"Stint is not loaded":       {errProblem(http.StatusServiceUnavailable, "unavailable"), false},
		"a proxy has no connection": {errProblem(http.StatusServiceUnavailable, ""), true},
		"a proxy has no answer":     {errProblem(http.StatusBadGateway, ""), true},
		"Stint fails":               {errProblem(http.StatusInternalServerError, "internal"), true},
		"no connection on a retry":  {&client.OutageError{Attempts: 2, Err: errDial.Err}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.followUntilItFails(50, 1, test.err)
			first := s.summary.Checked
			if first == 0 || first == 50 {
				t.Fatalf("%d of 50 lines were answered, want some", first)
			}
			// The follower stops again before another line is answered.
			s.later(time.Minute + time.Second)
			s.followUntilItFails(5, 0, errDial)
			uncertain := s.summary.Uncertain
			s.later(3 * time.Minute)
			summary, err := s.once()
			if err != nil || summary.Replayed > 0 {
				t.Fatalf("Run: got %v, %s", err, summary)
			}
			if !test.isInPart {
				if uncertain+summary.Uncertain > 0 || summary.Checked != 55-first {
					t.Errorf("%d and then %d lines are uncertain: %s", first, uncertain, summary)
				}
				s.awaitCharges()
			} else if uncertain != 50-first || summary.Checked != 5 || summary.Uncertain > 0 {
				t.Errorf("%d and then %d lines are uncertain: %s", first, uncertain, summary)
			}
		})
	}
}

// refusingOne answers all checks but those of one key, to which the server is not ready.
type refusingOne struct {
	logfollow.Server
	key   string
	asked atomic.Bool
}

func (s *refusingOne) Batch(ctx context.Context, checks []client.Check) ([]client.BatchItem, error) {
	items, err := s.Server.Batch(ctx, checks)
	for i := range items {
		if checks[i].Key == s.key {
			items[i] = client.BatchItem{Err: &client.Problem{Status: http.StatusServiceUnavailable, Code: "unavailable"}}
			s.asked.Store(true)
		}
	}
	return items, err
}

// What is logged as lost are the lines that had no answer, and not all of their round.
func TestAnsweredLinesAreNotCalledLost(t *testing.T) {
	for unanswered, lost := range map[int]string{0: "", 1: " and the one at byte %d", 2: " and 2 from byte %d on"} {
		t.Run(fmt.Sprintf("%d of a round", unanswered), func(t *testing.T) {
			s := newSite(t)
			server := &refusingOne{Server: s.options.Server, key: "ip:198.51.100.9"}
			s.options.Server = server
			s.follow()
			answered := s.more(3)
			text := answered
			for i := range unanswered {
				text += lineOf("198.51.100.9", time.Now(), i)
			}
			text += s.more(2)
			s.append(s.path, text)
			s.await("the lines are sent", func() bool { return server.asked.Load() || unanswered == 0 })
			s.awaitCharges()
			s.leave()
			if err := os.Remove(s.path); err != nil {
				t.Fatal(err)
			}
			s.write(1)
			server.key = ""
			if _, err := s.once(); err != nil {
				t.Fatal(err)
			}
			if lost != "" {
				lost = fmt.Sprintf(lost, len(answered))
			}
			s.awaitLog(fmt.Sprintf("former file of %q after byte %d%s are lost: no rotated file", s.path, len(text), lost))
		})
	}
}

// Lines are uncertain since they were first sent, even if later lines are sent repeatedly.
func TestTimeOfTheFirstSendIsKept(t *testing.T) {
	s := newSite(t)
	// The answers are lost, so that all were charged.
	server := &unreachable{Server: s.options.Server, loses: true}
	s.options.Server, s.options.FromStart = server, true
	s.write(50) // before it is followed, so that one round reads them all
	s.follow()
	s.await("the server is probed", func() bool { _, probed := server.count(); return probed > 0 })
	if err := s.leave(); err != nil {
		t.Fatal(err)
	}
	// Half a minute later they are sent again, with new lines.
	s.write(20)
	s.later(30 * time.Second)
	before, _ := server.count()
	s.follow()
	s.await("the server is called again", func() bool { checked, _ := server.count(); return checked > before })
	if err := s.leave(); err != nil {
		t.Fatal(err)
	}
	server.set(false)
	s.later(time.Minute)
	summary, err := s.once()
	if err != nil || summary.Uncertain != 50 || summary.Checked != 20 || summary.Replayed != 20 {
		t.Errorf("Run: got %v, %s", err, summary)
	}
	s.awaitCharges()
}

// More lines are uncertain than one round reads, because a later process reads more for each line:
// none of them may count as not sent.
func TestUncertainLinesAfterTheFirstRoundStayUncertain(t *testing.T) {
	s := newSite(t)
	server := &unreachable{Server: s.options.Server, loses: true}
	s.options.Server = server
	var text strings.Builder
	for i := range 3990 {
		ip := fmt.Sprintf("203.0.113.%d", i%7+1)
		s.wrote[ip]++
		text.WriteString(strings.Replace(lineOf(ip, time.Now(), i), " 200 ", " 404 ", 1))
	}
	s.options.FromStart = true
	s.append(s.path, text.String())
	s.follow()
	s.await("the server is probed", func() bool { _, probed := server.count(); return probed > 0 })
	if err := s.leave(); err != nil {
		t.Fatal(err)
	}
	server.set(false)
	before := 0
	for ip := range s.wrote {
		before += s.charged(ip)
	}
	s.options.Outcomes = answers.DefaultOutcomes(nil)
	s.later(10 * time.Minute)
	summary, err := s.once()
	after := 0
	for ip := range s.wrote {
		after += s.charged(ip)
	}
	// Each share had one batch without an answer. The others were never sent.
	if err != nil || before < 500 || before == 3990 || summary.Uncertain != int64(2*before) || after != 3990 {
		t.Errorf("Run: got %v, charged %d and then %d: %s", err, before, after, summary)
	}
}

// A policy that does not exist loses no line.
func TestLinesUnderAnUnknownPolicyAreSentLater(t *testing.T) {
	s := newSite(t)
	s.options.Policy = "al"
	s.follow()
	s.write(20)
	var problem *client.Problem
	if err := <-s.ended; !errors.As(err, &problem) || problem.Field != "policy" {
		t.Fatalf("Run: got %v, want a problem of the policy", err)
	}
	s.options.Policy = "all"
	if summary, err := s.once(); err != nil || summary.Checked != 20 || summary.Rejected > 0 {
		t.Errorf("Run: got %v, %s", err, summary)
	}
	s.awaitCharges()
}

// A refused token loses no line.
func TestLinesWithARefusedTokenAreSentLater(t *testing.T) {
	s := newSite(t)
	server := s.options.Server
	s.options.Server = &failing{Server: server, err: errProblem(http.StatusUnauthorized, "unauthorized")}
	s.follow()
	s.write(20)
	var problem *client.Problem
	if err := <-s.ended; !errors.As(err, &problem) {
		t.Fatalf("Run: got %v, want a problem", err)
	}
	s.options.Server = server
	s.later(2 * time.Minute)
	if summary, err := s.once(); err != nil || summary.Checked != 20 || summary.Uncertain > 0 {
		t.Errorf("Run: got %v, %s", err, summary)
	}
	s.awaitCharges()
}
