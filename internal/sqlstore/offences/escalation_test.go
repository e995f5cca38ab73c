package offences_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

func automaticBlocks(t testing.TB, s *sqlstore.Store) []*blocks.Entry {
	t.Helper()
	page, err := s.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, State: "all", Source: blocks.Automatic})
	if err != nil {
		t.Fatal(err)
	}
	return page.Items
}

func TestEscalationBlocksOnceForOffencesOnTwoNodes(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		second := f.Store
		if f.URL[0] == 'p' { // an SQLite file belongs to one node
			second = f.Another(t)
		}
		nodes := []*counting{newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation()), newCounting(t, second.Offences, f.Clock, "b", storetest.Escalation())}
		for range 6 { // 12 in total: 10 reach the threshold, and no node counts more than 6
			var both sync.WaitGroup
			for _, n := range nodes {
				n.limited("ip:203.0.113.7", 1)
				both.Go(func() {
					if err := n.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			both.Wait()
		}
		made := automaticBlocks(t, f.Store)
		if len(made) != 1 {
			t.Fatalf("%d blocks were added, want 1", len(made))
		}
		b := made[0]
		if b.Pattern.String() != "ip:203.0.113.7" || b.PolicyID != 7 || b.Level != 1 || b.Author != "escalation" || !b.Expires.Equal(f.Clock.Now().Add(10*time.Minute)) {
			t.Errorf("got %+v", b)
		}
		if received := len(nodes[0].events) + len(nodes[1].events); received != 1 {
			t.Errorf("the nodes received %d events, want 1", received)
		}
		entries, err := f.Audit.FindRecords(t.Context(), audit.Filter{Action: "block.add"})
		if err != nil || len(entries.Records) != 1 || entries.Records[0].Actor != audit.SystemActor("escalation") {
			t.Errorf("got the audit records %+v, %v", entries, err)
		}
	})
}

func TestEscalationBlocksInScopeOfPolicyAndSkipsNetworks(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		n.policy.Scope, n.policy.Also = "login", rules.Also{{Name: rules.Network, Bits: 24}}
		n.limited("ip:203.0.113.7", 10)
		n.limited("net:203.0.113.0/24", 10)
		n.flush()
		made := automaticBlocks(t, f.Store)
		if len(made) != 1 || made[0].Pattern.String() != "ip:203.0.113.7" || made[0].Scope != "login" {
			t.Errorf("blocked %+v, want ip:203.0.113.7 in the scope login", made)
		}
	})
}

func TestFirstBlocksOfAnEscalationMayChallenge(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		n.policy.Escalation.ChallengeLevels = 1
		for _, want := range []blocks.Action{blocks.Challenge, blocks.Refuse} {
			n.limited("k:x", 10)
			n.flush()
			b := automaticBlocks(t, f.Store)[0]
			if b.Action != want || !b.Created.Time().Equal(f.Clock.Now()) {
				t.Errorf("the newest block is %+v, want the action %q", b, want)
			}
			f.Clock.Advance(b.Expires.Sub(b.Created.Time()))
		}
	})
}

// Who has a pass goes on under a block that challenges. What they do then leads to the next level at once,
// whether the escalation challenges them or an operator does.
func TestEscalationGoesOnWhileItChallenges(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		n.policy.Escalation.ChallengeLevels = 2
		if _, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, blocks.Entry{Kind: blocks.Block, Pattern: keytest.Pattern(t, "ip:203.0.113.0/24"), EntryTerms: wire.EntryTerms{Action: blocks.Challenge}, Reason: "scraping"}); err != nil {
			t.Fatal(err)
		}
		for i, want := range []blocks.Action{blocks.Challenge, blocks.Challenge, blocks.Refuse} {
			n.limited("ip:203.0.113.7", 10)
			n.flush()
			all := automaticBlocks(t, f.Store)
			if len(all) != i+1 || all[0].Action != want || all[0].Level != i+1 {
				t.Fatalf("after %d times the threshold there are %d blocks, the newest %+v", i+1, len(all), all[0])
			}
			for _, ended := range all[1:] {
				if ended.Ended().IsZero() || ended.EndedBy() != "escalation" {
					t.Errorf("the challenge of level %d is not ended: %+v", ended.Level, ended)
				}
			}
			f.Clock.Advance(2 * time.Minute)
		}
		n.limited("ip:203.0.113.7", 10)
		n.flush()
		if all := automaticBlocks(t, f.Store); len(all) != 3 || !all[0].Ended().IsZero() {
			t.Errorf("a block that refuses is replaced: %+v", all)
		}
	})
}

