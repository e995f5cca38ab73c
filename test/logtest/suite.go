package logtest

import "testing"

// contract is one promise of every Log and the test of it. The package comment
// of timestamplog quotes the names.
type contract struct {
	name string
	test func(*testing.T, Harness)
}

// Run runs the contract suite of the exact logs. newHarness is called once for
// each test and returns an empty Log or one whose contents belong to other
// policies.
func Run(t *testing.T, newHarness func(*testing.T) Harness) {
	for _, group := range exactContracts() {
		run(t, group, newHarness)
	}
}

func exactContracts() [][]contract {
	return [][]contract{
		scripted(), details(), policies(), clocks(), logs(), batches(), reservations(), charges(), ids(), severalKeys(), usage(), concurrency(), properties(),
	}
}

func run(t *testing.T, group []contract, newHarness func(*testing.T) Harness) {
	for _, c := range group {
		t.Run(c.name, func(t *testing.T) { c.test(t, newHarness(t)) })
	}
}
