package profiles

import (
	"iter"
	"testing"

	"github.com/stint-dev/stint/internal/rules"
)

func TestSetForgetsUnusedPlans(t *testing.T) {
	apply := func(s *Set, all ...*Profile) {
		t.Helper()
		var seq iter.Seq2[*Profile, error] = func(yield func(*Profile, error) bool) {
			for _, p := range all {
				if !yield(p, nil) {
					return
				}
			}
		}
		if _, err := s.Apply(seq); err != nil {
			t.Fatal(err)
		}
	}
	s := NewSet()
	limit := &Limit{Rules: rules.Stack{{Limit: 5, Window: 1}}}
	apply(s, &Profile{Key: "a", Plan: "gold"}, &Profile{Key: "b", Plan: "gold"}, &Profile{Key: "a", Plan: "gold"}, &Profile{Key: "c", Plan: "free", Limit: limit})
	if len(s.plans) != 1 || s.plans["gold"].keys != 2 {
		t.Errorf("got the plans %+v", s.plans)
	}
	apply(s, &Profile{Key: "a", Plan: "silver"}, &Profile{Key: "b", Plan: "gold", Limit: limit}, &Profile{Key: "c", Plan: "free"})
	if len(s.plans) != 2 || s.plans["silver"] == nil || s.plans["free"] == nil {
		t.Errorf("got the plans %+v", s.plans)
	}
	apply(s, &Profile{Key: "a"}, &Profile{Key: "b"}, &Profile{Key: "c"})
	if len(s.plans) != 0 || s.Len() != 0 {
		t.Errorf("got the plans %+v and %d keys, want none", s.plans, s.Len())
	}
}