// A challenge of exactly the key that an operator or another policy made is not replaced. It suspends the
// escalation, whose offences count from its end.
func TestChallengeOfOthersSuspendsEscalation(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n, other := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation()), newCounting(t, f.Offences, f.Clock, "b", storetest.Escalation())
		other.policy.ID, other.policy.Name = 8, "other"
		other.policy.Escalation.ChallengeLevels = 1
		operators, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, blocks.Entry{Kind: blocks.Block, Pattern: keytest.Pattern(t, "ip:203.0.113.7"), EntryTerms: wire.EntryTerms{Action: blocks.Challenge}})
		if err != nil {
			t.Fatal(err)
		}
		other.limited("ip:203.0.113.8", 10)
		other.flush()
		revision := func() int64 { return storetest.ChangesSince(t, f.Store, 0).Revision }
		challenged := []string{"ip:203.0.113.7", "ip:203.0.113.8"}
		before := revision()
		for range 3 {
			for _, key := range challenged {
				n.limited(key, 10)
			}
			n.flush()
			f.Clock.Advance(time.Second)
		}
		all := automaticBlocks(t, f.Store)
		if len(all) != 1 || all[0].PolicyID != 8 || !all[0].Ended().IsZero() || len(n.events) > 0 || revision() != before {
			t.Fatalf("under the challenges of others there are %+v, the events %+v and the revision %d after %d", all, n.events, revision(), before)
		}
		if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "", operators[0].Entry.ID); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(time.Minute)
		for _, key := range challenged {
			n.limited(key, 10)
		}
		n.flush()
		if all := automaticBlocks(t, f.Store); len(all) != 2 || all[0].Pattern.String() != "ip:203.0.113.7" || all[0].PolicyID != 7 || all[0].Level != 1 {
			t.Errorf("after the end of the operator's challenge there are %+v", all)
		}
	})
}

func TestEscalationLengthensBlocksAndDecaysLevels(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		s := service(f, n.policy)
		offend := func() time.Duration {
			t.Helper()
			n.limited("k:x", 10)
			n.flush()
			b := automaticBlocks(t, f.Store)[0]
			if !b.Created.Time().Equal(f.Clock.Now()) {
				t.Fatalf("no block was added; the newest was created at %s", b.Created.Time())
			}
			return b.Expires.Sub(b.Created.Time())
		}
		for i, want := range []time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute, 30 * time.Minute} {
			if got := offend(); got != want {
				t.Errorf("block %d lasts %s, want %s", i+1, got, want)
			}
			f.Clock.Advance(want)
		}
		status := func() *offences.EscalationStatus {
			t.Helper()
			k, _ := keys.Parser{}.Key("k:x")
			at, _, err := s.EscalationStatus(t.Context(), k)
			if err != nil || at == nil {
				t.Fatalf("%v, %v", at, err)
			}
			return at
		}
		at := status()
		if at.Level != 4 || at.Levels != 3 || at.Next != 30*time.Minute || at.Count != 0 || !at.DecaysAt.Equal(f.Clock.Now().Add(time.Hour)) {
			t.Errorf("got the status %+v, want level 4", at)
		}
		f.Clock.Advance(2*time.Hour + time.Minute)
		if at := status(); at.Level != 2 || at.Next != 30*time.Minute {
			t.Errorf("got the status %+v after two decay periods, want level 2", at)
		}
		f.Clock.Advance(time.Hour)
		if got := offend(); got != 20*time.Minute {
			t.Errorf("the block after three decay periods lasts %s, want 20m", got)
		}
	})
}

