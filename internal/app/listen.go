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
	var config *tls.Config
	if files.Enabled() {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			return nil, fmt.Errorf("the certificate of --%s: %s", name, oneLine(err))
		}
		config = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	listener, err := net.Listen("tcp", address) //nolint:noctx // binds at once or fails at once
	if err != nil {
		return nil, fmt.Errorf("--%s: %s", name, oneLine(err))
	}
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	return httpserver.FramingListener(listener), nil
}
