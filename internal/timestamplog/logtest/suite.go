package logtest

import "testing"

// contract is one thing that every Log promises.
type contract struct {
	name string
	test func(*testing.T, Harness)
}

// Run runs the contract suite of the exact logs. newHarness is called once for
// each test and returns an empty Log or one whose contents belong to other
// policies.
func Run(t *testing.T, newHarness func(*testing.T) Harness) {
	groups := [][]contract{
		scripted(), details(), policies(), clocks(), logs(), batches(), reservations(), ids(), severalKeys(), concurrency(), properties(),
	}
	for _, group := range groups {
		run(t, group, newHarness)
	}
}

func run(t *testing.T, group []contract, newHarness func(*testing.T) Harness) {
	for _, c := range group {
		t.Run(c.name, func(t *testing.T) { c.test(t, newHarness(t)) })
	}
}
