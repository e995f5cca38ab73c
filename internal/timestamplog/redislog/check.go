package redislog

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// ConfigError says that a server answers but cannot hold logs because of its settings or its
// URL. Waiting does not help.
type ConfigError struct {
	Problem string // what is wrong and what would be right; contains no secret
}

// Error returns the problem.
func (e *ConfigError) Error() string { return e.Problem }

// CheckOptions are the settings of Check.
type CheckOptions struct {
	// AllowEviction accepts servers that may evict keys, which lifts limits.
	AllowEviction bool
}

// Check tests whether the servers can hold logs. It reads the settings of each server, and
// makes each decide about a log of its own, which expires within milliseconds. A *ConfigError
// says what an operator must change first. Any other error matches timestamplog.ErrUnreachable
// and may be temporary. Health describes the servers that answered.
func (l *Log) Check(ctx context.Context, options CheckOptions) (Health, error) {
	h, err := l.Health(ctx)
	for i := range h.Nodes {
		if wrong := l.target.refuses(&h.Nodes[i], options); wrong != nil {
			return h, wrong
		}
	}
	if err == nil {
		err = l.tryAll(ctx)
	}
	if err == nil {
		return h, nil
	}
	if wrong := configError(err, l.target); wrong != nil {
		return h, wrong
	}
	if wrong := l.target.mismatch(ctx); wrong != nil {
		return h, wrong
	}
	return h, err
}

// refuses returns what makes a server unfit, nil if it is fit.
func (t target) refuses(n *NodeHealth, options CheckOptions) *ConfigError {
	wrong := func(format string, args ...any) *ConfigError {
		return &ConfigError{fmt.Sprintf("the server %s ", n.Addr) + fmt.Sprintf(format, args...)}
	}
	switch {
	case n.Mode == "sentinel":
		return wrong("is a Sentinel, which holds no logs; write %s with ?master_name=", target{kind: sentinel}.scheme(t.tls))
	case n.Mode == "cluster" && t.kind != cluster && t.kind != "":
		return wrong("belongs to a Cluster; write %s", target{kind: cluster}.scheme(t.tls))
	case n.isTooOld():
		return wrong("is Redis %s; Stint needs Redis 7 or newer, or Valkey", n.Version)
	case n.MayEvict() && !options.AllowEviction:
		return wrong("has maxmemory-policy %s, by which it may delete logs and so lift limits; set it to noeviction, or start with --allow-redis-eviction", n.MaxMemoryPolicy)
	}
	return nil
}

// tryAll makes each server decide once.
func (l *Log) tryAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	client, clustered := l.client.(*redis.ClusterClient)
	if !clustered {
		return l.try(ctx, l.client, 0)
	}
	tried := map[*redis.Client]bool{}
	for shard := range Shards {
		primary, err := client.MasterForKey(ctx, shardTags[shard])
		if err != nil {
			return unreachable(err)
		}
		if tried[primary] {
			continue
		}
		tried[primary] = true
		// Use the client of the Cluster: the slot may have moved since.
		if err := l.try(ctx, client, shard); err != nil {
			return err
		}
	}
	return nil
}

// try makes the server of a shard decide about a log that belongs to no policy, and execute
// every command of the function library.
func (l *Log) try(ctx context.Context, client redis.UniversalClient, shard int) error {
	stack := rules.Stack{{Limit: rules.MaxLimit, Window: rules.MinWindow}}
	q := timestamplog.Request{
		LogID: timestamplog.LogID{Key: "start"}, Rules: stack, Retention: rules.Retention{}.Cover(stack), Cost: 1,
	}
	asked := []*item{{
		name: logName(l.prefix, shard, q.LogID), shard: shard, rules: stack, cost: 1,
		stack: writeStack(stack, q.Retention),
	}}
	keys, args := arguments(l.override(), asked)
	reply, err := functions.call(ctx, client, functions.decide, keys, args...)
	if err == nil {
		err = readReply(reply, asked, new(serverClock))
	}
	if err == nil {
		err = asked[0].result.Err
	}
	if err == nil || errors.Is(err, timestamplog.ErrDenied) {
		// What a denied UNLINK leaves behind is no log.
		tried := logName(l.prefix, shard, timestamplog.LogID{Key: "try"})
		reply, err = functions.call(ctx, client, functions.try, 2, tried, idsName(tried))
	}
	if err != nil {
		return unreachable(err)
	}
	return deniedCommands(reply)
}

// deniedCommands returns the error for a reply of stint_try, nil if the user may call every
// command.
func deniedCommands(reply any) error {
	names, ok := reply.([]any)
	if !ok {
		return unreachable(errReply)
	}
	if len(names) == 0 {
		return nil
	}
	rights := make([]string, len(names))
	for i, name := range names {
		rights[i] = "+" + strings.ToLower(fmt.Sprint(name))
	}
	return &ConfigError{"the user of the URL has too few rights, it also needs " + strings.Join(rights, " ") + "; docs/REDIS.md names all that are needed"}
}

