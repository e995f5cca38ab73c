package redisconn_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/redisconn"
	"github.com/stint-dev/stint/test/servers"
)

func TestMain(m *testing.M) {
	// Do not log a line for each connection that fails on purpose.
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	servers.Main(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// connect returns a client of a URL.
func connect(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	client, err := redisconn.Connect(url)
	must(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func TestConnectAcceptsEveryKindOfURL(t *testing.T) {
	for _, url := range []string{
		"redis://127.0.0.1:6379/0", "redis://user:secret@example.com/3?read_timeout=1s", "rediss://example.com",
		"redis://[::1]:6379", "unix:///run/redis.sock?db=2",
		"redis+sentinel://example.com/0?master_name=main&addr=b.example.com:26379&password=secret",
		"rediss+sentinel://example.com?master_name=main",
		"redis+cluster://example.com:7000?addr=b.example.com:7000", "rediss+cluster://user:secret@example.com",
	} {
		client, err := redisconn.Connect(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		switch c := client.(type) {
		case *redis.Client:
			if strings.Contains(url, "+cluster") {
				t.Errorf("%s made a client of one server", url)
			}
			if o := c.Options(); o.MaxRetries > 0 || !o.ContextTimeoutEnabled {
				t.Errorf("%s made a client that retries %d times, minds deadlines: %v", url, o.MaxRetries, o.ContextTimeoutEnabled)
			}
		case *redis.ClusterClient:
			if !strings.Contains(url, "+cluster") {
				t.Errorf("%s made a client of a cluster", url)
			}
			if o := c.Options(); o.ReadOnly || !o.ContextTimeoutEnabled {
				t.Errorf("%s made a client that reads replicas: %v, minds deadlines: %v", url, o.ReadOnly, o.ContextTimeoutEnabled)
			}
		}
		client.Close()
	}
}

func TestConnectExplainsABadURLWithoutRepeatingIt(t *testing.T) {
	for url, want := range map[string]string{
		"":                                                    "must begin with",
		"secret":                                              "must begin with",
		"http://:secret@example.com":                          "must begin with",
		"redis+tls://:secret@example.com":                     "must begin with",
		"redis://:sec/secret@example.com":                     "must begin with",
		"redis://pass/secret@example.com":                     "number of a database",
		"redis://example.com/secret":                          "number of a database",
		"redis://example.com/-1":                              "number of a database",
		"redis://example.com/0/secret":                        "number of a database",
		"redis://example.com?secret=1":                        "option",
		"redis://example.com?pool_size=secret":                "option",
		"unix://?secret=1":                                    "option",
		"redis+sentinel://:secret@example.com":                "master_name",
		"redis+sentinel://example.com/secret?master_name=m":   "number of a database",
		"redis+sentinel://example.com?master_name=m&secret=1": "option",
		"redis+cluster://:secret@example.com/1":               "no numbered databases",
		"redis+cluster://example.com?secret=1":                "option",
	} {
		client, err := redisconn.Connect(url)
		if err == nil {
			client.Close()
			t.Errorf("%q was taken", url)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q in it and nothing of the URL", url, err, want)
		}
	}
}
