package e2e_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/test/servers"
)

// backends are what distributed nodes share.
type backends struct {
	redis    *servers.RedisServer
	postgres *servers.PostgresServer
}

// shared returns servers that a test may use but not disturb.
func shared(t *testing.T) backends {
	t.Helper()
	return backends{servers.Redis(t), servers.Postgres(t)}
}

// dedicated returns servers that a test may kill and stop.
func dedicated(t *testing.T) backends {
	t.Helper()
	return backends{servers.DedicatedRedis(t), servers.DedicatedPostgres(t)}
}

// args are the settings by which a node uses the servers. A busy machine must
// not look like an outage, so a check waits long.
func (s backends) args(more ...string) []string {
	return append([]string{
		"--redis-url", s.redis.URL, "--redis-prefix", s.redis.Prefix, "--database-url", s.postgres.URL, "--check-deadline", "10s",
	}, more...)
}

// start starts nodes that share the servers.
func (s backends) start(t *testing.T, count int, more ...string) []*node {
	t.Helper()
	all := make([]*node, count)
	for i := range all {
		all[i] = launch(t, []string{"STINT_ADMIN_TOKEN=" + adminToken}, append(s.args(more...), onFreePorts...)...)
	}
	for _, n := range all {
		n.awaitRunning()
	}
	return all
}

// commands returns a client to the Redis itself.
func (s backends) commands(t *testing.T) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(s.redis.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(options)
	t.Cleanup(func() { c.Close() })
	return c
}

// execute runs a statement on the database itself.
func (s backends) execute(t *testing.T, statement string) (rows int64) {
	t.Helper()
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, s.postgres.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close(ctx)
	tag, err := connection.Exec(ctx, statement)
	if err != nil {
		t.Fatal(err)
	}
	return tag.RowsAffected()
}
