package redislog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/redisconn"
)

// Health describes the servers.
type Health struct {
	Nodes []NodeHealth // those that answered, by address; more than one in a Cluster
	// Warnings are sentences about settings that would silently lift limits or lose logs, and
	// about what will soon fail.
	Warnings []string
}

// NodeHealth is one server that decides.
type NodeHealth struct {
	Addr    string
	RunID   string // differs for each run of a server, "" if it is not known
	Version string // of Redis; Valkey reports the Redis version that it is compatible with
	Mode    string // standalone, cluster or sentinel
	Role    string // master or slave, in Redis's words
	// NoInfo says why INFO could not be read, "" if it was. If it is set, the fields from
	// MaxMemoryPolicy to Uptime are not known.
	NoInfo          string
	MaxMemoryPolicy string // "" if it cannot be read
	// EvictedKeys is how many keys the server has evicted since it was started or its
	// statistics were reset, including those of other programs.
	EvictedKeys int64
	MaxMemory   int64 // bytes, 0 for no bound
	UsedMemory  int64 // bytes
	AppendOnly  bool  // each write goes to a file
	Uptime      time.Duration
	// ClockOffset is how far the server's clock is ahead of this node's. Because of the round
	// trip it is wrong by up to ClockError.
	ClockOffset, ClockError time.Duration
}

// maxOffset is the largest difference of clocks without a warning.
const maxOffset = time.Second

// Health examines every server that decides. If one does not answer, the error
// matches ErrUnreachable, and the result has the others.
func (l *Log) Health(ctx context.Context) (Health, error) {
	h, err := healthOf(ctx, l.client, l.timeout)
	if err != nil {
		err = unreachable(err)
	}
	return h, err
}

// healthOf examines every server that decides. Its error is that of a server.
func healthOf(ctx context.Context, client redis.UniversalClient, timeout time.Duration) (Health, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var h Health
	var failed error // the first failure of a server
	var mu sync.Mutex
	ask := func(ctx context.Context, client *redis.Client) error {
		node, err := nodeHealth(ctx, client)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			h.Nodes = append(h.Nodes, node)
		} else if failed == nil {
			failed = err
		}
		return nil // otherwise the client would not wait for the other servers
	}
	var err error
	switch client := client.(type) {
	case *redis.ClusterClient:
		err = client.ForEachMaster(ctx, ask)
	case *redis.Client:
		err = ask(ctx, client)
	default:
		err = errors.New("this kind of client has no health")
	}
	slices.SortFunc(h.Nodes, func(a, b NodeHealth) int { return strings.Compare(a.Addr, b.Addr) })
	for _, node := range h.Nodes {
		h.Warnings = append(h.Warnings, node.warnings()...)
	}
	return h, cmp.Or(err, failed)
}

func nodeHealth(ctx context.Context, client *redis.Client) (NodeHealth, error) {
	before := time.Now()
	there, err := client.Time(ctx).Result()
	n := NodeHealth{Addr: serverName(client)}
	if err != nil {
		if isRefused(err) { // a Sentinel does not have TIME
			if n.readHello(ctx, client); n.Mode == "sentinel" {
				return n, nil
			}
		}
		return NodeHealth{}, err
	}
	trip := time.Since(before)
	n.ClockOffset, n.ClockError = there.Sub(before.Add(trip/2)), trip/2
	text, err := client.Info(ctx, "server", "memory", "persistence", "replication", "stats").Result()
	switch {
	case err == nil:
		n.read(parseInfo(text))
	case isRefused(err):
		n.NoInfo = escape.OneLine(err.Error())
		n.readHello(ctx, client)
	default:
		return NodeHealth{}, err
	}
	return n, nil
}

// isRefused reports whether a server rejects a command whatever its state is, as some hosted
// servers do, and any server for users with few rights.
func isRefused(err error) bool {
	return redis.IsPermissionError(err) || redisconn.Refuses(err, "ERR ")
}

