package httpserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// pair returns a connection of a listener with lazy deadlines and its other end.
func pair(t *testing.T) (here, there net.Conn) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := LazyDeadlines(plain)
	defer l.Close()
	if there, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if here, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = here.Close(); _ = there.Close() })
	return here, there
}

// set sets a deadline so many milliseconds from now.
func set(t *testing.T, deadline func(time.Time) error, ms int) (at time.Time) {
	t.Helper()
	at = time.Now().Add(time.Duration(ms) * time.Millisecond)
	if err := deadline(at); err != nil {
		t.Fatal(err)
	}
	return at
}

const hour = 3_600_000

func TestADeadlineThatWasMovedLaterIsKeptAndNotTheOldOne(t *testing.T) {
	here, _ := pair(t)
	set(t, here.SetReadDeadline, 10)
	last := set(t, here.SetReadDeadline, 80)
	_, err := here.Read(make([]byte, 1))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the error is %v", err)
	}
	if time.Now().Before(last) {
		t.Error("the read ended before its last deadline")
	}
}

func TestADeadlineThatIsMovedEarlierEndsAReadThatWaits(t *testing.T) {
	here, _ := pair(t)
	set(t, here.SetReadDeadline, hour)
	ended := make(chan error, 1)
	go func() {
		_, err := here.Read(make([]byte, 1))
		ended <- err
	}()
	set(t, here.SetReadDeadline, 20)
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the error is %v", err)
	}
}

func TestADeadlineThatIsTakenAwayNeverComes(t *testing.T) {
	here, there := pair(t)
	set(t, here.SetReadDeadline, 10)
	if err := here.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(60 * time.Millisecond) // past the first deadline
		_, _ = there.Write([]byte("late"))
	}()
	got := make([]byte, 4)
	if _, err := io.ReadFull(here, got); err != nil || string(got) != "late" {
		t.Fatalf("read %q, %v", got, err)
	}
}

func TestAWriteGoesOnWhereItsEarlyDeadlineStoppedIt(t *testing.T) {
	here, there := pair(t)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // more than the sockets hold
	set(t, here.SetWriteDeadline, 10)
	set(t, here.SetWriteDeadline, hour)
	read := make(chan []byte, 1)
	go func() {
		time.Sleep(60 * time.Millisecond) // until the first deadline has stopped the write
		all, _ := io.ReadAll(there)
		read <- all
	}()
	n, err := here.Write(sent)
	if err != nil || n != len(sent) {
		t.Fatalf("wrote %d of %d bytes: %v", n, len(sent), err)
	}
	_ = here.Close()
	if !bytes.Equal(<-read, sent) {
		t.Error("what arrived is not what was sent")
	}
}

func TestAWriteThatNobodyReadsEndsAtItsDeadline(t *testing.T) {
	here, _ := pair(t)
	set(t, here.SetDeadline, 10)
	last := set(t, here.SetDeadline, 60)
	_, err := here.Write(make([]byte, 64<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().Before(last) {
		t.Fatalf("the error is %v, the deadline over: %t", err, !time.Now().Before(last))
	}
}

// BenchmarkDeadlines moves the deadlines of a connection as a server does for
// each request.
func BenchmarkDeadlines(b *testing.B) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer plain.Close()
	there, err := net.Dial("tcp", plain.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer there.Close()
	c, err := plain.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for name, c := range map[string]net.Conn{"plain": c, "lazy": &conn{Conn: c}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				now := time.Now()
				_ = c.SetReadDeadline(now.Add(75 * time.Second))
				_ = c.SetReadDeadline(now.Add(10 * time.Second))
				_ = c.SetWriteDeadline(now.Add(30 * time.Second))
			}
		})
	}
}
