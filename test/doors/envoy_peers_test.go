package doors

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/stint-dev/stint/test/servers"
)

func TestEnvoyIsAnsweredWhileRedisIsStopped(t *testing.T) {
	redis := servers.Redis(t)
	e := startEnvoySide(t, "--redis-url", redis.URL, "--database-url", servers.Postgres(t).URL, "--grpc-deadline", "5s")
	e.want(true, e.ask("site", 3, descriptor("user=a")))
	e.want(false, e.ask("site", 0, descriptor("user=a"), descriptor("user=b")))
	redis.Stop()
	defer redis.Continue()
	open := startEnvoyClient(t, e)
	refused := open.want(false, open.ask("closed", 0, descriptor("user=c")))
	if refused.GetDynamicMetadata().GetFields()["decision"].GetStringValue() != "unavailable" || refused.GetDynamicMetadata().GetFields()["degraded"] == nil {
		t.Errorf("a call without Redis under on_failure deny: got %v", refused)
	}
	open.want(true, open.ask("site", 0, descriptor("user=d"))) // on_failure local
}

// startEnvoyClient returns e over a new connection.
func startEnvoyClient(t *testing.T, e *envoySide) *envoySide {
	t.Helper()
	other := *e
	var err error
	if other.conn, err = grpc.NewClient(e.addr, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.conn.Close() })
	return &other
}

// peers are built by go once, which caches them.
var peers = []string{
	"github.com/envoyproxy/ratelimit/src/client_cmd@v1.4.1-0.20260122083618-3fb702589d36",
	"github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4",
}

func TestEnvoyClientProgramsUnderstandTheAnswers(t *testing.T) {
	bin := t.TempDir()
	for _, program := range peers {
		build := exec.Command("go", "install", program)
		build.Env = append(os.Environ(), "GOBIN="+bin)
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	e := startEnvoySide(t, "--grpc-reflection", "true")
	run := func(name string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), maxWait)
		defer cancel()
		text, err := exec.CommandContext(ctx, filepath.Join(bin, name), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, text)
		}
		return string(text)
	}
	for i := range 4 {
		text := run("client_cmd", "-dial_string", e.addr, "-domain", "site", "-descriptors", "user=peer,path=/login", "-descriptors", "remote_address=198.51.100.7")
		if refused := strings.Contains(text, "overall_code:OVER_LIMIT"); refused != (i == 3) {
			t.Errorf("client_cmd, request %d: %s", i, text)
		}
	}
	if text := run("grpcurl", "-plaintext", e.addr, "list"); !strings.Contains(text, "envoy.service.ratelimit.v3.RateLimitService") || !strings.Contains(text, "envoy.service.auth.v3.Authorization") {
		t.Errorf("grpcurl list: %s", text)
	}
	text := run("grpcurl", "-plaintext", "-d", `{"domain":"site","descriptors":[{"entries":[{"key":"user","value":"peer"},{"key":"path","value":"/login"}]}]}`,
		e.addr, "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")
	if !strings.Contains(text, `"OVER_LIMIT"`) || !strings.Contains(text, `"3/1d"`) {
		t.Errorf("grpcurl: %s", text)
	}
}
