// Package servers starts the real servers that tests run against: private
// redis-server and Postgres processes on free ports of 127.0.0.1, which end
// with the test, or at the latest with the test binary. STINT_TEST_REDIS_SERVER
// names another program than redis-server, such as valkey-server. Where
// STINT_TEST_REDIS_URL or STINT_TEST_DATABASE_URL name a server, it is used
// instead, by a prefix or a database of each test's own. A missing program
// fails the test with one line that says what to install; no test is skipped.
package servers

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"sync"
	"testing"
)

// The environment variables that name servers to use instead of private ones, and the program
// of private servers of Redis.
const (
	RedisURLVariable    = "STINT_TEST_REDIS_URL"
	DatabaseURLVariable = "STINT_TEST_DATABASE_URL"
	RedisServerVariable = "STINT_TEST_REDIS_SERVER"
)

// atExit holds what Main does after the last test.
var atExit struct {
	sync.Mutex
	inMain bool
	do     []func()
}

// Main runs the tests and exits; see Run. A package that calls Postgres must have
//
//	func TestMain(m *testing.M) { servers.Main(m) }
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run runs the tests, stops the servers that they shared, and returns the exit
// code. Where the system keeps files in memory, the temporary files of the tests
// are there, unless TMPDIR names another place: creating and removing thousands
// of files takes a disk most of the tests' time.
func Run(m interface{ Run() int }) int {
	memory, err := useMemory()
	if err != nil {
		fmt.Fprintln(os.Stderr, "the folder for temporary files:", err)
		return 1
	}
	atExit.Lock()
	atExit.inMain = true
	atExit.Unlock()
	code := m.Run()
	atExit.Lock()
	do := atExit.do
	atExit.Unlock()
	for _, f := range do {
		f()
	}
	if memory != "" {
		os.RemoveAll(memory)
	}
	return code
}

// useMemory sets TMPDIR to a new folder in memory, which it returns, unless
// TMPDIR is set already or there is no room.
func useMemory() (dir string, err error) {
	if os.Getenv("TMPDIR") != "" {
		return "", nil
	}
	dir, err = folderInMemory()
	if err != nil || dir == "" {
		return "", err
	}
	return dir, os.Setenv("TMPDIR", dir)
}

// AtExit has f called after the last test of a binary whose TestMain calls Main.
func AtExit(f func()) {
	atExit.Lock()
	defer atExit.Unlock()
	atExit.do = append(atExit.do, f)
}

// randomName returns prefix and 12 random hexadecimal digits.
func randomName(prefix string) string {
	var b [6]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}
