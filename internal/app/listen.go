package app

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"slices"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/httpserver"
)

// listen binds an address, with TLS if there is a certificate. Its error is one line
// and names the setting.
func listen(name, address string, c *certificate) (net.Listener, error) {
	listener, err := bind(name, address)
	if err != nil {
		return nil, err
	}
	if config := c.config(); config != nil {
		listener = tls.NewListener(listener, config)
	}
	return httpserver.FramingListener(listener), nil
}

// bind binds an address. Its error names the setting.
func bind(name, address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address) //nolint:noctx // binds at once or fails at once
	if err != nil {
		return nil, fmt.Errorf("--%s: %s", name, oneLine(err))
	}
	return listener, nil
}

// certificate is the certificate of a listener, which may be read again while the node
// runs. Its methods may be called on nil, which is no TLS, and concurrently.
type certificate struct {
	name    string // of the listener's setting
	current atomic.Pointer[pair]
}

// pair is a certificate with its key, as loaded.
type pair struct {
	tls  tls.Certificate
	text []byte // of both files
}

func (p *pair) equal(other *pair) bool { return other != nil && bytes.Equal(p.text, other.text) }

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
	cert, err := os.ReadFile(files.Cert)
	var key []byte
	if err == nil {
		key, err = os.ReadFile(files.Key)
	}
	loaded := &pair{text: slices.Concat(cert, []byte{0}, key)}
	if err == nil {
		loaded.tls, err = tls.X509KeyPair(cert, key)
	}
	if err != nil {
		return nil, fmt.Errorf("the certificate of --%s: %s", c.name, oneLine(err))
	}
	return loaded, nil
}

// loaded returns what is in effect.
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
