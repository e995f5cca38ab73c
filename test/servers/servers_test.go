package servers_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

func redisClient(t *testing.T, s *servers.RedisServer) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	options.MaxRetries = -1
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestRedisStopsContinuesAndRestarts(t *testing.T) {
	server := servers.DedicatedRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	client := redisClient(t, server)
	if err := client.Set(t.Context(), "kept", "yes", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	if err := client.Ping(short(t)).Err(); err == nil {
		t.Error("a stopped server answered")
	}
	server.Continue()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("a continued server does not answer: %v", err)
	}
	server.Kill()
	if err := client.Ping(short(t)).Err(); err == nil {
		t.Error("a killed server answered")
	}
	server.Restart(false)
	if got, err := client.Get(t.Context(), "kept").Result(); got != "yes" {
		t.Errorf("after a restart the key is %q, %v, want yes from the disk", got, err)
	}
	server.Restart(true)
	if n, err := client.DBSize(t.Context()).Result(); n != 0 || err != nil {
		t.Errorf("after an empty restart there are %d keys, %v, want none", n, err)
	}
}

func TestRedisServersHaveDifferentPrefixes(t *testing.T) {
	one, other := servers.Redis(t), servers.Redis(t)
	if one.Prefix == other.Prefix {
		t.Errorf("two servers have the same prefix %q", one.Prefix)
	}
	for _, server := range []*servers.RedisServer{one, other} {
		if err := redisClient(t, server).Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	}
}

func TestEachPostgresIsANewEmptyDatabase(t *testing.T) {
	one, other := servers.Postgres(t), servers.Postgres(t)
	for _, server := range []*servers.PostgresServer{one, other} {
		connection, err := pgx.Connect(t.Context(), server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close(t.Context())
		if _, err := connection.Exec(t.Context(), "CREATE TABLE only_once (n BIGINT)"); err != nil {
			t.Error(err)
		}
	}
}

func TestPostgresStopsContinuesAndRestarts(t *testing.T) {
	server := servers.DedicatedPostgres(t)
	connect := func(ctx context.Context) *pgx.Conn {
		t.Helper()
		connection, err := pgx.Connect(ctx, server.URL)
		if err != nil {
			t.Fatal(err)
		}
		return connection
	}
	open := connect(t.Context())
	if _, err := open.Exec(t.Context(), "CREATE TABLE kept (n BIGINT)"); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	if _, err := open.Exec(short(t), "SELECT 1"); err == nil {
		t.Error("an open connection of a stopped server answered")
	}
	if connection, err := pgx.Connect(short(t), server.URL); err == nil {
		connection.Close(t.Context())
		t.Error("a stopped server accepted a new connection")
	}
	server.Continue()
	connect(t.Context()).Close(t.Context())
	server.Kill()
	if connection, err := pgx.Connect(short(t), server.URL); err == nil {
		connection.Close(t.Context())
		t.Error("a killed server accepted a new connection")
	}
	server.Restart(false)
	again := connect(t.Context())
	if _, err := again.Exec(t.Context(), "SELECT n FROM kept"); err != nil {
		t.Errorf("the committed table is missing after a restart: %v", err)
	}
	server.Restart(true)
	empty := connect(t.Context())
	defer empty.Close(t.Context())
	if _, err := empty.Exec(t.Context(), "SELECT n FROM kept"); err == nil {
		t.Error("the table exists after an empty restart")
	}
}

// A regression test: a child that was forked while the server was killed waited for the lock of
// a killed process and kept the shared memory, so that no new server started.
func TestPostgresRestartsWhileManyConnect(t *testing.T) {
	server := servers.DedicatedPostgres(t)
	ctx, cancel := context.WithCancel(t.Context())
	var connecting sync.WaitGroup
	var attempts atomic.Int64
	for range 40 {
		connecting.Go(func() {
			for ctx.Err() == nil {
				attempts.Add(1)
				connection, err := pgx.Connect(ctx, server.URL)
				if err != nil {
					time.Sleep(time.Millisecond)
					continue
				}
				_, _ = connection.Exec(ctx, "CREATE TEMPORARY TABLE gone (n BIGINT)")
				connection.Close(ctx)
			}
		})
	}
	defer connecting.Wait()
	defer cancel()
	for range 12 {
		before := attempts.Load()
		servers.Await(t, "each connects again", func() bool { return attempts.Load() > before+80 })
		server.Restart(false)
	}
	connection, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	connection.Close(t.Context())
}

func TestTemplateDatabasesArePreparedOnceAndSeparate(t *testing.T) {
	prepared := 0
	template := servers.Template{Prepare: func(ctx context.Context, url string) error {
		prepared++
		connection, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer connection.Close(ctx)
		_, err = connection.Exec(ctx, "CREATE TABLE kept AS SELECT 1 AS n")
		return err
	}}
	for range 2 {
		connection, err := pgx.Connect(t.Context(), template.Postgres(t).URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { connection.Close(context.Background()) })
		var rows int
		if err := connection.QueryRow(t.Context(), "INSERT INTO kept SELECT 2 RETURNING (SELECT count(*) FROM kept)").Scan(&rows); err != nil || rows != 1 {
			t.Errorf("a new database has %d rows, %v; want 1", rows, err)
		}
	}
	if prepared != 1 {
		t.Errorf("the template was prepared %d times, want 1", prepared)
	}
}
