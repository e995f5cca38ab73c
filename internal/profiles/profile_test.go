package profiles_test

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
)

func TestNormalize(t *testing.T) {
	p := profiles.Profile{Plan: "gold", Labels: []string{"vip", "region=eu", "vip"}, Note: " pays\r\nlate "}
	if err := p.Normalize(); err != nil || strings.Join(p.Labels, " ") != "region=eu vip" || p.Note != "pays\nlate" {
		t.Fatalf("Normalize: got %+v, %v", p, err)
	}
	many := make([]string, profiles.MaxLabels+1)
	for i := range many {
		many[i] = fmt.Sprint("l", i)
	}
	for _, c := range []struct {
		p     profiles.Profile
		field string
	}{
		{profiles.Profile{Plan: "Gold"}, "plan"}, {profiles.Profile{Plan: "a b"}, "plan"}, {profiles.Profile{Plan: "*"}, "plan"},
		{profiles.Profile{Labels: []string{"ok", "<b>"}}, "labels[1]"}, {profiles.Profile{Labels: []string{""}}, "labels[0]"},
		{profiles.Profile{Labels: []string{"a,b"}}, "labels[0]"}, {profiles.Profile{Labels: many}, "labels"},
		{profiles.Profile{Note: strings.Repeat("x", profiles.MaxNote+1)}, "note"}, {profiles.Profile{Note: "a\x1b[2J"}, "note"}, {profiles.Profile{Note: "a\xff"}, "note"},
	} {
		var wrong *profiles.FieldError
		if err := c.p.Normalize(); !errors.As(err, &wrong) || wrong.Field != c.field {
			t.Errorf("Normalize of %+v: got %v, want the field %s", c.p, err, c.field)
		}
	}
}

func TestLimitCheck(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000)
	stack := func(texts ...string) rules.Stack {
		s, err := rules.ParseStack(texts)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		l     *profiles.Limit
		field string
	}{
		{&profiles.Limit{Rules: stack("5/s"), Reason: "launch"}, ""},
		{&profiles.Limit{Rules: stack("5/s"), Reason: "launch", Expires: now.Add(time.Hour)}, ""},
		{&profiles.Limit{Reason: "launch"}, "rules"},
		{&profiles.Limit{Rules: stack("0/s"), Reason: "launch"}, "rules"},
		{&profiles.Limit{Rules: stack("5/m distinct path"), Reason: "launch"}, "rules"},
		{&profiles.Limit{Rules: stack("5/s")}, "reason"},
		{&profiles.Limit{Rules: stack("5/s"), Reason: "a\nb"}, "reason"},
		{&profiles.Limit{Rules: stack("5/s"), Reason: "a\x07"}, "reason"},
		{&profiles.Limit{Rules: stack("5/s"), Reason: "launch", Expires: now}, "expires_at"},
		{&profiles.Limit{Rules: stack("5/s"), Reason: "launch", Expires: now.Add(20 * profiles.MaxUntil)}, "expires_at"},
	} {
		var wrong *profiles.FieldError
		switch err := c.l.Check(now); {
		case c.field == "" && err != nil:
			t.Error(err)
		case c.field != "" && (!errors.As(err, &wrong) || wrong.Field != c.field):
			t.Errorf("Check of %v %q: got %v, want the field %s", c.l.Rules, c.l.Reason, err, c.field)
		}
	}
}

func TestApplyKeepsTheLog(t *testing.T) {
	base := &rules.Policy{ID: 7, Generation: 3, Version: 4, Name: "api", Mode: rules.Off, Algorithm: algorithms.TimestampLog, Rules: rules.Stack{{Limit: 100, Window: time.Hour}}}
	l := &profiles.Limit{Rules: rules.Stack{{Limit: 5, Window: time.Second}}}
	made := l.Apply(base)
	if made.ID != 7 || made.Generation != 3 || made.Version >= 0 || made.Mode != rules.Enforce || made.Rules.String() != l.Rules.String() {
		t.Errorf("Apply: got %+v", made)
	}
	if made.Retention != (rules.Retention{Entries: 100, Window: time.Hour}) {
		t.Errorf("Apply: got the retention %+v, want that of the policy", made.Retention)
	}
	if l.Apply(base) != made {
		t.Error("Apply made a second policy for the same limit")
	}
	counter := *base
	counter.Algorithm = algorithms.FixedWindow
	if moved := l.Apply(&counter); moved.Generation == 3 || moved.Generation < 0 {
		t.Errorf("a counter with other windows keeps the generation %d", moved.Generation)
	}
	same := &profiles.Limit{Rules: rules.Stack{{Limit: 5, Window: time.Hour}}}
	if kept := same.Apply(&counter); kept.Generation != 3 {
		t.Error("a counter with the same windows gets another generation")
	}
	if none := l.Apply(nil); none.ID != 0 || none.Name != profiles.NoPolicy || rules.CheckName(none.Name) == nil {
		t.Errorf("Apply(nil): got %+v", none)
	}
}

func all(profs ...*profiles.Profile) iter.Seq2[*profiles.Profile, error] {
	return func(yield func(*profiles.Profile, error) bool) {
		for _, p := range profs {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func TestSet(t *testing.T) {
	s := profiles.NewSet()
	find := func(text string) *profiles.Member {
		k, err := keys.Parser{}.Key(text)
		if err != nil {
			t.Fatal(err)
		}
		return s.Find(k)
	}
	limit := &profiles.Limit{Rules: rules.Stack{{Limit: 5, Window: time.Second}}}
	if n, err := s.Apply(all(&profiles.Profile{Key: "a", Plan: "gold"}, &profiles.Profile{Key: "b", Plan: "gold"}, &profiles.Profile{Key: "c", Note: "only a note"},
		&profiles.Profile{Key: "d", Plan: "gold", Limit: limit}, &profiles.Profile{Key: "d", Limit: limit})); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	if find("a") != find("b") || find("a").Plan != "gold" || find("c") != nil || find("x") != nil || find("d").Plan != "" || find("d").Limit != limit || s.Len() != 3 || !s.HasLimits() {
		t.Error(maps.Collect(s.All()))
	}
	broken := errors.New("gone")
	if n, err := s.Apply(func(yield func(*profiles.Profile, error) bool) {
		_ = yield(&profiles.Profile{Key: "a"}, nil) && yield(&profiles.Profile{Key: "d"}, nil) && yield(nil, broken)
	}); n != 2 || !errors.Is(err, broken) || find("a") != nil || find("b") == nil || s.HasLimits() || s.Len() != 1 {
		t.Error(n, err, maps.Collect(s.All()))
	}
	if n, err := s.Apply(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
}

// BenchmarkSet says how many bytes a node keeps for each of a million keys with a plan,
// the key's own text included, and how long one change takes.
func BenchmarkSet(b *testing.B) {
	const n = 1_000_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := profiles.NewSet()
	if _, err := s.Apply(func(yield func(*profiles.Profile, error) bool) {
		plans := []string{"free", "silver", "gold"}
		for i := range n {
			if !yield(&profiles.Profile{Key: fmt.Sprintf("token:%012d", i), Plan: plans[i%len(plans)]}, nil) {
				return
			}
		}
	}); err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	for i := 0; b.Loop(); i++ {
		_, _ = s.Apply(all(&profiles.Profile{Key: fmt.Sprintf("token:%012d", i%n), Plan: "gold"}))
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/key")
	runtime.KeepAlive(s)
}
