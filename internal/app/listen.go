package app

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stint-dev/stint/internal/connlimit"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wholefile"
)

// listen binds an address, with TLS if there is a certificate. Its error is one line and names
// the setting.
func listen(name, address string, c *certificate, conns *connlimit.Set, log *slog.Logger) (net.Listener, error) {
	listener, err := bind(name, address, log)
	if err != nil {
		return nil, err
	}
	if config := c.config(); config != nil {
		listener = tls.NewListener(listener, config)
	}
	return httpserver.FramingListener(listener, conns), nil
}

// bind binds an address, or uses the socket that systemd passed with the name of the setting.
// If a connection cannot be accepted, Accept waits. The error of bind names the setting.
func bind(name, address string, log *slog.Logger) (net.Listener, error) {
	listener, err := open(name, address)
	if err != nil {
		return nil, err
	}
	return connlimit.Listener(listener, log), nil
}

func open(name, address string) (net.Listener, error) {
	fd, err := passedSocket(name, os.Getenv)
	if err != nil {
		return nil, err
	}
	if fd > 0 {
		return inherit(name, address, fd)
	}
	listener, err := net.Listen("tcp", address) //nolint:noctx // binds at once or fails at once
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("--%s %s is in use by another program, perhaps another Stint; end it, or choose another port", name, address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("--%s %s is not an address of this machine", name, address)
	case err != nil:
		return nil, fmt.Errorf("--%s: %s", name, oneLine(err))
	}
	return listener, nil
}

// connSets are the sets of open connections of the listeners.
type connSets struct{ checks, admin, grpc *connlimit.Set }

const (
	// connMemory is the memory of a connection, with its buffers and its goroutine, in bytes.
	connMemory = 32 << 10
	// minConns is the minimum for an eighth of the connections, however little memory there is.
	minConns = 64
)

// newConnSets bounds the connections of the listeners by the files and the memory that the
// process may use; 0 means unknown. Together they use at most seven eighths of the files and an
// eighth of the memory, and no listener uses up the share of another.
func newConnSets(files int, memory int64) connSets {
	most := 1 << 20
	if memory > 0 {
		most = min(most, max(8*minConns, int(memory/8/connMemory)))
	}
	if files > 0 {
		most = min(most, files)
	}
	share := func(eighths int) *connlimit.Set { return connlimit.NewSet(max(1, most/8*eighths)) }
	return connSets{checks: share(4), grpc: share(2), admin: share(1)}
}

// firstSocket is the descriptor of the first socket that systemd passes; see sd_listen_fds(3).
const firstSocket = 3

// passedSocket returns the descriptor of the socket that systemd passed to this process with a
// name (FileDescriptorName= of its unit), 0 if there is none. Two sockets with the same name
// are an error, since clients of the second would wait for ever.
func passedSocket(name string, getenv func(string) string) (fd int, err error) {
	if getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return 0, nil
	}
	count, err := strconv.Atoi(getenv("LISTEN_FDS"))
	if err != nil {
		return 0, fmt.Errorf("--%s: LISTEN_FDS is %q, which is not a number of sockets", name, getenv("LISTEN_FDS"))
	}
	for i, passed := range strings.Split(getenv("LISTEN_FDNAMES"), ":") {
		switch {
		case passed != name || i >= count:
		case fd > 0:
			return 0, fmt.Errorf("--%s: systemd passes more than one socket with FileDescriptorName=%s, and one is used; keep one ListenStream= (ListenStream=[::]:PORT takes IPv4 too)", name, name)
		default:
			fd = firstSocket + i
		}
	}
	return fd, nil
}

// inherit listens on a socket that another process opened and keeps open: connections wait in
// it while this process restarts. The settings were validated for address, so the socket must
// not be reachable from more machines.
func inherit(name, address string, fd int) (net.Listener, error) {
	syscall.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), name)
	defer file.Close() // the listener has a copy
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("--%s: the socket that systemd passes cannot be used: %s", name, oneLine(err))
	}
	if passed := listener.Addr().String(); isLoopback(address) && !isLoopback(passed) {
		listener.Close()
		reached := "which other machines reach"
		if listener.Addr().Network() == "unix" {
			reached = "a file"
		}
		return nil, fmt.Errorf("--%s is %s, but the socket that systemd passes is %s, %s; set it to the same address", name, address, passed, reached)
	}
	return listener, nil
}

// certificate is the certificate of a listener, which may be read again while the node runs.
// Its methods are safe for concurrent use. A nil certificate means no TLS.
type certificate struct {
	name    string // name of the listener's setting
	current atomic.Pointer[pair]
}

// pair is a certificate with its key, as loaded.
type pair struct {
	tls  tls.Certificate
	text []byte // of both files
}

func (p *pair) equal(other *pair) bool { return other != nil && bytes.Equal(p.text, other.text) }

// tlsSettings are the beginnings of the names of the settings with the files of a listener's
// certificate, by the setting of the listener.
var tlsSettings = map[string]string{"listen": "tls", "admin-listen": "admin-tls"}

// newCertificate reads a certificate, nil for none.
func newCertificate(name string, files TLSFiles) (*certificate, error) {
	if !files.Enabled() {
		return nil, nil
	}
	c := &certificate{name: name}
	read, err := c.read(files)
	if err != nil {
		return nil, err
	}
	c.current.Store(read)
	return c, nil
}

// read reads the files. Its error is one line.
func (c *certificate) read(files TLSFiles) (*pair, error) {
	settings := tlsSettings[c.name]
	cert, err := wholefile.ReadRegular(files.Cert, wholefile.MaxText)
	if err != nil {
		return nil, fmt.Errorf("--%s-cert: %s", settings, oneLine(err))
	}
	key, err := wholefile.ReadRegular(files.Key, wholefile.MaxText)
	if err != nil {
		return nil, fmt.Errorf("--%s-key: %s", settings, oneLine(err))
	}
	loaded := &pair{text: slices.Concat(cert, []byte{0}, key)}
	if loaded.tls, err = tls.X509KeyPair(cert, key); err != nil {
		return nil, fmt.Errorf("--%s-cert %s with --%s-key %s: %s", settings, files.Cert, settings, files.Key, oneLine(err))
	}
	return loaded, nil
}

// warn logs that clients will reject the certificate at this time. It is used anyway: a new one
// is read as soon as its files change.
func (c *certificate) warn(log *slog.Logger, now time.Time) {
	p := c.loaded()
	if p == nil {
		return
	}
	if leaf := p.tls.Leaf; now.After(leaf.NotAfter) {
		log.Warn("a certificate has expired; clients refuse the connection", "listener", c.name, "expired", leaf.NotAfter.UTC())
	} else if now.Before(leaf.NotBefore) {
		log.Warn("a certificate is not valid yet; clients refuse the connection", "listener", c.name, "valid_from", leaf.NotBefore.UTC())
	}
}

// loaded returns the pair in effect.
func (c *certificate) loaded() *pair {
	if c == nil {
		return nil
	}
	return c.current.Load()
}

// config returns the settings of TLS, nil for none.
func (c *certificate) config() *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &c.current.Load().tls, nil },
		MinVersion:     tls.VersionTLS12,
	}
}
