package eventlog

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/socket"
	"github.com/stint-dev/stint/internal/supervise"
)

// TLSFiles are files for the connection to a syslog receiver, PEM.
type TLSFiles struct {
	CA        string // certificates that sign the receiver's, "" for those of the machine
	Cert, Key string // of this client, "" for none
}

// Times of the connection to the receiver.
const (
	dialTimeout  = 10 * time.Second
	writeTimeout = 10 * time.Second
	// settled is after which time on an unbroken connection what the receiver's machine has acknowledged is taken as
	// received by its program: syslog over TCP has no acknowledgements of its own.
	settled = 5 * time.Second
	// maxUnacknowledged is after which time without an acknowledgement of the receiver's machine a connection is broken.
	maxUnacknowledged = 10 * time.Second
	// farewell is how long a stop waits until the receiver has read everything and closes the connection too.
	farewell = 2 * time.Second
)

// maxPayload is the number of bytes of a line, of which receivers accept at least 8192 (RFC 5425, section 4.3.1).
const maxPayload = 8000

// sender sends what is in a backlog, framed by octet counting (RFC 6587, section 3.4.1, and RFC 5425).
type sender struct {
	backlog *backlog
	to      Target
	tls     *tls.Config
	log     *slog.Logger
	now     func() time.Time
	head    []byte // of each message, after its priority and time

	mu    sync.Mutex
	state State
}

func newSender(s *backlog, o *Options) (*sender, error) {
	r := &sender{backlog: s, to: o.To, log: o.Log, now: o.Now}
	r.head = fmt.Appendf(nil, " %s stint %d - - ", printable(o.Node), os.Getpid())
	if !o.To.TLS {
		return r, nil
	}
	host, _, _ := net.SplitHostPort(o.To.Syslog)
	r.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if o.TLS.CA != "" {
		text, err := os.ReadFile(o.TLS.CA)
		if err != nil {
			return nil, err
		}
		r.tls.RootCAs = x509.NewCertPool()
		if !r.tls.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM", o.TLS.CA)
		}
	}
	if files := o.TLS; files.Cert != "" {
		if _, err := tls.LoadX509KeyPair(files.Cert, files.Key); err != nil {
			return nil, err
		}
		r.tls.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // it may have been renewed
			pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
			return &pair, err
		}
	}
	return r, nil
}

// printable returns a HOSTNAME of RFC 5424.
func printable(name string) string {
	text := []byte(name)
	for i, c := range text {
		if c <= ' ' || c > '~' {
			text[i] = '_'
		}
	}
	if len(text) == 0 {
		return "-"
	}
	return string(text[:min(len(text), 255)])
}

func (r *sender) read() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

func (r *sender) done(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.state.Err == nil {
		r.log.Warn("events cannot be sent to syslog and wait on disk", "to", r.to.String(), "error", err)
	}
	if err == nil && r.state.Err != nil {
		r.log.Info("events are sent to syslog again", "to", r.to.String())
	}
	r.state.done(r.now(), err)
}

// run sends until ctx ends.
func (r *sender) run(ctx context.Context) {
	for wait := retryAfter; ctx.Err() == nil; wait = min(2*wait, 30*time.Second) {
		began := r.now()
		err := r.connection(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the receiver closed the connection")
		}
		r.done(err)
		if r.now().Sub(began) > time.Minute {
			wait = retryAfter
		}
		pause := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// written is a place up to which everything was written at a time.
type written struct {
	until        place
	at           time.Time
	acknowledged bool // by the receiver's machine
}

// peer reads the connection, on which receivers send nothing: a read returns when they are gone.
type peer struct {
	gone chan struct{}
	err  error // why, nil if the receiver has closed the connection; valid once gone is closed
}

func watch(conn net.Conn) *peer {
	p := &peer{gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		p.err = supervise.Call("syslog receiver", func() error {
			_, err := io.Copy(io.Discard, conn)
			return err
		})
	}()
	return p
}

// connection sends over one connection until it breaks or ctx ends.
func (r *sender) connection(ctx context.Context) error {
	conn, err := r.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	receiver := watch(conn)
	var open []written
	at, began := r.backlog.first(), time.Now()
	buffer, framed := make([]byte, 256<<10), []byte(nil)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-receiver.gone:
			return receiver.err
		case <-ctx.Done():
			return r.farewell(conn, receiver, at)
		default:
		}
		if open, err = r.settle(conn, open); err != nil {
			return err
		}
		if r.read().Err != nil && len(open) == 0 && time.Since(began) >= settled { // nothing waits
			r.done(nil)
		}
		lines, next, err := r.backlog.read(at, buffer)
		if err != nil {
			return err
		}
		if len(lines) > 0 {
			framed = r.frame(framed[:0], lines)
			if err := conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
				return err
			}
			if _, err := conn.Write(framed); err != nil {
				return err
			}
			at = next
			open = append(open, written{until: at, at: time.Now()})
			continue
		}
		select {
		case <-receiver.gone:
		case <-ctx.Done():
		case <-r.backlog.more:
		case <-tick.C:
		}
	}
}

// settle notes what was acknowledged and written long enough ago as received, and returns the rest.
func (r *sender) settle(conn net.Conn, open []written) ([]written, error) {
	if len(open) == 0 {
		return open, nil
	}
	waiting, err := socket.Unacknowledged(conn)
	if err != nil {
		return open, err
	}
	if waiting == 0 {
		for i := range open {
			open[i].acknowledged = true
		}
	}
	n := 0
	for n < len(open) && open[n].acknowledged && time.Since(open[n].at) >= settled {
		n++
	}
	if n == 0 {
		return open, nil
	}
	if err := r.backlog.received(open[n-1].until); err != nil {
		return open, err
	}
	r.done(nil)
	return open[n:], nil
}

// farewell ends the connection from this side. If the receiver closes it too, it has read everything.
func (r *sender) farewell(conn net.Conn, receiver *peer, until place) error {
	half, can := conn.(interface{ CloseWrite() error })
	if !can || half.CloseWrite() != nil {
		return nil
	}
	wait := time.NewTimer(farewell)
	defer wait.Stop()
	select {
	case <-receiver.gone:
		if receiver.err == nil {
			return r.backlog.received(until)
		}
	case <-wait.C:
	}
	return nil
}

func (r *sender) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if r.tls != nil {
		return (&tls.Dialer{NetDialer: socket.DialerFailing(maxUnacknowledged), Config: r.tls}).DialContext(ctx, "tcp", r.to.Syslog)
	}
	return socket.DialerFailing(maxUnacknowledged).DialContext(ctx, "tcp", r.to.Syslog)
}

// frame appends a message for each line: its length, a space, and the message. The priority is that of the
// facility 10, security, with the severity notice. The time of the event is in the line.
func (r *sender) frame(to, lines []byte) []byte {
	stamp := r.now().UTC().AppendFormat([]byte("<85>1 "), "2006-01-02T15:04:05.000Z")
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		to = strconv.AppendInt(to, int64(len(stamp)+len(r.head)+len(line)), 10)
		to = append(to, ' ')
		to = append(to, stamp...)
		to = append(to, r.head...)
		to = append(to, line...)
	}
	return to
}
