package email

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/notify"
)

// mailServer speaks enough SMTP to take a message or refuse it.
type mailServer struct {
	listener net.Listener
	answer   string // to RCPT TO
	breaksAt string // the command at which it closes the connection, BODY for the end of a message, "" for none
	mu       sync.Mutex
	messages []string
}

func startMailServer(t *testing.T, answer string) *mailServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &mailServer{listener: listener, answer: answer}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
	})
	return s
}

func (s *mailServer) serve(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	in := textproto.NewReader(bufio.NewReader(conn))
	out := textproto.NewWriter(bufio.NewWriter(conn))
	_ = out.PrintfLine("220 test")
	for {
		line, err := in.ReadLine()
		verb := strings.ToUpper(strings.Fields(line + " x")[0])
		if err != nil || verb == s.breaksAt {
			return
		}
		switch verb {
		case "EHLO", "HELO":
			_ = out.PrintfLine("250 test")
		case "RCPT":
			_ = out.PrintfLine("%s", s.answer)
		case "DATA":
			_ = out.PrintfLine("354 go on")
			lines, err := in.ReadDotLines()
			if err != nil || s.breaksAt == "BODY" {
				return
			}
			s.mu.Lock()
			s.messages = append(s.messages, strings.Join(lines, "\n"))
			s.mu.Unlock()
			_ = out.PrintfLine("250 taken")
		case "QUIT":
			_ = out.PrintfLine("221 bye")
			return
		default:
			_ = out.PrintfLine("250 fine")
		}
	}
}

