package catalog

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
)

// script is a Source that performs one step at each call.
type script struct {
	steps []step
	since []int64 // the position of each call
}

// step is one answer: blocks, and then an error if err is set.
type step struct {
	revision int64
	blocks   []*blocks.Entry
	err      error
	between  func() // called after each block was applied
}

func (s *script) EachChange(_ context.Context, since Position, apply func(Changes) error) error {
	s.since = append(s.since, since.Revision)
	now := s.steps[len(s.since)-1]
	if now.revision == since.Revision {
		return now.err
	}
	return apply(Changes{Position: Position{Revision: now.revision}, Entries: now.each()})
}

func (s step) each() iter.Seq2[*blocks.Entry, error] {
	return func(yield func(*blocks.Entry, error) bool) {
		for _, b := range s.blocks {
			if !yield(b, nil) {
				return
			}
			if s.between != nil {
				s.between()
			}
		}
		if s.err != nil {
			yield(nil, s.err)
		}
	}
}

var errBroken = errors.New("the connection broke")

func blockOf(t *testing.T, text string) *blocks.Entry {
	t.Helper()
	p, err := keys.Parser{}.Pattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return &blocks.Entry{Kind: blocks.Block, ID: text, Pattern: p}
}

func refuses(t *testing.T, c *Catalog, text string) bool {
	t.Helper()
	k, err := keys.Parser{}.Key(text)
	if err != nil {
		t.Fatal(err)
	}
	return c.Blocks().Match(k, time.Now()).Block != nil
}

func TestInterruptedFirstLoadLeavesNoEndedEntries(t *testing.T) {
	source := &script{steps: []step{
		{revision: 5, blocks: []*blocks.Entry{blockOf(t, "token:ended"), blockOf(t, "token:active")}, err: errBroken},
		{revision: 6, blocks: []*blocks.Entry{blockOf(t, "token:active")}},
	}}
	c := New(source, time.Now)
	if err := c.Refresh(t.Context()); !errors.Is(err, errBroken) || c.Loaded() {
		t.Fatalf("an interrupted load: got the error %v, loaded %t", err, c.Loaded())
	}
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if refuses(t, c, "token:ended") || !refuses(t, c, "token:active") {
		t.Errorf("ended refuses: %t, active refuses: %t", refuses(t, c, "token:ended"), refuses(t, c, "token:active"))
	}
}

func TestInterruptedRefreshIsRepeatedFromItsStart(t *testing.T) {
	added := blockOf(t, "token:late")
	source := &script{steps: []step{
		{revision: 5, blocks: []*blocks.Entry{blockOf(t, "token:old")}},
		{revision: 7, err: errBroken},
		{revision: 7, blocks: []*blocks.Entry{added}},
	}}
	c := New(source, time.Now)
	for range source.steps {
		_ = c.Refresh(t.Context())
	}
	if source.since[1] != 5 || source.since[2] != 5 {
		t.Errorf("EachChange was called with the revisions %v, want 5 again after the error", source.since)
	}
	if !refuses(t, c, "token:old") || !refuses(t, c, "token:late") || c.Revision() != 7 {
		t.Errorf("old refuses: %t, late refuses: %t, revision %d", refuses(t, c, "token:old"), refuses(t, c, "token:late"), c.Revision())
	}
}

func TestNextRefreshRepeatsAFailedReload(t *testing.T) {
	source := &script{steps: []step{
		{revision: 5, blocks: []*blocks.Entry{blockOf(t, "token:gone")}},
		{revision: 9, err: errBroken},
		{revision: 9, blocks: []*blocks.Entry{blockOf(t, "token:restored")}},
	}}
	c := New(source, time.Now)
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(t.Context()); !errors.Is(err, errBroken) {
		t.Fatalf("the reload returned %v", err)
	}
	if !refuses(t, c, "token:gone") {
		t.Error("a failed reload drops the last known state")
	}
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if source.since[2] != 0 {
		t.Errorf("the refresh after a failed reload reads from revision %d, want 0", source.since[2])
	}
	if refuses(t, c, "token:gone") || !refuses(t, c, "token:restored") {
		t.Errorf("gone refuses: %t, restored refuses: %t", refuses(t, c, "token:gone"), refuses(t, c, "token:restored"))
	}
}

func TestExpiredBlockRefusesAgainAfterTheClockIsSetBack(t *testing.T) {
	right := time.Now()
	lasting, short := blockOf(t, "token:lasting"), blockOf(t, "token:short")
	short.Expires = right.Add(time.Hour)
	all := []*blocks.Entry{lasting, short}
	source := &script{steps: []step{{revision: 5, blocks: all}, {revision: 5, blocks: all}, {revision: 5}, {revision: 5}}}
	clock := right.Add(24 * time.Hour) // like that of a machine that has not contacted a time server yet
	c := New(source, func() time.Time { return clock })
	for _, ahead := range []time.Duration{24 * time.Hour, 0, time.Minute, time.Minute - time.Millisecond} {
		clock = right.Add(ahead)
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !refuses(t, c, "token:lasting") || refuses(t, c, "token:short") != (ahead < time.Hour) {
			t.Errorf("%v ahead: lasting refuses: %t, short refuses: %t", ahead, refuses(t, c, "token:lasting"), refuses(t, c, "token:short"))
		}
	}
	if source.since[1] != 0 || source.since[2] != 5 || source.since[3] != 5 {
		t.Errorf("EachChange was called with the revisions %v, want 0 once, after the clock was set back far", source.since)
	}
}

func TestBlockRefusesWhileItIsReplaced(t *testing.T) {
	before := blockOf(t, "token:abc")
	before.ID, before.Revision = "before", 5
	ended, after := *before, *before
	ended.Revision, ended.End = 6, blocks.EndingOf(time.Now(), "")
	after.ID, after.Revision = "after", 6
	for name, order := range map[string][]*blocks.Entry{"the old first": {&ended, &after}, "the new first": {&after, &ended}} {
		t.Run(name, func(t *testing.T) {
			source := &script{steps: []step{{revision: 5, blocks: []*blocks.Entry{before}}, {revision: 6, blocks: order}}}
			c := New(source, time.Now)
			source.steps[1].between = func() {
				if !refuses(t, c, "token:abc") {
					t.Error("the key is not refused while its block is replaced")
				}
			}
			for range source.steps {
				if err := c.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if !refuses(t, c, "token:abc") {
				t.Error("the key is not refused after its block was replaced")
			}
		})
	}
}
