package offences_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/test/storetest"
)

// An attack is seen by two nodes, and one of them announces each of its news. The other one goes
// on when the first has died.
func TestEachNewsOfAnAttackIsAnnouncedByOneNodeWithinAMinute(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		d := service(f, n.policy)
		d.Attacks = f.Attacks
		var news []admin.AttackNews
		announce := func(_ context.Context, one admin.AttackNews) { news = append(news, one) }
		first := &admin.AttackWatch{Detection: d, Holder: "first", Announce: announce}
		second := &admin.AttackWatch{Detection: d, Holder: "second", Announce: announce}
		// pass counts refusals for some time, and the given nodes look every ten seconds.
		pass := func(length time.Duration, key string, watches ...*admin.AttackWatch) {
			t.Helper()
			for end := f.Clock.Now().Add(length); f.Clock.Now().Before(end); f.Clock.Advance(admin.AttackLookInterval) {
				if key != "" {
					n.limited(key, 700)
				}
				n.flush()
				for _, w := range watches {
					if err := w.Look(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		whats := func() (all []offences.News) {
			for _, one := range news {
				all = append(all, one.What)
			}
			return all
		}
		pass(2*time.Minute, "", first, second)
		if len(news) > 0 {
			t.Fatalf("without an attack: %v", whats())
		}
		began := f.Clock.Now()
		pass(50*time.Second, "ip:203.0.113.7", first, second)
		if !slices.Equal(whats(), []offences.News{offences.AttackBegan}) || !first.IsActive() || !second.IsActive() {
			t.Fatalf("within a minute: %v, active on the first node %t, on the second %t", whats(), first.IsActive(), second.IsActive())
		}
		pass(time.Minute, "ip:203.0.113.7", first, second)
		// The first node dies. The lease ends by the clock of the database, which no test advances.
		if err := f.Jobs.ReleaseLease(t.Context(), "attacks", "first"); err != nil {
			t.Fatal(err)
		}
		pass(6*time.Minute, "ip:198.51.100.9", second)
		if !slices.Equal(whats(), []offences.News{offences.AttackBegan, offences.SourceChanged}) {
			t.Fatalf("with another source: %v", whats())
		}
		pass(10*time.Minute, "", second, first)
		if !slices.Equal(whats(), []offences.News{offences.AttackBegan, offences.SourceChanged, offences.AttackEnded}) || second.IsActive() {
			t.Fatalf("after its end: %v", whats())
		}

		page, next, err := d.FindAttacks(t.Context(), "", 10)
		if err != nil || len(page) != 1 || next != "" {
			t.Fatalf("%d attacks, %q, %v", len(page), next, err)
		}
		a := page[0]
		if a.Began.Sub(began).Abs() > time.Minute || a.Ended.Before(a.Began.Add(7*time.Minute)) || a.Ended.After(a.Began.Add(11*time.Minute)) ||
			a.Peak < 60 || a.Refused != 47*700 || len(a.Sources) != 2 || a.Sources[0].Pattern != "ip:203.0.113.7" || a.Sources[1].Pattern != "ip:198.51.100.9" || a.Sources[0].Rule != "20/1m" {
			t.Errorf("the attack that began at %v is stored as %+v", began, a)
		}
		records, err := f.Audit.FindRecords(t.Context(), audit.Filter{Object: "attack", Limit: 10})
		if err != nil || len(records.Records) != 3 || records.Records[2].Action != "attack.begin" || records.Records[0].Actor.Kind != audit.System {
			t.Errorf("the audit has %d records of it: %v", len(records.Records), err)
		}
	})
}

// Two nodes may look at the same moment if one was stopped beyond its lease.
func TestAttackIsStoredOnceWhenTwoNodesAreSure(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		now := f.Clock.Now()
		save := func(before, course *offences.AttackCourse, news offences.News) bool {
			t.Helper()
			saved, err := f.Attacks.SaveAttack(t.Context(), before, course, news, "News.")
			if err != nil {
				t.Fatal(err)
			}
			return saved
		}
		if !save(nil, &offences.AttackCourse{Began: now, Seen: now}, offences.AttackBegan) || save(nil, &offences.AttackCourse{Began: now, Seen: now}, offences.AttackBegan) {
			t.Fatal("not exactly one of two beginnings was stored")
		}
		open, err := f.Attacks.OpenAttack(t.Context())
		if err != nil || open == nil {
			t.Fatal(open, err)
		}
		on := *open
		on.Seen = now.Add(10 * time.Second)
		ended := *open
		ended.Ended = now
		if !save(open, &on, offences.NoNews) || save(open, &ended, offences.AttackEnded) {
			t.Error("not exactly one of two courses was stored")
		}
		if !save(&on, &ended, offences.AttackEnded) {
			t.Error("the end was not stored")
		}
		if open, err := f.Attacks.OpenAttack(t.Context()); open != nil || err != nil {
			t.Errorf("after the end: %+v, %v", open, err)
		}
		if deleted, err := f.Retention.DeleteAttacks(t.Context(), now.Add(time.Hour)); deleted != 1 || err != nil {
			t.Errorf("%d attacks were deleted, %v", deleted, err)
		}
	})
}

