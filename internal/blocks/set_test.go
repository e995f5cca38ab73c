package blocks_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/test/keytest"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

var key, pattern = keytest.Key, keytest.Pattern

// block returns a block that expires that long after noon; 0 for a permanent one.
func block(t testing.TB, id, text string, revision int64, lasts time.Duration) *blocks.Entry {
	b := &blocks.Entry{Kind: blocks.Block, ID: id, Pattern: pattern(t, text), Revision: revision, Created: blocks.MomentOf(noon)}
	if lasts != 0 {
		b.Expires = noon.Add(lasts)
	}
	return b
}

func ended(b *blocks.Entry, revision int64) *blocks.Entry {
	later := *b
	later.End, later.Revision = blocks.EndingOf(noon, ""), revision
	return &later
}

func TestBlockEndsExactlyAtItsExpiry(t *testing.T) {
	s := blocks.NewSet()
	s.Apply(block(t, "a", "ip:10.0.0.0/8", 1, time.Hour), noon)
	k := key(t, "ip:10.1.2.3")
	for at, want := range map[time.Duration]bool{0: true, time.Hour - 1: true, time.Hour: false, 2 * time.Hour: false} {
		if got := s.Match(k, noon.Add(at)).Refuses(); got != want {
			t.Errorf("Match %v after noon refuses: %v, want %v", at, got, want)
		}
	}
	if s.Match(key(t, "ip:11.0.0.1"), noon).Refuses() {
		t.Error("Match refuses a key outside the block")
	}
}

func TestMatchReturnsTheBlockThatExpiresLast(t *testing.T) {
	s := blocks.NewSet()
	s.Apply(block(t, "wide", "ip:*", 1, 2*time.Hour), noon)
	s.Apply(block(t, "network", "ip:10.0.0.0/8", 2, 3*time.Hour), noon)
	s.Apply(block(t, "address", "ip:10.0.0.1", 3, time.Hour), noon)
	k := key(t, "ip:10.0.0.1")
	if got := s.Match(k, noon).Block.ID; got != "network" {
		t.Errorf("the block is %s, want network", got)
	}
	s.Apply(block(t, "all", "*", 4, 0), noon)
	if got := s.Match(k, noon).Block.ID; got != "all" {
		t.Errorf("the block is %s, want all: it is permanent", got)
	}
	var ids []string
	for _, b := range s.Selecting(blocks.Block, k, noon.Add(90*time.Minute)) {
		ids = append(ids, b.ID)
	}
	if want := []string{"network", "wide", "all"}; !slices.Equal(ids, want) {
		t.Errorf("Selecting after 90 minutes: got %v, want %v", ids, want)
	}
}

func TestExemptionPrecedesEveryBlockAndHidesNone(t *testing.T) {
	s := blocks.NewSet()
	s.Apply(block(t, "a", "ip:10.0.0.1", 1, 0), noon)
	s.Apply(&blocks.Entry{Kind: blocks.Exemption, ID: "e", Pattern: pattern(t, "ip:10.0.0.0/8"), Revision: 2, Expires: noon.Add(time.Hour)}, noon)
	k := key(t, "ip:10.0.0.1")
	v := s.Match(k, noon)
	if v.Refuses() || v.Block == nil || v.Exemption == nil {
		t.Errorf("Match: got %+v, want both the exemption and the block", v)
	}
	if got := s.Selecting(blocks.Exemption, k, noon); len(got) != 1 || got[0].ID != "e" {
		t.Errorf("the exemptions are %v", got)
	}
	if !s.Match(k, noon.Add(time.Hour)).Refuses() {
		t.Error("an expired exemption still applies")
	}
	s.Apply(&blocks.Entry{Kind: blocks.Exemption, ID: "e", Pattern: pattern(t, "ip:10.0.0.0/8"), Revision: 3, End: blocks.EndingOf(noon, "")}, noon)
	if !s.Match(k, noon).Refuses() {
		t.Error("an ended exemption still applies")
	}
}