func (n *NodeHealth) read(info infoText) {
	*n = NodeHealth{
		Addr:            n.Addr,
		RunID:           info["run_id"],
		Version:         info["redis_version"],
		Mode:            cmp.Or(info["redis_mode"], info["server_mode"]), // in Redis and in Valkey
		Role:            info["role"],
		EvictedKeys:     info.number("evicted_keys"),
		MaxMemoryPolicy: info["maxmemory_policy"],
		MaxMemory:       info.number("maxmemory"),
		UsedMemory:      info.number("used_memory"),
		AppendOnly:      info["aof_enabled"] == "1",
		Uptime:          time.Duration(info.number("uptime_in_seconds")) * time.Second,
		ClockOffset:     n.ClockOffset,
		ClockError:      n.ClockError,
	}
}

// readHello reads the answer to HELLO. Without the right to call HELLO, it changes nothing.
func (n *NodeHealth) readHello(ctx context.Context, client *redis.Client) {
	reply, err := client.Do(ctx, "hello").Result()
	if err != nil {
		return
	}
	hello, _ := reply.(map[any]any)
	if list, flat := reply.([]any); flat { // in RESP 2
		hello = map[any]any{}
		for i := 0; i+1 < len(list); i += 2 {
			hello[list[i]] = list[i+1]
		}
	}
	n.Mode, _ = hello["mode"].(string)
	if n.Role, _ = hello["role"].(string); n.Role == "replica" {
		n.Role = "slave"
	}
	if hello["server"] == "redis" { // other servers return a version of their own
		n.Version, _ = hello["version"].(string)
	}
}

// MayEvict reports whether the server is known to delete keys when its memory is
// full.
func (n *NodeHealth) MayEvict() bool {
	return n.MaxMemoryPolicy != "noeviction" && n.MaxMemoryPolicy != ""
}

// infoText is the answer to INFO, by field.
type infoText map[string]string

func parseInfo(text string) infoText {
	info := infoText{}
	for line := range strings.Lines(text) {
		if field, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			info[field] = value
		}
	}
	return info
}

// number returns the number in a field, 0 if there is none.
func (i infoText) number(field string) int64 {
	n, err := strconv.ParseInt(i[field], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (n *NodeHealth) warnings() []string {
	var found []string
	warn := func(format string, args ...any) {
		found = append(found, fmt.Sprintf("Redis at %s ", n.Addr)+fmt.Sprintf(format, args...))
	}
	if n.isTooOld() {
		warn("is version %s; Stint needs 7 or newer.", n.Version)
	}
	if n.Role == "slave" {
		warn("is a replica, which takes no writes: every check will find the log unreachable.")
	}
	switch {
	case n.NoInfo != "":
		warn("does not let INFO be read (%s), so keys that it evicts and memory that runs out pass unnoticed; allow +info.", n.NoInfo)
	case n.MayEvict():
		warn("has maxmemory-policy %s, by which it may delete logs and so lift limits; set it to noeviction.", n.MaxMemoryPolicy)
	case n.MaxMemoryPolicy == "":
		warn("does not show its maxmemory-policy; make sure that it is noeviction, or it may delete logs and so lift limits.")
	}
	if n.MaxMemory > 0 && n.UsedMemory > n.MaxMemory/10*9 {
		warn("uses %d of its %d bytes of memory; when it is full, every check will find the log unreachable.", n.UsedMemory, n.MaxMemory)
	}
	if !n.AppendOnly && n.NoInfo == "" {
		warn("does not keep an append-only file, so a restart forgets requests since its last snapshot, if it writes any; set appendonly to yes.")
	}
	if off := n.ClockOffset.Abs() - n.ClockError; off > maxOffset {
		warn("has a clock that differs from this node's by %s; only Redis's decides, but times shown will not fit.", n.ClockOffset.Round(time.Millisecond))
	}
	return found
}