// isTooOld reports whether a server is known to be older than Redis 7.
func (n *NodeHealth) isTooOld() bool {
	major, _, _ := strings.Cut(n.Version, ".")
	number, err := strconv.Atoi(major)
	return err == nil && number < 7
}

// configError returns the mistake in the URL or in a server's settings that err shows, nil if
// the server may only be unreachable for now.
func configError(err error, t target) *ConfigError {
	if wrong := (*ConfigError)(nil); errors.As(err, &wrong) {
		return wrong
	}
	text := rootText(err)
	says := func(part string) bool { return strings.Contains(text, part) }
	wrong := func(format string, args ...any) *ConfigError { return &ConfigError{fmt.Sprintf(format, args...)} }
	asked, byRedis := "Redis", "Redis"
	if fromSentinels(err) {
		asked, byRedis = "a Sentinel", "a Sentinel (the user and password before the @ are the Sentinels', Redis's own are the options username and password)"
	}
	var certificate *tls.CertificateVerificationError
	switch {
	case says("NOAUTH"):
		return wrong("%s requires a password (%s); write it into the URL, %suser:password@host", byRedis, oneLine("NOAUTH"), t.scheme(t.tls))
	case redis.IsAuthError(err), says("WRONGPASS"), says("ERR AUTH"), says("ERR invalid password"), says("ERR Client sent AUTH"):
		return wrong("%s refuses the user or the password of the URL (%s)", byRedis, oneLine(text))
	case says("DENIED "):
		return wrong("%s runs in protected mode and refuses other machines; give it a password or bind it to the right address", asked)
	case redis.IsPermissionError(err), says("NOPERM"), says("ACL failure"), says("can't run this command"):
		return wrong("the user of the URL has too few rights (%s); docs/REDIS.md names all that are needed", oneLine(text))
	case says("DB index is out of range") && t.kind == standalone: // also in a Cluster of Valkey 9
		return wrong("Redis has no database of that number (%s); correct the path of the URL, or write %s without one if the server belongs to a Cluster",
			oneLine(text), target{kind: cluster}.scheme(t.tls))
	case says("DB index is out of range"), says("invalid DB index"):
		return wrong("Redis has no database of that number (%s); correct the path of the URL", oneLine(text))
	case says("SELECT is not allowed in cluster mode"):
		return wrong("the server belongs to a Cluster, which has no numbered databases; write %s without a path", target{kind: cluster}.scheme(t.tls))
	case says("cluster support disabled"):
		return wrong("the server does not belong to a Cluster; write %s", target{kind: standalone}.scheme(t.tls))
	case fromSentinels(err) && errors.Is(err, redis.Nil):
		return wrong("the Sentinels know no primary by the master_name of the URL")
	case says("unknown command 'sentinel'"), says("unknown command 'SENTINEL'"), says("unknown command `sentinel`"):
		return wrong("the server is not a Sentinel; write %s, or name the port of a Sentinel", target{kind: standalone}.scheme(t.tls))
	case says("unknown command"), says("unknown subcommand"):
		return wrong("the server is not Redis 7 or newer, nor Valkey (%s)", oneLine(text))
	case errors.As(err, &certificate):
		hint := ""
		if t.files.root == "" && errors.As(err, new(x509.UnknownAuthorityError)) {
			hint = "; name the certificate of its authority in the URL, ?sslrootcert=FILE"
		}
		return wrong("its certificate cannot be verified (%s)%s", oneLine(certificate.Err.Error()), hint)
	case says(tlsAlert):
		return t.refusesTLS(text)
	case errors.As(err, new(tls.RecordHeaderError)):
		return wrong("it speaks no TLS; write %s, or name its TLS port", t.scheme(false))
	case says("redis: can't parse"), says("redis: invalid reply"), says("redis: unexpected"), says(errReplySize.Error()):
		return wrong("what answers there is not Redis (%s)", oneLine(text))
	}
	return nil
}

// fromSentinels reports whether err says that no Sentinel could be asked.
func fromSentinels(err error) bool { return strings.Contains(err.Error(), "all sentinels specified") }

// Describe returns the text of an error of a Log in one short line, without that of
// timestamplog.ErrUnreachable.
func Describe(err error) string { return oneLine(rootText(err)) }

func rootText(err error) string {
	return strings.TrimPrefix(err.Error(), timestamplog.ErrUnreachable.Error()+": ")
}

// oneLine makes a text from a server one line of at most 200 bytes.
func oneLine(text string) string {
	const maxBytes = 200
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	return escape.Clip(text, maxBytes)
}
