package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/escape"
)

// kind is the type of Redis deployment that a URL names.
type kind string

const (
	standalone kind = "redis"
	sentinel   kind = "redis+sentinel"
	cluster    kind = "redis+cluster"
)

// Target is the content of a URL without its secrets. The zero value is an unknown target.
type Target struct {
	kind  kind
	tls   bool
	files tlsFiles
	addrs []string // host:port; those of the Sentinels, if any; none for a Unix socket
}

// TargetOf parses a URL that Connect has accepted.
func TargetOf(rawURL string) Target {
	u, err := url.Parse(rawURL)
	if err != nil {
		return Target{}
	}
	scheme, suffix, _ := strings.Cut(u.Scheme, "+")
	t := Target{kind: standalone, tls: scheme == "rediss"}
	if t.files, _, err = cutTLSFiles(u); err != nil {
		return Target{}
	}
	if scheme == "unix" {
		return t
	}
	port := "6379"
	switch suffix {
	case "cluster":
		t.kind = cluster
	case "sentinel":
		t.kind, port = sentinel, "26379"
	}
	for _, addr := range append([]string{u.Host}, u.Query()["addr"]...) {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			addr = net.JoinHostPort(strings.Trim(addr, "[]"), port)
		}
		t.addrs = append(t.addrs, addr)
	}
	return t
}

// IsCluster reports whether t is a Redis Cluster.
func (t Target) IsCluster() bool { return t.kind == cluster }

// CheckMode returns what is wrong with the URL if the server of an address is in that redis_mode,
// nil for nothing.
func (t Target) CheckMode(address, mode string) *ConfigError {
	switch {
	case mode == "sentinel":
		return configErrorf("the server %s is a Sentinel, which holds no data; write %s with ?master_name=", address, Target{kind: sentinel}.scheme(t.tls))
	case mode == "cluster" && t.kind != cluster && t.kind != "":
		return configErrorf("the server %s belongs to a Cluster; write %s", address, Target{kind: cluster}.scheme(t.tls))
	}
	return nil
}

// scheme returns the URL's scheme, with TLS or without.
func (t Target) scheme(withTLS bool) string {
	if withTLS {
		return strings.Replace(string(t.kind), "redis", "rediss", 1) + "://"
	}
	return string(t.kind) + "://"
}

// handshakeTimeout bounds how long a server may take to show whether it speaks
// TLS.
const handshakeTimeout = 2 * time.Second

// mismatch returns the error to show if a server speaks TLS and the URL does not say so, or the
// other way round. Such a server closes the connection or does not answer, and so only looks
// unreachable. mismatch returns nil if no server shows a mismatch.
func (t Target) mismatch(ctx context.Context) *ConfigError {
	for _, addr := range t.addrs {
		switch {
		case t.tls && speaksPlainly(ctx, addr):
			return t.speaksNoTLS()
		case !t.tls && speaksTLS(ctx, addr):
			return configErrorf("it speaks TLS; write %s", t.scheme(true))
		case t.tls:
			if alert := t.alertOf(ctx, addr); alert != "" {
				return t.refusesTLS(alert)
			}
		}
	}
	return nil
}

// speaksPlainly reports whether a server answers like a Redis without TLS.
func speaksPlainly(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	until, _ := ctx.Deadline()
	_ = conn.SetDeadline(until) // otherwise the read below fails
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	var first [1]byte
	n, _ := conn.Read(first[:])
	return n == 1 && (first[0] == '+' || first[0] == '-')
}

// alertIn returns the error in err after a server ended a TLS connection with an alert, nil for
// none. The alert's own type is not exported.
func alertIn(err error) error {
	var of *net.OpError
	if !errors.As(err, &of) || of.Op != "remote error" {
		return nil
	}
	return of
}

// speaksNoTLS returns the error for a server without TLS.
func (t Target) speaksNoTLS() *ConfigError {
	return configErrorf("it speaks no TLS; write %s, or name its TLS port", t.scheme(false))
}

// refusesTLS returns the error for a server that ended a connection with an alert.
func (t Target) refusesTLS(alert string) *ConfigError {
	hint := ""
	switch {
	case strings.Contains(alert, "certificate required"):
		hint = "; name Stint's certificate in the URL, ?sslcert=FILE&sslkey=FILE, or set tls-auth-clients to no"
	case t.files.cert != "" && strings.Contains(alert, "certificate"):
		hint = "; Redis must accept the certificate of sslcert, by an authority of its tls-ca-cert-file"
	}
	return configErrorf("it refuses the TLS connection (%s)%s", escape.OneLine(alert), hint)
}

// alertOf returns the alert with which a server ends a connection on which nothing is sent, ""
// for none. Since TLS 1.3 a client that sends at once may find the connection reset before it has
// read the alert that its certificate is missing.
func (t Target) alertOf(ctx context.Context, addr string) string {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	config, err := t.files.configure(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	if err != nil {
		return ""
	}
	dialer := tls.Dialer{Config: config}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err == nil {
		defer conn.Close()
		until, _ := ctx.Deadline()
		_ = conn.SetDeadline(until) // otherwise the read below fails
		_, err = conn.Read(make([]byte, 1))
	}
	if alert := alertIn(err); alert != nil {
		return alert.Error()
	}
	return ""
}

// speaksTLS reports whether a server answers a TLS handshake, whatever the result.
func speaksTLS(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	// Nothing is sent over the connection, so nothing needs to be verified.
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return alertIn(err) != nil
	}
	conn.Close()
	return true
}
