package recorder

import (
	"os"
	"strconv"
	"testing"
)

// testFlood returns how many distinct keys the flood sends: 300,000, or what
// STINT_TEST_FLOOD says. Ten million take about twenty seconds.
func testFlood(t *testing.T) int {
	text := os.Getenv("STINT_TEST_FLOOD")
	if text == "" {
		return 300_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1000 {
		t.Fatalf("STINT_TEST_FLOOD is %q, not a number of at least 1000", text)
	}
	return n
}
