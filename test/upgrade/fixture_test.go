package upgrade_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/test/servers"
)

// adminToken is the bootstrap token of every node. It protects nothing but test data.
const adminToken = "f1c0adca9f5c1b7d2830694ef1a5c3d7"

// fixture is the data of one released version.
type fixture struct {
	Version string `json:"version"`
	Schema  uint   `json:"schema"`  // of its databases
	MadeAt  int64  `json:"made_at"` // Unix milliseconds
	// The secrets of tokens that its nodes created.
	EmbeddedToken string `json:"embedded_token"`
	SharedToken   string `json:"shared_token"`
}

// The files of a fixture, beside fixture.json.
const (
	embeddedFile = "embedded.tar.gz" // stint.db and logs.snapshot
	postgresFile = "postgres.dump"   // by pg_dump -Fc
	redisFile    = "redis.rdb.gz"
)

// fill stores one of everything that an upgrade must keep on a node, and returns the
// secret of a token.
func (n *node) fill() (token string) {
	n.t.Helper()
	do[any](n, http.MethodPut, "/v1/policies/api", `{"match":["token:*"],"rules":["3/31d"],
		"escalation":{"threshold":1000,"window":"1h","duration":"1h","factor":2,"max_duration":"1d","decay_after":"7d"}}`)
	do[any](n, http.MethodPut, "/v1/policies/fixed", `{"match":["user:*"],"rules":["2/31d"],"algorithm":"fixed_window"}`)
	do[any](n, http.MethodPut, "/v1/policies/guessing", `{"match":["ip:*"],"outcome":"login_failed","rules":["5/1h"]}`)
	do[any](n, http.MethodPost, "/v1/blocks", `{"pattern":"ip:203.0.113.0/24","reason":"scraping"}`)
	do[any](n, http.MethodPost, "/v1/exemptions", `{"pattern":"ip:198.51.100.7","reason":"our monitoring"}`)
	do[any](n, http.MethodPost, "/v1/users", `{"name":"maria","role":"operator","password":"correct horse battery staple"}`)
	do[any](n, http.MethodPost, "/v1/keys/notes", `{"key":"token:alice","text":"Same client as in July."}`)
	token = do[struct{ Secret string }](n, http.MethodPost, "/v1/tokens", `{"name":"ops","scopes":["operate"]}`).Secret
	for range 4 {
		n.mustAsk(`{"key":"token:alice"}`)
	}
	for range 3 {
		n.mustAsk(`{"key":"user:bob"}`)
	}
	servers.Await(n.t, "the offences are stored", func() bool { return len(n.offenders(time.Now())) >= 2 })
	return token
}

// offenders returns the keys that offended around a time.
func (n *node) offenders(at time.Time) (keys []string) {
	n.t.Helper()
	query := url.Values{"from": {at.Add(-2 * time.Hour).UTC().Format(time.RFC3339)}, "to": {at.Add(2 * time.Hour).UTC().Format(time.RFC3339)}}
	found := do[struct{ Items []struct{ Key string } }](n, http.MethodGet, "/v1/offenders?"+query.Encode(), "")
	for _, o := range found.Items {
		keys = append(keys, o.Key)
	}
	return keys
}

