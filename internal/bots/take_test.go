package bots

import (
	"net/netip"
	"testing"
	"time"
)

// An address that this node found to be no crawler is looked up again if another node stores it
// as one. If DNS did not answer this node, the result of the other node is used.
func TestResultsOfOtherNodesDoNotOverrideOwnOnes(t *testing.T) {
	operators, err := ParseOperators("google")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	v := New(Options{Operators: operators, Now: func() time.Time { return now }})
	stranger, unknown := netip.MustParseAddr("66.249.64.9"), netip.MustParseAddr("66.249.64.10")
	before := now.Add(-time.Minute)
	v.known[stranger] = answer{Crawler: Crawler{Address: stranger, Verified: before}, until: before.Add(strangerFor)}
	v.known[unknown] = answer{Crawler: Crawler{Address: unknown, Verified: before}, until: before.Add(failureFor), failed: true}
	for range 2 {
		v.take([]Crawler{{stranger, "google", "crawl.googlebot.com.", now}, {unknown, "google", "crawl.googlebot.com.", now}})
	}
	if got := v.Verified(); len(got) != 1 || got[0].Address != unknown || v.Waiting() != 1 {
		t.Errorf("Verified: got %+v, and %d wait; want only the unknown address, and 1", got, v.Waiting())
	}
}