func (s *mailServer) channel(t *testing.T) *Channel {
	t.Helper()
	c, err := New(Options{URL: "smtp+plain://" + s.listener.Addr().String(), From: "stint@example.com", To: []string{"ops@example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMessageArrivesWithItsReportAttached(t *testing.T) {
	server := startMailServer(t, "250 fine")
	m := notify.Message{Kind: notify.Report, Node: "a", Subject: "Daily report\r\nBcc: everybody@example.com", Total: 1, Items: []notify.Notification{
		{Subject: "Daily report", Text: "All quiet. \u202eEvil", Page: []byte("<!doctype html><title>Report</title>")},
	}}
	if err := server.channel(t).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if len(server.messages) != 1 {
		t.Fatalf("got %d messages, want 1", len(server.messages))
	}
	message := server.messages[0]
	for _, want := range []string{"Subject:", "[Stint] Daily report", "To: <ops@example.com>", "All quiet.", "U+202E", `filename="report.html"`} {
		if !strings.Contains(message, want) {
			t.Errorf("%q is missing from\n%s", want, message)
		}
	}
	if strings.Contains(message, "\nBcc:") {
		t.Error("a line break in the subject made another header")
	}
}

// TestLinesOfAMailAreShort composes mails about keys of the greatest length. A server may refuse
// a line of more than 998 bytes.
func TestLinesOfAMailAreShort(t *testing.T) {
	s := startMailServer(t, "250 ok")
	for _, sign := range []string{"a", "\u202e", "\x00", "é", "\n"} {
		key := strings.Repeat(sign, 500/len(sign))
		message, err := s.channel(t).compose(notify.Message{Subject: key + " is blocked", Total: 1, Items: []notify.Notification{{Subject: key, Text: key}}})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if _, err := message.WriteTo(&text); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(text.String(), "\r\n") {
			if len(line) > 998 {
				t.Errorf("%q: a line has %d bytes", sign, len(line))
			}
		}
	}
}

func TestSMTPStatusDecidesWhetherAnErrorIsPermanent(t *testing.T) {
	for answer, permanent := range map[string]bool{"550 no such user": true, "451 try later": false} {
		err := startMailServer(t, answer).channel(t).Send(t.Context(), notify.Message{Subject: "x"})
		if err == nil || notify.IsPermanent(err) != permanent {
			t.Errorf("%s: got %v, permanent %v", answer, err, notify.IsPermanent(err))
		}
	}
}

// TestBrokenConnectionIsRetriedUnlessTheMailWasAccepted closes the connection at each step.
func TestBrokenConnectionIsRetriedUnlessTheMailWasAccepted(t *testing.T) {
	for step, isTaken := range map[string]bool{"EHLO": false, "MAIL": false, "RCPT": false, "DATA": false, "BODY": false, "RSET": true, "QUIT": true} {
		s := startMailServer(t, "250 fine")
		s.breaksAt = step
		err := s.channel(t).Send(t.Context(), notify.Message{Subject: "x"})
		if isTaken != (err == nil) || notify.IsPermanent(err) {
			t.Errorf("closed at %s: got %v, permanent %t", step, err, notify.IsPermanent(err))
		}
	}
}

func TestUnreachableServerIsRetried(t *testing.T) {
	server := startMailServer(t, "250 fine")
	c := server.channel(t)
	server.listener.Close()
	if err := c.Send(t.Context(), notify.Message{Subject: "x"}); err == nil || notify.IsPermanent(err) {
		t.Errorf("got %v", err)
	}
}

func TestNewRejectsBadOptionsWithoutShowingSecrets(t *testing.T) {
	for name, o := range map[string]Options{
		"no URL":         {URL: "hunter2", From: "a@b.c", To: []string{"a@b.c"}},
		"another scheme": {URL: "http://u:hunter2@h", From: "a@b.c", To: []string{"a@b.c"}},
		"a bad sender":   {URL: "smtp://u:hunter2@h", From: "nobody", To: []string{"a@b.c"}},
		"a bad receiver": {URL: "smtp://u:hunter2@h", From: "a@b.c", To: []string{"nobody"}},
		"no receiver":    {URL: "smtp://u:hunter2@h", From: "a@b.c"},
	} {
		if _, err := New(o); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestErrorHidesThePasswordInEveryEncoding(t *testing.T) {
	for _, sent := range []string{"pass", "cGFzcw==", "AG1lAHBhc3M=", "bWUAbWUAcGFzcw=="} {
		if got := hiding("me", "pass").Replace("535 no " + sent + " here"); got != "535 no xxxxx here" {
			t.Errorf("%s: got %s", sent, got)
		}
	}
}

func TestEndlessAnswerIsNotReadToTheEnd(t *testing.T) {
	for name, part := range map[string]string{"a line": strings.Repeat("a", 32<<10), "lines": strings.Repeat("220-hello\r\n", 3000)} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var sent int
		var serving sync.WaitGroup
		serving.Go(func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
			for text := "220-"; sent < 64<<20; text = part {
				n, err := conn.Write([]byte(text))
				if sent += n; err != nil {
					return
				}
			}
		})
		c, err := New(Options{URL: "smtp+plain://" + listener.Addr().String(), From: "stint@example.com", To: []string{"ops@example.com"}})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Send(t.Context(), notify.Message{Subject: "x"})
		listener.Close()
		serving.Wait()
		// The rest of what was sent is in the buffers of the two sockets.
		if err == nil || notify.IsPermanent(err) || sent >= 32<<20 {
			t.Errorf("%s: got %v after %d bytes", name, err, sent)
		}
	}
}

func TestServersMayBeIPv6Literals(t *testing.T) {
	for url, want := range map[string]string{
		"smtp+plain://[::1]:2525": "[::1]:2525", "smtp+plain://[2001:db8::1]": "[2001:db8::1]:25",
		"smtps://[2001:db8::1]": "[2001:db8::1]:465", "smtp://mail.example": "mail.example:587",
	} {
		var dialled string
		c, err := New(Options{URL: url, From: "a@example.com", To: []string{"b@example.com"}, DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			dialled = address
			return nil, errors.New("refused")
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send(t.Context(), notify.Message{}); err == nil || dialled != want {
			t.Errorf("%s: dialled %q, %v; want %q", url, dialled, err, want)
		}
	}
}