// BenchmarkMakeFixture writes a fixture and measures nothing: scripts/make-upgrade-fixture.sh
// runs it, and go test without -bench does not.
func BenchmarkMakeFixture(t *testing.B) {
	if *oldProgram == "" || *makeFixture == "" {
		t.Fatal("it needs -old and -make; run scripts/make-upgrade-fixture.sh VERSION")
	}
	t.ReportMetric(0, "ns/op") // which would say nothing
	if err := os.MkdirAll(*makeFixture, 0o755); err != nil {
		t.Fatal(err)
	}
	f := fixture{Version: *madeVersion, MadeAt: time.Now().UnixMilli()}

	data := filepath.Join(t.TempDir(), "data")
	embedded := start(t, *oldProgram, "--data-dir", data)
	f.EmbeddedToken = embedded.fill()
	embedded.end()
	writeArchive(t, filepath.Join(*makeFixture, embeddedFile), data, "stint.db", "logs.snapshot")

	cache, database := servers.DedicatedRedis(t), servers.DedicatedPostgres(t)
	shared := start(t, *oldProgram, "--redis-url", cache.URL, "--database-url", database.URL)
	f.SharedToken = shared.fill()
	shared.end()
	writeGzip(t, filepath.Join(*makeFixture, redisFile), snapshotOf(t, cache))
	run(t, "pg_dump", "-Fc", "--no-owner", "--file", filepath.Join(*makeFixture, postgresFile), database.URL)

	f.Schema = schemaOf(t, database.URL)
	text, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*makeFixture, "fixture.json"), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// readFixture reads the fixture of the last released version: the only folder of testdata.
func readFixture(t testing.TB) (dir string, f fixture) {
	t.Helper()
	found, err := filepath.Glob("testdata/*/fixture.json")
	if err != nil || len(found) != 1 {
		t.Fatalf("testdata has the fixtures %q, %v; it must have that of the last released version only", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(found[0]), f
}

// snapshotOf has Redis write a snapshot and returns it.
func snapshotOf(t testing.TB, s *servers.RedisServer) []byte {
	t.Helper()
	options, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(options)
	defer c.Close()
	if err := c.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	snapshot, err := os.ReadFile(redisSnapshot(t, c))
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

// redisSnapshot returns the path of a server's snapshot.
func redisSnapshot(t testing.TB, c *redis.Client) string {
	t.Helper()
	dir, err := c.ConfigGet(t.Context(), "dir").Result()
	if err != nil {
		t.Fatal(err)
	}
	name, err := c.ConfigGet(t.Context(), "dbfilename").Result()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir["dir"], name["dbfilename"])
}

// redisFrom returns a Redis that has loaded a snapshot, with its clock at the time at which
// the snapshot was made: the windows of the logs in it have not ended.
func redisFrom(t testing.TB, snapshot []byte, madeAt time.Time) *servers.RedisServer {
	t.Helper()
	s := servers.RedisWithClock(t, "--enable-debug-command", "yes")
	s.StepClock(time.Until(madeAt))
	options, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(options)
	defer c.Close()
	if err := os.WriteFile(redisSnapshot(t, c), snapshot, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Do(t.Context(), "DEBUG", "RELOAD", "NOSAVE").Err(); err != nil {
		t.Fatal(err)
	}
	if keys, err := c.DBSize(t.Context()).Result(); err != nil || keys == 0 {
		t.Fatalf("Redis has loaded %d keys, %v", keys, err)
	}
	return s
}

// postgresFrom returns a database that a dump was restored into.
func postgresFrom(t testing.TB, dump string) *servers.PostgresServer {
	t.Helper()
	s := servers.Postgres(t)
	run(t, "pg_restore", "--no-owner", "--exit-on-error", "--dbname", s.URL, dump)
	return s
}

func schemaOf(t testing.TB, databaseURL string) uint {
	t.Helper()
	text := run(t, "psql", "--no-psqlrc", "-At", "-c", "SELECT version FROM schema_migrations", databaseURL)
	version, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return uint(version)
}

// run runs a program that must succeed and returns its output.
func run(t testing.TB, program string, args ...string) []byte {
	t.Helper()
	output, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, output)
	}
	return output
}

func writeGzip(t testing.TB, path string, content []byte) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readGzip(t testing.TB, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	content, err = io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func writeArchive(t testing.TB, path, dir string, names ...string) {
	t.Helper()
	var b bytes.Buffer
	archive := tar.NewWriter(&b)
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))})
		}
		if err == nil {
			_, err = archive.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	writeGzip(t, path, b.Bytes())
}

// unpack unpacks an archive into a new folder of the node's own.
func unpack(t testing.TB, path string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(bytes.NewReader(readGzip(t, path)))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(header.Name)), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
