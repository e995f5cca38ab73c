package app

import (
	"crypto/tls"
	"fmt"
	"net"

	"github.com/stint-dev/stint/internal/httpserver"
)

// listen binds an address, with TLS if files has a certificate. Its errors are one
// line each and name the setting.
func listen(name, address string, files TLSFiles) (net.Listener, error) {
	config, err := tlsConfig(name, files)
	if err != nil {
		return nil, err
	}
	listener, err := bind(name, address)
	if err != nil {
		return nil, err
	}
	if config != nil {
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

// tlsConfig reads a certificate, nil for none.
func tlsConfig(name string, files TLSFiles) (*tls.Config, error) {
	if !files.Enabled() {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return nil, fmt.Errorf("the certificate of --%s: %s", name, oneLine(err))
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
