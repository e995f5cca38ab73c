package app

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/test/servers"
)

// TestEventLogOnStandardOutput runs a node whose standard output another program reads as lines of JSON.
func TestEventLogOnStandardOutput(t *testing.T) {
	s, err := Load([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", filepath.Join(t.TempDir(), "data"), "--preset", "api", "--event-log", "stdout"},
		[]string{"STINT_ADMIN_TOKEN=" + edgeToken})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	out, logs := &servers.Output{}, &servers.Output{}
	a, err := New(ctx, s, out, logs)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	want := func(status int, method, path, body string) {
		t.Helper()
		to := a.AdminAddr()
		if path == "/v1/check" {
			to = a.CheckAddr()
		}
		if answer, text := send(t, to, bearer(edgeToken), method, path, body); answer.StatusCode != status {
			t.Fatalf("%s %s: got %d, want %d: %s", method, path, answer.StatusCode, status, text)
		}
	}
	servers.Await(t, "the beginning of the changes", func() bool {
		_, known, err := a.backends.store.Audit.WrittenUntil(ctx)
		return known && err == nil
	})
	want(http.StatusOK, http.MethodPost, "/v1/check", `{"key":"ip:203.0.113.1"}`)
	want(http.StatusCreated, http.MethodPost, "/v1/blocks", `{"pattern":"ip:203.0.113.1","reason":"a test","expires_in":"1h"}`)
	want(http.StatusForbidden, http.MethodPost, "/v1/check", `{"key":"ip:203.0.113.1","request":{"path":"/wp-login.php","agent":"curl"}}`)
	servers.Await(t, "the change", func() bool { return strings.Contains(out.String(), "block.add") })
	if text := metricsOf(a); !strings.Contains(text, "stint_event_log_omitted_total 0") || !strings.Contains(text, `stint_save_failing{save="event-log"} 0`) {
		t.Errorf("the metrics lack the event log: %s", text)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var actions []string
	for line := range bytes.Lines([]byte(out.String())) {
		var e struct {
			Event struct {
				Action string `json:"action"`
			} `json:"event"`
		}
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			t.Errorf("standard output has %q, want only lines of JSON", line)
		}
		actions = append(actions, e.Event.Action)
	}
	if got := strings.Join(actions, " "); got != "blocked block.add" && got != "block.add blocked" {
		t.Errorf("got the events %q, want the block and the check that it refused", got)
	}
	if !strings.Contains(logs.String(), "is running") {
		t.Error("the announcement is not on standard error")
	}
}

func TestEventLogMistakesEndTheStart(t *testing.T) {
	for args, want := range map[string]string{
		"--event-log udp://x:1":                                "--event-log: must be stdout, the path of a file",
		"--event-log-allowed 1%":                               "--event-log-allowed needs --event-log",
		"--event-log stdout --event-log-ca x.pem":              "are for --event-log syslogs://host:6514",
		"--event-log syslogs://x:1 --event-log-cert x.pem":     "--event-log-cert and --event-log-key belong together",
		"--event-log stdout --event-log-size 1MiB":             "must be a size from 16MiB",
		"--event-log /missing/events.json":                     "--event-log: open /missing/events.json",
		"--event-log syslogs://x:1 --event-log-ca missing.pem": "--event-log: open missing.pem",
	} {
		s, err := Load(append(strings.Fields(args), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", t.TempDir()), nil)
		if err == nil {
			var a *App
			if a, err = New(t.Context(), s, &servers.Output{}, &servers.Output{}); err == nil {
				a.close()
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", args, err, want)
		}
	}
}