func TestEscalationCountsOnlyOffencesAfterLastBlock(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		n.limited("k:x", 10)
		n.flush()
		n.limited("k:x", 50) // another node had not loaded the block yet
		n.flush()
		b := automaticBlocks(t, f.Store)[0]
		n.record(gate.Blocked, "k:x", 100, b)
		n.flush()
		f.Clock.Advance(10 * time.Minute)
		n.limited("k:x", 9)
		n.flush()
		if got := len(automaticBlocks(t, f.Store)); got != 1 {
			t.Fatalf("%d blocks after nine more offences, want 1", got)
		}
		n.limited("k:x", 1)
		n.flush()
		if got := automaticBlocks(t, f.Store); len(got) != 2 || got[0].Level != 2 {
			t.Fatalf("%d blocks after the tenth offence, want 2", len(got))
		}
		// Ended immediately: earlier offences do not count again.
		if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "a partner", automaticBlocks(t, f.Store)[0].ID); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(time.Second)
		n.limited("k:x", 9)
		n.flush()
		if got := len(automaticBlocks(t, f.Store)); got != 2 {
			t.Fatalf("%d blocks after nine offences since the end of the block, want 2", got)
		}
		n.limited("k:x", 1)
		n.flush()
		if got := automaticBlocks(t, f.Store); len(got) != 3 || got[0].Level != 3 {
			t.Errorf("%d blocks after the tenth offence, want 3", len(got))
		}
	})
}

func TestEscalationIgnoresOffencesBeforeOperatorsBlock(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		n.limited("ip:203.0.113.7", 9)
		n.flush()
		if _, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, blocks.Entry{Kind: blocks.Block, Pattern: keytest.Pattern(t, "ip:203.0.113.0/24"), Expires: f.Clock.Now().Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(2 * time.Minute)
		n.limited("ip:203.0.113.7", 9)
		n.flush()
		if got := len(automaticBlocks(t, f.Store)); got != 0 {
			t.Errorf("%d automatic blocks, want none for offences from before the operator's block", got)
		}
		n.limited("ip:203.0.113.7", 1)
		n.flush()
		if got := len(automaticBlocks(t, f.Store)); got != 1 {
			t.Errorf("%d automatic blocks after ten offences since, want 1", got)
		}
	})
}

func TestEscalationWindowCoversWholeMinutes(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		n.limited("k:within", 5)
		n.limited("k:beyond", 5)
		n.flush()
		f.Clock.Advance(5 * time.Minute)
		n.limited("k:within", 5)
		n.flush()
		f.Clock.Advance(time.Minute)
		n.limited("k:beyond", 5)
		n.flush()
		if got := automaticBlocks(t, f.Store); len(got) != 1 || got[0].Pattern.String() != "k:within" {
			t.Errorf("got %v", got)
		}
	})
}

func TestEscalationSkipsExemptAndOvercountedKeys(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		n.exempt["k:exempt"] = true
		n.limited("k:exempt", 50)
		n.flush()
		guess := &offences.Batch{ID: "guess", Offences: []offences.Offence{
			{Minute: f.Clock.Now().UnixMilli(), Policy: 7, Key: "k:guess", RefusedBy: "1/1s", Count: 9, Overcount: 1000, First: offences.Refusal{At: f.Clock.Now().UnixMilli()}},
			{Minute: f.Clock.Now().UnixMilli(), Policy: 7, RefusedBy: offences.Other, Count: 5000},
		}}
		e := offences.Evaluation{Escalations: offences.EscalationsOf([]*rules.Policy{n.policy}), SafetyLimit: n.safetyLimit, Now: f.Clock.Now()}
		if _, err := f.Offences.Flush(t.Context(), guess, e); err != nil {
			t.Fatal(err)
		}
		if got := automaticBlocks(t, f.Store); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	})
}

func TestShadowPolicyRecordsEscalationThatWouldBlock(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		n.policy.Mode = rules.Shadow
		n.limited("k:x", 25)
		n.flush()
		n.limited("k:x", 25) // during the block that would have been added
		n.flush()
		if got := automaticBlocks(t, f.Store); len(got) != 0 {
			t.Errorf("a shadow policy added the blocks %v", got)
		}
		events, _, err := f.Offences.EscalationEvents(t.Context(), offences.EscalationFilter{Key: "k:x"})
		if err != nil || len(events) != 1 || events[0].Kind != offences.EscalationWouldBlock || events[0].Length != 10*time.Minute || events[0].Offences != 25 {
			t.Errorf("got %+v, %v", events, err)
		}
	})
}
