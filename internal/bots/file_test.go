package bots_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/test/servers"
)

// known returns a verifier that has only the content of its file, and what it logged.
func known(t *testing.T, file, operators string, now func() time.Time) (*bots.Verifier, string) {
	t.Helper()
	named, err := bots.ParseOperators(operators)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	return bots.New(bots.Options{Operators: named, File: file, Now: now, Log: slog.New(slog.NewTextHandler(&log, nil))}), log.String()
}

func TestVerifiedCrawlersSurviveARestart(t *testing.T) {
	s, c := startDNS(t, records), &clock{now: time.Now()}
	file := filepath.Join(t.TempDir(), "data", "crawlers.json")
	named, err := bots.ParseOperators("google,bing")
	if err != nil {
		t.Fatal(err)
	}
	v := bots.New(bots.Options{Operators: named, Resolver: s.resolver(), Now: c.Now, File: file})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { v.Run(ctx); close(ended) }()
	for _, k := range []string{"ip:66.249.64.1", "ip:5.249.64.4", "ip:5.249.64.2"} {
		v.Notice(key(t, k))
	}
	servers.Await(t, "the crawlers are verified", func() bool { return len(v.Verified()) == 2 && s.count() >= 5 })
	stop()
	<-ended

	v, log := known(t, file, "google,bing", c.Now)
	if v.OperatorOf(key(t, "ip:66.249.64.1")) != "google" || v.OperatorOf(key(t, "ip:5.249.64.4")) != "bing" || v.OperatorOf(key(t, "ip:5.249.64.2")) != "" || log != "" {
		t.Errorf("after a restart it knows %v; it logged %q", v.Verified(), log)
	}
	if v, _ = known(t, file, "google", c.Now); len(v.Verified()) != 1 {
		t.Errorf("without an operator it knows %v", v.Verified())
	}
	c.move(25 * time.Hour)
	if v, _ = known(t, file, "google,bing", c.Now); len(v.Verified()) != 0 {
		t.Errorf("after a day it knows %v", v.Verified())
	}
}

func TestFileOfCrawlersIsValidated(t *testing.T) {
	now := time.Now()
	row := func(address, operator, name string, verified time.Time) string {
		return fmt.Sprintf(`[{"address":%q,"operator":%q,"name":%q,"verified":%q}]`, address, operator, name, verified.Format(time.RFC3339))
	}
	hourAgo := now.Add(-time.Hour)
	for _, r := range []struct {
		name, text string
		mode       os.FileMode
		known      int
		logs       bool
	}{
		{"a valid row", row("66.249.64.1", "google", "a.googlebot.com.", hourAgo), 0o600, 1, false},
		{"a name of another domain", row("66.249.64.1", "google", "a.example.org.", hourAgo), 0o600, 0, false},
		{"an unknown operator", row("66.249.64.1", "acme", "a.googlebot.com.", hourAgo), 0o600, 0, false},
		{"a private address", row("10.0.0.1", "google", "a.googlebot.com.", hourAgo), 0o600, 0, false},
		{"a time in the future", row("66.249.64.1", "google", "a.googlebot.com.", now.Add(time.Hour)), 0o600, 0, false},
		{"no JSON", `[{"address":"66.249`, 0o600, 0, true},
		{"a bad address", row("300.1.1.1", "google", "a.googlebot.com.", hourAgo), 0o600, 0, true},
		{"a file that others can write", row("66.249.64.1", "google", "a.googlebot.com.", hourAgo), 0o666, 0, true},
	} {
		file := filepath.Join(t.TempDir(), "crawlers.json")
		if err := os.WriteFile(file, []byte(r.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, r.mode); err != nil {
			t.Fatal(err)
		}
		v, log := known(t, file, "google", func() time.Time { return now })
		if len(v.Verified()) != r.known || strings.Contains(log, "looked up again") != r.logs {
			t.Errorf("%s: Verified returns %v and it logged %q, want %d crawlers, logged: %v", r.name, v.Verified(), log, r.known, r.logs)
		}
	}
}
