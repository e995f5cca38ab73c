package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisServer is a Redis or Valkey that a test may use.
type RedisServer struct {
	URL  string
	Addr string // host:port
	// Prefix is this test's own: on a server given by URL, whatever begins
	// with it is deleted when the test ends, and nothing else is.
	Prefix string

	t         testing.TB
	process   *process // nil for a server given by URL
	dir       string
	args      []string
	before    []string // what starts the program, such as env and variables
	clockFile string   // of a server of RedisWithClock
}

// Redis returns the server that STINT_TEST_REDIS_URL names, or else a private
// empty one that ends with the test.
func Redis(t testing.TB) *RedisServer {
	t.Helper()
	if url := os.Getenv(RedisURLVariable); url != "" {
		return givenRedis(t, url)
	}
	return DedicatedRedis(t)
}

// DedicatedRedis returns a private empty server that ends with the test, for
// tests that kill or stop it, or that measure it. It keeps nothing on disk
// unless args, which go to redis-server, say so.
func DedicatedRedis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return dedicatedRedis(t, "", nil, args...)
}

func dedicatedRedis(t testing.TB, clockFile string, before []string, args ...string) *RedisServer {
	t.Helper()
	s := &RedisServer{t: t, args: args, Prefix: randomName("stint-test-"), before: before, clockFile: clockFile}
	dir, err := os.MkdirTemp("", "stint-redis-")
	if err != nil {
		t.Fatal(err)
	}
	s.dir = dir
	t.Cleanup(func() {
		if s.process != nil {
			_ = s.process.kill()
		}
		os.RemoveAll(dir)
	})
	port, release, err := onFreePort(s.start)
	if err != nil {
		t.Fatalf("redis-server did not start: %v", err)
	}
	t.Cleanup(release)
	s.Addr = "127.0.0.1:" + strconv.Itoa(port)
	s.URL = "redis://" + s.Addr + "/0"
	return s
}

func (s *RedisServer) start(port int) error {
	program, err := redisProgram()
	if err != nil {
		s.t.Fatal(err)
	}
	args := append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--maxmemory-policy", "noeviction",
	}, s.args...)
	command := append(append(slices.Clone(s.before), program), args...)
	if command[0], err = exec.LookPath(command[0]); err != nil {
		return err
	}
	process, err := startProcess(s.dir, nil, command[0], command[1:]...)
	if err != nil {
		return err
	}
	addr := "127.0.0.1:" + strconv.Itoa(port)
	if err := process.await(func() bool { return redisAnswers(addr, process.pid()) }); err != nil {
		_ = process.kill()
		return err
	}
	s.process = process
	return nil
}

// redisAnswers reports whether the process pid, and not another that was
// quicker to take the port, answers at addr and has loaded its data.
func redisAnswers(addr string, pid int) bool {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	info, err := client.Info(ctx, "server", "persistence").Result()
	return err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) &&
		strings.Contains(info, "\nloading:0\r\n")
}

func redisProgram() (string, error) {
	if named := os.Getenv(RedisServerVariable); named != "" {
		program, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%s names no program: %w", RedisServerVariable, err)
		}
		return program, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", errors.New("redis-server is not installed: run `bash scripts/setup-tests.sh`, install Redis 7 or Valkey (apt-get install redis-server, brew install redis), or set " + RedisURLVariable)
}

func givenRedis(t testing.TB, url string) *RedisServer {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatalf("%s is not the URL of a Redis; write for example redis://127.0.0.1:6379/0", RedisURLVariable)
	}
	s := &RedisServer{URL: url, Addr: options.Addr, Prefix: randomName("stint-test-"), t: t}
	client := redis.NewClient(options)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatalf("the Redis that %s names does not answer: %v", RedisURLVariable, err)
	}
	t.Cleanup(func() {
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		defer cancel()
		found := client.Scan(ctx, 0, s.Prefix+"*", 1000).Iterator()
		for found.Next(ctx) {
			client.Unlink(ctx, found.Val())
		}
		if err := found.Err(); err != nil {
			t.Errorf("the test's keys could not be deleted: %v", err)
		}
	})
	return s
}

// Kill ends the server as kill -9 does, without a goodbye to anyone.
func (s *RedisServer) Kill() {
	s.t.Helper()
	if err := s.own().kill(); err != nil {
		s.t.Fatalf("redis-server could not be killed: %v", err)
	}
}

// Stop freezes the server: it takes connections and answers nothing.
func (s *RedisServer) Stop() {
	s.t.Helper()
	if _, err := s.own().freeze(); err != nil {
		s.t.Fatalf("redis-server could not be stopped: %v", err)
	}
}

// Continue ends what Stop began.
func (s *RedisServer) Continue() {
	s.t.Helper()
	if err := s.own().resume(); err != nil {
		s.t.Fatalf("redis-server could not be continued: %v", err)
	}
}

// Restart kills the server if it still runs and starts it again at the same
// address, with what it had on disk or, if empty, with nothing.
func (s *RedisServer) Restart(empty bool) {
	s.t.Helper()
	s.Kill()
	if empty {
		kept, err := os.ReadDir(s.dir)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, entry := range kept {
			if err := os.RemoveAll(filepath.Join(s.dir, entry.Name())); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	port, err := strconv.Atoi(s.Addr[strings.LastIndexByte(s.Addr, ':')+1:])
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.start(port); err != nil {
		s.t.Fatalf("redis-server did not start again: %v", err)
	}
}

// LoseFolder takes its folder away from the server, so that it can save nothing.
func (s *RedisServer) LoseFolder() {
	s.t.Helper()
	s.own()
	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Fatal(err)
	}
}

func (s *RedisServer) own() *process {
	s.t.Helper()
	if s.process == nil {
		s.t.Fatal("a Redis given by URL cannot be killed or stopped: this test needs DedicatedRedis")
	}
	return s.process
}
