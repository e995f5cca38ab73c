package demo

import (
	"context"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore"
)

// The same minute is the same for each demo that begins then, so that pictures of it can be made again.
func TestAMinuteIsTheSameEachTime(t *testing.T) {
	began := time.Date(2026, 11, 29, 15, 0, 0, 0, time.UTC)
	of := func(minute time.Time) (all []request) {
		arrivals(minute, began, func(r request) { all = append(all, r) })
		return all
	}
	if a, b := of(began), of(began); len(a) == 0 || !reflect.DeepEqual(a, b) {
		t.Errorf("%d and %d requests, not the same", len(a), len(b))
	}
	if reflect.DeepEqual(of(began), of(began.Add(time.Minute))) {
		t.Error("two minutes are the same")
	}
}

// What the demo shows is there after its history: an attack, blocks that were earned and one by hand,
// a proposal, every policy that refuses, and holds that the live clients settle.
func TestHistoryHasWhatTheDemoShows(t *testing.T) {
	ctx, now := t.Context(), time.Date(2026, 11, 25, 15, 0, 10, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "stint.db")
	d, err := Fill(ctx, Files{path, filepath.Join(t.TempDir(), "logs")}, func() time.Time { return now }, time.Hour, func(context.Context, *sqlstore.Store) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.Open(ctx, path, sqlstore.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	view := catalog.New(store, func() time.Time { return now })
	if err := view.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]gate.Outcome{"ip:203.0.113.70": gate.Blocked, "key:old-partner": gate.Blocked, "ip:198.51.100.20": gate.Allowed} {
		key, err := d.parser.Key(text)
		if err != nil {
			t.Fatal(err)
		}
		got := gate.Allowed
		if view.Blocks().Match(key, now).Refuses() {
			got = gate.Blocked
		}
		if got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	attack, err := store.Attacks.OpenAttack(ctx)
	if err != nil || attack == nil {
		t.Errorf("there is no attack: %v", err)
	}
	rules, err := store.Offences.RuleTotals(ctx, offences.Span{From: now.Add(-time.Hour), To: now.Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	refusing := map[string]bool{}
	for _, r := range rules {
		if p, found := view.Selector().ByID(r.Policy); found {
			refusing[p.Name] = true
		}
	}
	for _, name := range []string{"products", "api", "models", "suspicion"} {
		if !refusing[name] {
			t.Errorf("the policy %s has refused nothing", name)
		}
	}
	holds := 0
	for _, r := range d.waiting {
		if r.Handle != "" {
			holds++
		}
	}
	if holds == 0 {
		t.Error("no hold is open")
	}
}
