package redisconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/wholefile"
)

// tlsFiles names the PEM files of a URL. Its options have the names that they have in the URL of
// Postgres. The zero value has no file: the server's certificate is then checked against the
// machine's authorities, and Stint shows none.
type tlsFiles struct {
	root string // sslrootcert: certificates of the authorities that may sign the server's
	cert string // sslcert: what Stint shows to the server
	key  string // sslkey: the key of cert
}

// The options in which a URL names files.
const (
	optionRoot = "sslrootcert"
	optionCert = "sslcert"
	optionKey  = "sslkey"
)

// Why a URL with files is rejected.
var (
	errFilesWithoutTLS = errors.New("the Redis URL has sslrootcert, sslcert or sslkey and no TLS; write rediss:// for redis://")
	errHalfPair        = errors.New("the Redis URL needs both sslcert and sslkey, or neither")
	errFileTwice       = errors.New("the Redis URL has sslrootcert, sslcert or sslkey twice, or without the name of a file")
)

// cutTLSFiles returns the files that u names, and u without their options, which go-redis does
// not know.
func cutTLSFiles(u *url.URL) (tlsFiles, *url.URL, error) {
	query := u.Query()
	f := tlsFiles{root: query.Get(optionRoot), cert: query.Get(optionCert), key: query.Get(optionKey)}
	isNamed := false
	for option, file := range map[string]string{optionRoot: f.root, optionCert: f.cert, optionKey: f.key} {
		if values := query[option]; len(values) > 1 || len(values) == 1 && file == "" {
			return tlsFiles{}, nil, errFileTwice
		}
		isNamed = isNamed || file != ""
		query.Del(option)
	}
	if !isNamed {
		return tlsFiles{}, u, nil
	}
	if (f.cert == "") != (f.key == "") {
		return tlsFiles{}, nil, errHalfPair
	}
	rest := *u
	rest.RawQuery = query.Encode()
	return f, &rest, nil
}

// configure returns config with what the files contain now. Its error is one line.
func (f tlsFiles) configure(config *tls.Config) (*tls.Config, error) {
	config = config.Clone()
	if f.root != "" {
		text, err := wholefile.ReadRegular(f.root, wholefile.MaxText)
		if err != nil {
			return nil, fileError(optionRoot, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fileError(optionRoot, errors.New(f.root+" contains no certificate in PEM form"))
		}
	}
	if f.cert != "" {
		cert, err := wholefile.ReadRegular(f.cert, wholefile.MaxText)
		if err != nil {
			return nil, fileError(optionCert, err)
		}
		key, err := wholefile.ReadRegular(f.key, wholefile.MaxText)
		if err != nil {
			return nil, fileError(optionKey, err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fileError(optionCert+" and "+optionKey, fmt.Errorf("%s with %s: %w", f.cert, f.key, err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func fileError(option string, err error) error {
	return fmt.Errorf("the %s of the Redis URL: %s", option, escape.OneLine(err.Error()))
}