// A policy that refuses only in attacks refuses everybody, also who did nothing. If that always counted,
// the attack would never end; if it never did, who attacks would be let in each few minutes. When the database is away, nobody knows whether an attack goes on, and the
// policy refuses nobody.
func TestRefusalsByPoliciesForAttacksProlongAnAttackForATime(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ordinary := newCounting(t, f.Offences, f.Clock, "a", nil)
		strict := newCounting(t, f.Offences, f.Clock, "b", nil)
		strict.policy.ID, strict.policy.Name, strict.policy.InAttack = 8, "strict", true
		d := service(f, ordinary.policy, strict.policy)
		d.Attacks = f.Attacks
		var news []offences.News
		on := false
		w := &admin.AttackWatch{Detection: d, Holder: "first", Announce: func(_ context.Context, one admin.AttackNews) { news = append(news, one.What) }, Apply: func(is bool) { on = is }}
		look := func(ctx context.Context) error {
			ordinary.flush()
			strict.flush()
			err := w.Look(ctx)
			f.Clock.Advance(admin.AttackLookInterval)
			return err
		}
		refuse := func(length time.Duration, record func()) {
			t.Helper()
			for end := f.Clock.Now().Add(length); f.Clock.Now().Before(end); {
				record()
				if err := look(t.Context()); err != nil {
					t.Fatal(err)
				}
				if length > 10*time.Minute { // where nothing is to change, less often
					f.Clock.Advance(2 * admin.AttackLookInterval)
				}
			}
		}
		pass := func(length time.Duration, of *counting) {
			t.Helper()
			refuse(length, func() { of.limited("ip:203.0.113.7", 700) })
		}
		pass(time.Minute, strict)
		if len(news) > 0 || on {
			t.Fatalf("refusals of the policy alone are %v", news)
		}
		pass(time.Minute, ordinary)
		if !slices.Equal(news, []offences.News{offences.AttackBegan}) || !on {
			t.Fatalf("refusals of others are %v, in force %t", news, on)
		}
		d.Lists = f.BlockSources
		for _, l := range []blocks.List{{Name: "tor", As: blocks.AsAttack}, {Name: "waits", As: blocks.AsAttack}, {Name: "bad", As: blocks.AsBlock}} {
			l.URL, l.Every = "https://lists.example.com/"+l.Name, time.Hour
			if err := f.BlockSources.AddList(t.Context(), storetest.Operator, l); err != nil {
				t.Fatal(err)
			}
			if err := f.BlockSources.SetListState(t.Context(), l.Name, blocks.ListState{Rows: map[string]int{"tor": 3, "bad": 3}[l.Name]}); err != nil {
				t.Fatal(err)
			}
		}
		if m, err := d.InForce(t.Context()); err != nil || !slices.Equal(m.Policies, []string{"strict"}) || !slices.Equal(m.Sources, []string{"tor"}) {
			t.Errorf("in force are %+v, %v", m, err)
		}
		pass(29*time.Minute, strict)
		if !slices.Equal(news, []offences.News{offences.AttackBegan}) || !on {
			t.Fatalf("refusals of the policy alone go on as %v, in force %t", news, on)
		}
		pass(time.Minute, ordinary) // the attacker comes through again: the half hour begins again
		pass(29*time.Minute, strict)
		if !slices.Equal(news, []offences.News{offences.AttackBegan}) || !on {
			t.Fatalf("after other refusals in between: %v, in force %t", news, on)
		}
		pass(6*time.Minute, strict)
		if !slices.Equal(news, []offences.News{offences.AttackBegan, offences.AttackEnded}) || on {
			t.Fatalf("refusals of the policy alone for longer go on as %v, in force %t", news, on)
		}
		if m, err := d.InForce(t.Context()); err != nil || len(m.Policies)+len(m.Sources) > 0 {
			t.Errorf("after the attack in force are %+v, %v", m, err)
		}

		pass(time.Minute, ordinary)
		if !on {
			t.Fatal("a second attack puts nothing in force")
		}
		row := storetest.NewBlock(t, "ip:203.0.113.0/24", time.Time{})
		row.Source, row.Scope = blocks.Listed, blocks.AttackScope
		listed := func(length time.Duration) {
			t.Helper()
			refuse(length, func() { ordinary.record(gate.Blocked, "ip:203.0.113.7", 700, &row) })
		}
		listed(29 * time.Minute)
		if !on {
			t.Fatal("refusals by a list for attacks prolong none")
		}
		listed(6 * time.Minute)
		if on {
			t.Fatal("refusals by a list for attacks go on as one")
		}
		pass(time.Minute, ordinary)
		for range 5 * 6 { // the attacker has gone
			if err := look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if on {
			t.Fatal("an attack goes on without any refusals")
		}
		pass(time.Minute, ordinary)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range 7 {
			if err := look(gone); err == nil {
				t.Fatal("the database answered")
			}
			if want := i < 5; on != want {
				t.Errorf("%d looks without the database: in force %t, want %t", i+1, on, want)
			}
		}
	})
}
