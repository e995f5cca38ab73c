package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/escape"
)

// ConfigError says that a server answers but cannot be used because of its settings or its URL.
// Waiting does not help.
type ConfigError struct {
	Problem string // what is wrong and what would be right; contains no secret
}

// Error returns the problem.
func (e *ConfigError) Error() string { return e.Problem }

func configErrorf(format string, args ...any) *ConfigError {
	return &ConfigError{fmt.Sprintf(format, args...)}
}

// Explain returns the mistake in the URL or in a server's settings that err, of a client that
// Connect returned for the URL, shows. It returns nil if the servers may only be unreachable for
// now. If err shows nothing, Explain asks the servers whether they speak TLS.
func (t Target) Explain(ctx context.Context, err error) *ConfigError {
	if wrong := t.explain(err); wrong != nil {
		return wrong
	}
	return t.mismatch(ctx)
}

func (t Target) explain(err error) *ConfigError {
	if wrong := (*ConfigError)(nil); errors.As(err, &wrong) {
		return wrong
	}
	text := err.Error()
	says := func(part string) bool { return Refuses(err, part) || Refuses(err, "ERR "+part) }
	asked, byRedis := "Redis", "Redis"
	if fromSentinels(err) {
		asked, byRedis = "a Sentinel", "a Sentinel (the user and password before the @ are the Sentinels', Redis's own are the options username and password)"
	}
	var certificate *tls.CertificateVerificationError
	switch {
	case says("NOAUTH"):
		return configErrorf("%s requires a password (NOAUTH); write it into the URL, %suser:password@host", byRedis, t.scheme(t.tls))
	case redis.IsAuthError(err), says("WRONGPASS"), says("AUTH"), says("invalid password"), says("Client sent AUTH"):
		return configErrorf("%s refuses the user or the password of the URL (%s)", byRedis, escape.OneLine(text))
	case says("DENIED "):
		return configErrorf("%s runs in protected mode and refuses other machines; give it a password or bind it to the right address", asked)
	case redis.IsPermissionError(err), says("NOPERM"), says("ACL failure"), says("The user executing the script can't run this command"):
		return configErrorf("the user of the URL has too few rights (%s); docs/REDIS.md names all that are needed", escape.OneLine(text))
	case says("DB index is out of range") && t.kind == standalone: // also in a Cluster of Valkey 9
		return configErrorf("Redis has no database of that number (%s); correct the path of the URL, or write %s without one if the server belongs to a Cluster",
			escape.OneLine(text), Target{kind: cluster}.scheme(t.tls))
	case says("DB index is out of range"), says("invalid DB index"):
		return configErrorf("Redis has no database of that number (%s); correct the path of the URL", escape.OneLine(text))
	case says("SELECT is not allowed in cluster mode"):
		return configErrorf("the server belongs to a Cluster, which has no numbered databases; write %s without a path", Target{kind: cluster}.scheme(t.tls))
	case says("This instance has cluster support disabled"):
		return configErrorf("the server does not belong to a Cluster; write %s", Target{kind: standalone}.scheme(t.tls))
	case fromSentinels(err) && errors.Is(err, redis.Nil):
		return configErrorf("the Sentinels know no primary by the master_name of the URL")
	case says("unknown command 'sentinel'"), says("unknown command 'SENTINEL'"), says("unknown command `sentinel`"):
		return configErrorf("the server is not a Sentinel; write %s, or name the port of a Sentinel", Target{kind: standalone}.scheme(t.tls))
	case says("unknown command"), says("unknown subcommand"):
		return configErrorf("the server is not Redis 7 or newer, nor Valkey (%s)", escape.OneLine(text))
	case errors.As(err, &certificate):
		hint := ""
		if t.files.root == "" && errors.As(err, new(x509.UnknownAuthorityError)) {
			hint = "; name the certificate of its authority in the URL, ?sslrootcert=FILE"
		}
		return configErrorf("its certificate cannot be verified (%s)%s", escape.OneLine(certificate.Err.Error()), hint)
	case alertIn(err) != nil:
		return t.refusesTLS(alertIn(err).Error())
	case errors.As(err, new(tls.RecordHeaderError)):
		return t.speaksNoTLS()
	case isNoReply(err):
		return configErrorf("what answers there is not Redis (%s)", escape.OneLine(text))
	}
	return nil
}

// Refuses reports whether err holds an error reply of Redis that begins with a text. Redis replies
// with a code such as OOM, or with ERR, and a text that its versions have kept.
func Refuses(err error, begins string) bool {
	return anyIn(err, func(err error) bool {
		reply, is := err.(redis.Error) //nolint:errorlint // anyIn walks the tree
		return is && strings.HasPrefix(reply.Error(), begins)
	})
}

// isNoReply reports whether err says that what was received is no reply of Redis. go-redis has no
// types for these errors.
func isNoReply(err error) bool {
	return errors.Is(err, errReplySize) || anyIn(err, func(err error) bool {
		return slices.ContainsFunc([]string{"redis: can't parse", "redis: invalid reply", "redis: unexpected"}, func(text string) bool {
			return strings.HasPrefix(err.Error(), text)
		})
	})
}

// anyIn reports whether is holds for err or any error that it wraps.
func anyIn(err error, is func(error) bool) bool {
	if err == nil || is(err) {
		return err != nil
	}
	switch wrapping := err.(type) { //nolint:errorlint // it walks the tree itself
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(wrapping.Unwrap(), func(one error) bool { return anyIn(one, is) })
	case interface{ Unwrap() error }:
		return anyIn(wrapping.Unwrap(), is)
	}
	return false
}

// fromSentinels reports whether err says that no Sentinel could be asked. go-redis has no type for
// this error.
func fromSentinels(err error) bool {
	return anyIn(err, func(err error) bool { return strings.HasPrefix(err.Error(), "redis: all sentinels specified") })
}