func TestLateStatesAreOrderedByRevision(t *testing.T) {
	old := block(t, "old", "ip:10.0.0.1", 1, time.Hour)
	extended := block(t, "old", "ip:10.0.0.1", 2, 3*time.Hour)
	oldEnded := ended(old, 3)
	replacing := block(t, "new", "ip:10.0.0.1", 3, time.Hour)
	undone := block(t, "old", "ip:10.0.0.1", 4, time.Hour)
	expired := block(t, "old", "ip:10.0.0.1", 2, -time.Hour)
	for name, c := range map[string]struct {
		arrive []*blocks.Entry
		want   *blocks.Entry
	}{
		"in order":                            {[]*blocks.Entry{old, extended}, extended},
		"the older state last":                {[]*blocks.Entry{extended, old}, extended},
		"the same state twice":                {[]*blocks.Entry{extended, extended}, extended},
		"ended":                               {[]*blocks.Entry{old, oldEnded}, nil},
		"the end first":                       {[]*blocks.Entry{oldEnded, old, extended}, nil},
		"the end between":                     {[]*blocks.Entry{extended, oldEnded, old}, nil},
		"replaced in one transaction":         {[]*blocks.Entry{old, oldEnded, replacing}, replacing},
		"the replacing one before the end":    {[]*blocks.Entry{old, replacing, oldEnded}, replacing},
		"the replacing one before everything": {[]*blocks.Entry{replacing, oldEnded, old}, replacing},
		"the end undone":                      {[]*blocks.Entry{old, oldEnded, undone}, undone},
		"the end undone, which arrives first": {[]*blocks.Entry{undone, oldEnded, old}, undone},
		"shortened into the past":             {[]*blocks.Entry{old, expired}, nil},
		"shortened, and the older state last": {[]*blocks.Entry{expired, old}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := blocks.NewSet()
			for _, b := range c.arrive {
				s.Apply(b, noon)
			}
			if got := s.Match(key(t, "ip:10.0.0.1"), noon).Block; got != c.want {
				t.Errorf("active is %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestLateOlderStateDoesNotReviveAShortenedBlock(t *testing.T) {
	for name, sweep := range map[string]bool{"before a sweep": false, "after a sweep": true} {
		s := blocks.NewSet()
		s.Apply(block(t, "a", "ip:10.0.0.1", 2, time.Hour), noon)
		now := noon.Add(time.Hour)
		if sweep {
			s.Sweep(now)
		}
		s.Apply(block(t, "a", "ip:10.0.0.1", 1, 3*time.Hour), now)
		if s.Match(key(t, "ip:10.0.0.1"), now).Refuses() {
			t.Errorf("%s the older state makes the block active again", name)
		}
	}
}

func TestSweepRemovesOnlyWhatHasExpired(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := blocks.NewSet()
		active := map[int]*blocks.Entry{}
		now := noon
		for step := range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "minutes")) * time.Minute)
			case 1:
				s.Sweep(now)
			default:
				host := rapid.IntRange(0, 8).Draw(t, "host")
				b := &blocks.Entry{Kind: blocks.Block,
					ID: fmt.Sprint(step), Revision: int64(step), Expires: now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "lasts")) * time.Minute),
				}
				b.Pattern, _ = keys.Parser{}.Pattern(fmt.Sprintf("ip:10.0.0.%d", host))
				s.Apply(b, now)
				active[host] = b
			}
		}
		s.Sweep(now)
		count := 0
		for host, b := range active {
			k, _ := keys.Parser{}.Key(fmt.Sprintf("ip:10.0.0.%d", host))
			got := s.Match(k, now).Block
			if b.ActiveAt(now) {
				count++
				if got != b {
					t.Fatalf("host %d: active is %+v, want %+v", host, got, b)
				}
			} else if got != nil {
				t.Fatalf("host %d: %+v is still active", host, got)
			}
		}
		if n := s.Size(blocks.Block); n != count {
			t.Fatalf("%d blocks are kept, want %d", n, count)
		}
	})
}

func TestBlockExtendedManyTimesIsSweptOnce(t *testing.T) {
	s := blocks.NewSet()
	for i := range 5000 {
		s.Apply(block(t, "a", "ip:10.0.0.1", int64(i), time.Duration(i+1)*time.Second), noon)
	}
	s.Sweep(noon.Add(4999 * time.Second))
	if n := s.Size(blocks.Block); n != 1 {
		t.Fatalf("before its end %d blocks are kept, want 1", n)
	}
	s.Sweep(noon.Add(5000 * time.Second))
	if n := s.Size(blocks.Block); n != 0 {
		t.Fatalf("after its end %d blocks are kept, want 0", n)
	}
}

func TestSweepRemovesExemptionsToo(t *testing.T) {
	s := blocks.NewSet()
	s.Apply(&blocks.Entry{Kind: blocks.Exemption, ID: "a", Pattern: pattern(t, "*"), Expires: noon.Add(time.Hour)}, noon)
	s.Apply(&blocks.Entry{Kind: blocks.Exemption, ID: "b", Pattern: pattern(t, "ip:*")}, noon)
	s.Sweep(noon.Add(time.Hour))
	if n := s.Size(blocks.Exemption); n != 1 {
		t.Errorf("%d exemptions are kept, want 1: the permanent one", n)
	}
}

