package servers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sentinels returns the addresses of three Redis Sentinels that watch primary
// under that name and end with the test. Two that miss it for half a second
// make one of its replicas the primary.
func Sentinels(t testing.TB, name string, primary *RedisServer) []string {
	t.Helper()
	var addresses []string
	for range 3 {
		addresses = append(addresses, startSentinel(t, name, primary))
	}
	return addresses
}

func startSentinel(t testing.TB, name string, primary *RedisServer) string {
	t.Helper()
	program, err := redisProgram()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "stint-sentinel-")
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(primary.Addr)
	if err != nil {
		t.Fatal(err)
	}
	var running *process
	t.Cleanup(func() {
		if running != nil {
			_ = running.kill()
		}
		os.RemoveAll(dir)
	})
	own, release, err := onFreePort(func(own int) error {
		// A Sentinel writes what it learns into its file.
		file := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %s\nsentinel monitor %s %s %s 2\nsentinel down-after-milliseconds %s 500\nsentinel failover-timeout %s 3000\n",
			own, dir, name, host, port, name, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		started, err := startProcess(dir, nil, program, file, "--sentinel")
		if err != nil {
			return err
		}
		address := fmt.Sprintf("127.0.0.1:%d", own)
		if err := started.await(func() bool { return sentinelAnswers(address, started.pid()) }); err != nil {
			_ = started.kill()
			return err
		}
		running = started
		return nil
	})
	if err != nil {
		t.Fatalf("a Sentinel did not start: %v", err)
	}
	t.Cleanup(release)
	return fmt.Sprintf("127.0.0.1:%d", own)
}

// sentinelAnswers reports whether the process pid answers at address.
func sentinelAnswers(address string, pid int) bool {
	client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	info, err := client.Info(ctx, "server").Result()
	return err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid))
}
