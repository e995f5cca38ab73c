package offences_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

// A node that did not reach the database for a while writes offences that are older than those
// that another node has written of the same key.
func TestOffencesOutsideOneWindowDoNotEscalateTogether(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		late, prompt := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation()), newCounting(t, f.Offences, f.Clock, "b", storetest.Escalation())
		late.limited("k:x", 4)
		late.limited("k:all late", 10)
		f.Clock.Advance(30 * time.Minute)
		prompt.limited("k:x", 6)
		prompt.limited("k:all late", 1)
		prompt.flush()
		late.flush()
		if made := automaticBlocks(t, f.Store); len(made) != 1 || made[0].Pattern.String() != "k:all late" {
			t.Errorf("%d keys are blocked, want only the one with 10 offences in a minute: the others are half an hour apart", len(made))
		}
		prompt.limited("k:x", 4)
		prompt.flush()
		if made := automaticBlocks(t, f.Store); len(made) != 2 {
			t.Errorf("%d blocks, want a second one for 10 offences in a minute", len(made))
		}
	})
}

// The batches are of different minutes: those of one minute wait for each other's counts.
func TestSafetyLimitHoldsForNodesThatFlushAtOnce(t *testing.T) {
	f := storetest.OpenPostgres(t)
	var nodes [4]*sqlstore.Store
	for i := range nodes {
		nodes[i] = f.Another(t)
	}
	blocked := 0
	for round := range 3 {
		var flushing sync.WaitGroup
		for node, store := range nodes {
			at := f.Clock.Now().Add(time.Duration(node) * time.Minute)
			flushing.Go(func() {
				e := storetest.EvaluationAt(f)
				e.Now, e.SafetyLimit = at, 0.1
				b := storetest.CrossingBatch(fmt.Sprint(round, "-", node), 8, at)
				for i := range b.Offences { // each a unit of the safety limit
					b.Offences[i].Key = fmt.Sprintf("token:%d-%d-%d", round, node, i)
				}
				if _, err := store.Offences.Flush(t.Context(), b, e); err != nil {
					t.Error(err)
				}
			})
		}
		flushing.Wait()
		blocked = len(automaticBlocks(t, f.Store))
	}
	pauses, err := f.Offences.EscalationPauses(t.Context())
	if blocked != 8 || err != nil || len(pauses) != 1 {
		t.Errorf("%d keys are blocked, want 8, since the safety limit is 10; the pauses are %+v, %v", blocked, pauses, err)
	}
}

// A policy with a scope blocks in that scope, so an operator's block in that scope ends like one of
// every check: what came before does not count after it.
func TestOffencesBeforeBlockInScopeDoNotCountAfterIt(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		n.policy.Scope = "login"
		keys := []string{"k:same", "k:other", "k:all"}
		for _, k := range keys {
			n.limited(k, 9)
		}
		n.flush()
		for i, scope := range []string{"login", "upload", ""} {
			added, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, blocks.Entry{Kind: blocks.Block, EntryTerms: wire.EntryTerms{Scope: scope}, Pattern: keytest.Pattern(t, keys[i])})
			if err != nil {
				t.Fatal(err)
			}
			f.Clock.Advance(time.Minute)
			if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "", added[0].Entry.ID); err != nil {
				t.Fatal(err)
			}
		}
		f.Clock.Advance(time.Minute)
		for _, k := range keys {
			n.limited(k, 1)
		}
		n.flush()
		if made := automaticBlocks(t, f.Store); len(made) != 1 || made[0].Pattern.String() != "k:other" {
			t.Errorf("%d blocks were added, want only that of k:other, which had no block in the scope login", len(made))
		}
	})
}
