package redislog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Health is what the servers say of themselves.
type Health struct {
	Nodes []NodeHealth // by address; more than one in a Cluster
	// Warnings are sentences on settings that would silently lift limits or
	// lose logs, and on what will soon fail.
	Warnings []string
}

// NodeHealth is one server that decides.
type NodeHealth struct {
	Addr            string
	Version         string // of Redis; Valkey names the Redis that it equals
	Role            string // master or slave, as Redis says it
	MaxMemoryPolicy string
	MaxMemory       int64 // bytes, 0 for no bound
	UsedMemory      int64 // bytes
	AppendOnly      bool  // each write goes to a file
	Uptime          time.Duration
	// ClockOffset is how far its clock is ahead of this node's; the round trip
	// makes it wrong by at most ClockError.
	ClockOffset, ClockError time.Duration
}

// mostOffset is the difference of clocks that is worth a warning.
const mostOffset = time.Second

// Health asks every server that decides. It fails, matching ErrUnreachable,
// where one does not answer.
func (l *Log) Health(ctx context.Context) (Health, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	var h Health
	var mu sync.Mutex
	ask := func(ctx context.Context, client *redis.Client) error {
		node, err := nodeHealth(ctx, client)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		h.Nodes = append(h.Nodes, node)
		return nil
	}
	var err error
	switch client := l.client.(type) {
	case *redis.ClusterClient:
		err = client.ForEachMaster(ctx, ask)
	case *redis.Client:
		err = ask(ctx, client)
	default:
		err = errors.New("this kind of client has no health")
	}
	if err != nil {
		return Health{}, unreachable(err)
	}
	slices.SortFunc(h.Nodes, func(a, b NodeHealth) int { return strings.Compare(a.Addr, b.Addr) })
	for _, node := range h.Nodes {
		h.Warnings = append(h.Warnings, node.warnings()...)
	}
	return h, nil
}

func nodeHealth(ctx context.Context, client *redis.Client) (NodeHealth, error) {
	before := time.Now()
	there, err := client.Time(ctx).Result()
	if err != nil {
		return NodeHealth{}, err
	}
	trip := time.Since(before)
	text, err := client.Info(ctx, "server", "memory", "persistence", "replication").Result()
	if err != nil {
		return NodeHealth{}, err
	}
	info := parseInfo(text)
	return NodeHealth{
		Addr:            client.Options().Addr,
		Version:         info["redis_version"],
		Role:            info["role"],
		MaxMemoryPolicy: info["maxmemory_policy"],
		MaxMemory:       info.number("maxmemory"),
		UsedMemory:      info.number("used_memory"),
		AppendOnly:      info["aof_enabled"] == "1",
		Uptime:          time.Duration(info.number("uptime_in_seconds")) * time.Second,
		ClockOffset:     there.Sub(before.Add(trip / 2)),
		ClockError:      trip / 2,
	}, nil
}

// infoText is an answer to INFO, by field.
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

// number returns a field's number, 0 where it has none.
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
	if major, _, _ := strings.Cut(n.Version, "."); len(major) == 1 && major < "7" {
		warn("is version %s; Stint needs 7 or newer.", n.Version)
	}
	if n.Role != "master" {
		warn("is a replica, which takes no writes: every check will find the log out of reach.")
	}
	if n.MaxMemoryPolicy != "noeviction" {
		warn("has maxmemory-policy %s, by which it may silently delete logs and so lift limits; set it to noeviction.", n.MaxMemoryPolicy)
	}
	if n.MaxMemory > 0 && n.UsedMemory > n.MaxMemory/10*9 {
		warn("uses %d of its %d bytes of memory; when it is full, every check will find the log out of reach.", n.UsedMemory, n.MaxMemory)
	}
	if !n.AppendOnly {
		warn("does not keep an append-only file, so a restart forgets requests since its last snapshot, if it writes any; set appendonly to yes.")
	}
	if off := n.ClockOffset.Abs() - n.ClockError; off > mostOffset {
		warn("has a clock that differs from this node's by %s; only Redis's decides, but times shown will not fit.", n.ClockOffset.Round(time.Millisecond))
	}
	return found
}
