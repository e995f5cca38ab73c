package servers

import (
	"bytes"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
)

// CommitBreaker is a TCP relay to Postgres that ends with the test and can break the
// connection on which a COMMIT is sent.
type CommitBreaker struct {
	URL string // of the database by way of the relay

	to     string // host:port
	before atomic.Bool
	text   atomic.Pointer[string] // nil: nothing is broken
}

// NewCommitBreaker listens on a free port and relays to the Postgres of a URL.
func NewCommitBreaker(t testing.TB, target string) *CommitBreaker {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	b := &CommitBreaker{to: u.Host}
	query := u.Query()
	query.Set("sslmode", "disable") // the relay reads what is sent
	u.Host, u.RawQuery = Listen(t, b.relay), query.Encode()
	b.URL = u.String()
	return b
}

// BreakNext breaks the connection of the next COMMIT of a transaction in which a text was
// sent: before the server gets it, or once the server has answered it.
func (b *CommitBreaker) BreakNext(text string, before bool) {
	b.before.Store(before)
	b.text.Store(&text)
}

func (b *CommitBreaker) relay(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", b.to)
	if err != nil {
		return
	}
	defer server.Close()
	var isCommitted atomic.Bool // the server's next answer is that to the COMMIT
	go func() {
		defer client.Close()
		piece := make([]byte, 64<<10)
		for {
			n, err := server.Read(piece)
			if err != nil || isCommitted.Load() {
				return
			}
			if _, err := client.Write(piece[:n]); err != nil {
				return
			}
		}
	}()
	piece, isIn := make([]byte, 64<<10), false // the text was sent in this transaction
	for {
		n, err := client.Read(piece)
		if err != nil {
			return
		}
		text := b.text.Load()
		isIn = isIn || text != nil && bytes.Contains(piece[:n], []byte(*text))
		if bytes.Contains(piece[:n], []byte("commit\x00")) {
			if isIn && b.text.CompareAndSwap(text, nil) {
				if b.before.Load() {
					return
				}
				isCommitted.Store(true)
			}
			isIn = false
		}
		if _, err := server.Write(piece[:n]); err != nil {
			return
		}
	}
}