func TestSetIsSafeForConcurrentUse(t *testing.T) {
	s := blocks.NewSet()
	permanent := block(t, "good", "ip:10.0.0.0/8", 1, 0)
	s.Apply(permanent, noon)
	texts := []string{"ip:10.0.0.1", "ip:10.0.0.0/24", "ip:*", "*", "ip:2001:db8::/32", "token:a*", "token:abc"}
	asked := []keys.Key{key(t, "ip:10.0.0.1"), key(t, "ip:2001:db8::1"), key(t, "token:abc")}
	var patterns []keys.Pattern
	for _, text := range texts {
		patterns = append(patterns, pattern(t, text))
	}
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 500 {
				now := noon.Add(time.Duration(i) * time.Second)
				b := &blocks.Entry{Kind: blocks.Block,
					ID: fmt.Sprint(worker, i), Pattern: patterns[(worker+i)%len(patterns)], Revision: int64(i), Expires: now.Add(time.Second),
				}
				s.Apply(b, now)
				s.Apply(&blocks.Entry{Kind: blocks.Exemption, ID: b.ID, Pattern: pattern(t, "user:x"), Revision: int64(i), Expires: now.Add(time.Second)}, now)
				if i%3 == 0 {
					s.Apply(ended(b, int64(i)+1), now)
				}
			}
		})
		all.Go(func() {
			for i := range 500 {
				now := noon.Add(time.Duration(i) * time.Second)
				if !s.Match(asked[0], now).Refuses() {
					t.Error("the permanent block is not found")
				}
				s.Match(asked[i%len(asked)], now)
				if i%50 == 0 {
					s.Sweep(now)
				}
			}
		})
	}
	all.Wait()
	s.Sweep(noon.Add(time.Hour))
	if n, e := s.Size(blocks.Block), s.Size(blocks.Exemption); n != 1 || e != 0 {
		t.Errorf("%d blocks and %d exemptions are left, want only the permanent block", n, e)
	}
}

func TestMatchingAllocatesNothing(t *testing.T) {
	s := blocks.NewSet()
	for i, text := range []string{"*", "ip:*", "ip:10.0.0.0/8", "ip:10.0.0.1", "ip:2001:db8::/48", "token:a*", "token:abc"} {
		s.Apply(block(t, fmt.Sprint(i), text, int64(i), time.Hour), noon)
		s.Apply(&blocks.Entry{Kind: blocks.Exemption, ID: fmt.Sprint(i), Pattern: pattern(t, text)}, noon)
	}
	for _, text := range []string{"ip:10.0.0.1", "ip:2001:db8::1", "token:abc", "user:x"} {
		k := key(t, text)
		if n := testing.AllocsPerRun(100, func() { s.Match(k, noon) }); n != 0 {
			t.Errorf("Match(%s) allocates %v times", text, n)
		}
	}
}

func BenchmarkSweepOfAMillionBlocksOfWhichNoneHasExpired(b *testing.B) {
	s := blocks.NewSet()
	for i := range 1_000_000 {
		x := &blocks.Entry{Kind: blocks.Block, ID: fmt.Sprint(i), Pattern: pattern(b, fmt.Sprintf("ip:10.%d.%d.%d", i>>16, i>>8&255, i&255)), Expires: noon.Add(time.Hour)}
		s.Apply(x, noon)
	}
	for b.Loop() {
		s.Sweep(noon)
	}
}

// The counts by source agree with those of an iteration over every block, with replaced, ended,
// expired and swept blocks and blocks with a scope.
func TestCountsBySourceIncludeAllBlocks(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s, now, revision := blocks.NewSet(), noon, int64(0)
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			switch rapid.IntRange(0, 5).Draw(r, "step") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(1, 90).Draw(r, "minutes")) * time.Minute)
			case 1:
				s.Sweep(now)
			default:
				revision++
				e := block(t, fmt.Sprint("id", rapid.IntRange(0, 6).Draw(r, "id")), rapid.SampledFrom([]string{"ip:10.0.0.1", "ip:10.0.0.0/24", "token:a", "*"}).Draw(r, "pattern"), revision, 0)
				e.Source = rapid.SampledFrom([]blocks.Source{blocks.Manual, blocks.Automatic, blocks.Imported}).Draw(r, "source")
				e.Scope = rapid.SampledFrom([]string{"", "", "login"}).Draw(r, "scope")
				if minutes := rapid.IntRange(0, 120).Draw(r, "lasts"); minutes > 0 {
					e.Expires = now.Add(time.Duration(minutes) * time.Minute)
				}
				switch {
				case rapid.IntRange(0, 4).Draw(r, "ended") == 0:
					e = ended(e, revision)
				case e.Scope == "" && rapid.IntRange(0, 4).Draw(r, "exempt") == 0:
					e.Kind = blocks.Exemption
				}
				s.Apply(e, now)
				if rapid.Bool().Draw(r, "twice") {
					s.Apply(e, now)
				}
			}
			want := map[blocks.Source]int{}
			for b := range s.All(blocks.Block, now) {
				want[b.Source]++
			}
			for b := range s.AllScoped(now) {
				want[b.Source]++
			}
			if got := s.CountBySource(now); !maps.Equal(got, want) {
				r.Fatalf("CountBySource: got %v, want %v", got, want)
			}
		}
	})
}

func TestIsLater(t *testing.T) {
	for name, c := range map[string]struct {
		expires, than time.Time
		want          bool
	}{
		"later": {noon.Add(1), noon, true}, "the same": {noon, noon, false}, "earlier": {noon, noon.Add(1), false},
		"permanent": {time.Time{}, noon, true}, "than permanent": {noon, time.Time{}, false}, "both permanent": {time.Time{}, time.Time{}, false},
	} {
		if got := blocks.IsLater(c.expires, c.than); got != c.want {
			t.Errorf("IsLater, %s: got %v, want %v", name, got, c.want)
		}
	}
}
