package memlog

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Two IDs with the same hash are too rare to wait for, so this test assigns the same hash to
// three IDs.
func TestLogsWithEqualHashesAreSeparate(t *testing.T) {
	const hash, now = 42, 1_000_000
	stack := rules.Stack{{Limit: 2, Window: time.Minute}}
	policy := &rules.Policy{ID: 1, Version: 1, Rules: stack}
	var s shard
	s.clear()
	ask := func(key string) bool {
		var r timestamplog.Result
		q := timestamplog.RequestOf(policy, key, 1)
		s.decide(hash, now, &q, &r)
		return r.Allowed
	}
	keys := []string{"a", "b", "c"}
	for _, removed := range keys {
		for _, key := range keys {
			for i := range 3 {
				if ask(key) != (i < 2) {
					t.Fatalf("%q is not allowed exactly twice", key)
				}
			}
		}
		if n := s.logs.count; n != len(keys) {
			t.Fatalf("%d logs are held", n)
		}
		s.delete(hash, s.logs.find(hash, timestamplog.LogIDOf(policy, removed)))
		if n := s.logs.count; n != len(keys)-1 || s.logs.find(hash, timestamplog.LogIDOf(policy, removed)) != nil {
			t.Fatalf("%d logs are held after %q was removed", n, removed)
		}
		for _, key := range keys {
			if ask(key) != (key == removed) {
				t.Fatalf("after %q was removed, %q is wrongly allowed or refused", removed, key)
			}
		}
		for _, key := range keys {
			s.delete(hash, s.logs.find(hash, timestamplog.LogIDOf(policy, key)))
		}
		if s.logs.count != 0 {
			t.Fatalf("%d logs are left", s.logs.count)
		}
	}
}

// A ring takes no more room than its entries need: it grows at most to the retention's number of
// entries, and is replaced once it is mostly empty.
func TestRingsAreBoundedByTheirLiveEntries(t *testing.T) {
	keep := rules.Retention{Entries: 800, Window: time.Hour}
	k := newKeyLog(timestamplog.LogID{Key: "a"}, 0)
	now := int64(1_000_000)
	for range 2000 {
		k = k.push(now, 1, keep)
		now++
	}
	if k.room != 800 || k.count != 800 {
		t.Fatalf("a full log has %d entries in room for %d, want 800", k.count, k.room)
	}
	now += time.Hour.Milliseconds() - 10
	k = k.push(now, 1, keep)
	if k.count != 10 {
		t.Fatalf("%d entries are kept, want the 9 still in the window and the new one", k.count)
	}
	before := k.times(now, 1000)
	if k = k.shrunk(); k.room < 20 || k.room > 24 {
		t.Errorf("10 entries take room for %d", k.room)
	}
	after := k.times(now, 1000)
	for i := range before {
		if before[i] != after[i] {
			t.Fatalf("entry %d is %d after the ring shrank, was %d", i, after[i], before[i])
		}
	}
}
