// Package redisconn connects to the Redis that a URL names: one server, the primary that Sentinels
// know, or a Cluster. It bounds the replies, and explains failures by the URL.
package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/stint-dev/stint/internal/socket"
)

// dialTimeout is how long connecting may take if the URL does not set it: a node that cannot
// reach Redis must find out soon.
const dialTimeout = time.Second

// Connect returns a client for the Redis that rawURL names, without waiting
// for it to answer:
//
//	redis://[user:password@]host[:6379][/db]     standalone; rediss:// for TLS
//	unix://[user:password@]/path/to/socket[?db=0]
//	redis+sentinel://[user:password@]host[:26379][/db]?master_name=m&addr=host2:26379
//	redis+cluster://[user:password@]host[:6379]?addr=host2:6379
//
// With TLS, the last two are rediss+sentinel:// and rediss+cluster://. The user and password in
// a Sentinel URL are the Sentinels'; Redis's own are the options username and
// password. With TLS, the options sslrootcert, sslcert and sslkey name files, which are read for
// each connection, so that new ones need no restart. Further options are those of go-redis. Of
// the URL, an error repeats at most the name of such a file: the rest may contain a password.
func Connect(rawURL string) (redis.UniversalClient, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errURL
	}
	files, u, err := cutTLSFiles(u)
	if err != nil {
		return nil, err
	}
	scheme, kind, _ := strings.Cut(u.Scheme, "+")
	if files != (tlsFiles{}) {
		if scheme != "rediss" {
			return nil, errFilesWithoutTLS
		}
		if _, err := files.configure(&tls.Config{MinVersion: tls.VersionTLS12}); err != nil {
			return nil, err
		}
	}
	switch {
	case (scheme == "redis" || scheme == "rediss") && kind == "":
		return connectStandalone(u.String(), u, files)
	case scheme == "unix" && kind == "":
		return connectStandalone(rawURL, nil, files)
	case (scheme == "redis" || scheme == "rediss") && kind == "sentinel":
		return connectSentinel(plain(u, scheme), files)
	case (scheme == "redis" || scheme == "rediss") && kind == "cluster":
		return connectCluster(plain(u, scheme), files)
	}
	return nil, errURL
}

// Why Connect rejects a URL.
var (
	errURL      = errors.New("the Redis URL must begin with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://, for example redis://127.0.0.1:6379/0")
	errDatabase = errors.New("the Redis URL's path must be the number of a database, for example redis://127.0.0.1:6379/0")
	errOption   = errors.New("the Redis URL has an option that does not exist or whose value does not fit; see redis://host:6379/0?read_timeout=1s for the form")
	errMaster   = errors.New("the Redis URL names Sentinels but no primary; add ?master_name= and its name")
	errCluster  = errors.New("the Redis URL names a Cluster, which has no numbered databases; remove the path")
)

// plain returns u with a scheme that go-redis accepts.
func plain(u *url.URL, scheme string) *url.URL {
	known := *u
	known.Scheme = scheme
	return &known
}

// checkDatabase returns an error unless the path is empty or a number.
func checkDatabase(u *url.URL) error {
	if path := strings.Trim(u.Path, "/"); path != "" {
		if n, err := strconv.Atoi(path); err != nil || n < 0 {
			return errDatabase
		}
	}
	return nil
}

func connectStandalone(rawURL string, u *url.URL, files tlsFiles) (redis.UniversalClient, error) {
	if u != nil {
		if err := checkDatabase(u); err != nil {
			return nil, err
		}
	}
	o, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, errOption
	}
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	o.DialTimeout = orDefault(o.DialTimeout)
	o.MaintNotificationsConfig = noMaintenance()
	o.Dialer = dialer(o.DialTimeout, o.TLSConfig, files)
	return redis.NewClient(o), nil
}

func connectSentinel(u *url.URL, files tlsFiles) (redis.UniversalClient, error) {
	if err := checkDatabase(u); err != nil {
		return nil, err
	}
	if u.Port() == "" {
		u.Host += ":26379"
	}
	o, err := redis.ParseFailoverURL(u.String())
	if err != nil {
		return nil, errOption
	}
	if o.MasterName == "" {
		return nil, errMaster
	}
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	o.DialTimeout = orDefault(o.DialTimeout)
	// Only the primary decides limits.
	o.ReplicaOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
	o.Dialer = dialer(o.DialTimeout, o.TLSConfig, files)
	return redis.NewFailoverClient(o), nil
}

func connectCluster(u *url.URL, files tlsFiles) (redis.UniversalClient, error) {
	if strings.Trim(u.Path, "/") != "" {
		return nil, errCluster
	}
	o, err := redis.ParseClusterURL(u.String())
	if err != nil {
		return nil, errOption
	}
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	o.DialTimeout = orDefault(o.DialTimeout)
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
	o.MaintNotificationsConfig = noMaintenance()
	o.Dialer = dialer(o.DialTimeout, o.TLSConfig, files)
	return redis.NewClusterClient(o), nil
}

// dialer returns the dialer of go-redis with two changes: package socket reads and writes
// connections without TLS, and replies are bounded. secured is nil for no TLS.
func dialer(timeout time.Duration, secured *tls.Config, files tlsFiles) dialFunc {
	dial := func(config *tls.Config) dialFunc {
		return redis.NewDialer(&redis.Options{DialTimeout: timeout, TLSConfig: config})
	}
	connect := dial(secured)
	if secured != nil {
		connect = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialTLS(ctx, dial, secured, files, network, addr)
		}
	}
	return bounded(socket.Dialer(connect))
}

// dialTLS connects with what the files contain now. The certificate must be for the host of addr
// or for that of the URL: Sentinels and a Cluster name further servers, each of which may have a
// certificate of its own, or an address for which there is none.
func dialTLS(ctx context.Context, dial func(*tls.Config) dialFunc, secured *tls.Config, files tlsFiles, network, addr string) (net.Conn, error) {
	config, err := files.configure(secured)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "" || host == config.ServerName {
		return dial(config)(ctx, network, addr)
	}
	first, second := config.Clone(), config
	first.ServerName = host
	if net.ParseIP(host) != nil { // of most servers, no certificate names the address
		first, second = second, first
	}
	conn, err := dial(first)(ctx, network, addr)
	if errors.As(err, new(x509.HostnameError)) {
		return dial(second)(ctx, network, addr)
	}
	return conn, err
}

func orDefault(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return dialTimeout
	}
	return timeout
}

// noMaintenance disables the maintenance notifications of a hosted Redis, which would change
// the client's timeouts.
func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
