// Package testenv starts the real servers that tests run against: private
// redis-server and Postgres processes on free ports of 127.0.0.1, which end
// with the test, or at the latest with the test binary. Where
// STINT_TEST_REDIS_URL or STINT_TEST_DATABASE_URL name a server, it is used
// instead, by a prefix or a database of each test's own. A missing program
// fails the test with one line that says what to install; no test is skipped.
package testenv

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"sync"
	"testing"
)

// The environment variables that name servers to use instead of private ones.
const (
	RedisURLVariable    = "STINT_TEST_REDIS_URL"
	DatabaseURLVariable = "STINT_TEST_DATABASE_URL"
)

// atExit holds what Main does after the last test.
var atExit struct {
	sync.Mutex
	inMain bool
	do     []func()
}

// Main runs the tests and then stops the servers that they shared. A package
// that calls Postgres must have
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
func Main(m *testing.M) {
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
	os.Exit(code)
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
