package profiles_test

import (
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/storetest"
)

const hostile = `token:"><script>`

// format returns a profile as "plan labels note rules".
func format(p *profiles.Profile) string {
	if p == nil {
		return "none"
	}
	text := fmt.Sprintf("%s %s %s", p.Plan, strings.Join(p.Labels, "+"), p.Note)
	if p.Limit != nil {
		text += " " + p.Limit.Rules.String()
	}
	return strings.TrimSpace(text)
}

func limit(t *testing.T, text string, expires time.Time) *profiles.Limit {
	t.Helper()
	stack, err := rules.ParseStack([]string{text})
	if err != nil {
		t.Fatal(err)
	}
	return &profiles.Limit{Rules: stack, Reason: "launch", Expires: expires}
}

func rows(all ...profiles.Profile) iter.Seq2[*profiles.Profile, error] {
	return func(yield func(*profiles.Profile, error) bool) {
		for _, p := range all {
			if !yield(&p, nil) {
				return
			}
		}
	}
}

// TestProfileChangesAreUndone makes each change, checks the store and a node's catalog, undoes
// the change and undoes the undo.
func TestProfileChangesAreUndone(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx, s := t.Context(), f.Profiles
		node := catalog.New(f.Store, f.Clock.Now)
		check := func(want string) {
			t.Helper()
			p, err := s.FindProfile(ctx, hostile)
			if err != nil || format(p) != want {
				t.Fatalf("the profile is %q, want %q: %v", format(p), want, err)
			}
			if err := node.Refresh(ctx); err != nil {
				t.Fatal(err)
			}
			k, _ := keys.Parser{}.Key(hostile)
			m := node.Profiles().Find(k)
			if p == nil || p.Plan == "" && p.Limit == nil {
				if m != nil {
					t.Errorf("the node has %+v, want no profile for a key without a plan and a limit", m)
				}
			} else if m == nil || m.Plan != p.Plan || !m.Limit.Equal(p.Limit) {
				t.Errorf("the node has %+v, and the database %s", m, format(p))
			}
		}
		undo := func() {
			t.Helper()
			if _, err := f.Undo(ctx, storetest.Operator, storetest.NewestRecord(t, f).ID); err != nil {
				t.Fatal(err)
			}
		}
		check("none")
		for _, c := range []struct {
			change       func() error
			before, want string
			action       string
		}{
			{func() error {
				_, err := s.PutProfile(ctx, storetest.Operator, profiles.Profile{Key: hostile, Plan: "gold", Labels: []string{"a", "b"}, Note: "n"}, etag.Any)
				return err
			}, "none", "gold a+b n", "profile.set"},
			{func() error {
				_, err := s.PutLimit(ctx, storetest.Operator, hostile, limit(t, "5/s", f.Clock.Now().Add(time.Hour)))
				return err
			}, "gold a+b n", "gold a+b n 5/1s", "profile.limit"},
			{func() error {
				_, err := s.PutProfile(ctx, storetest.Operator, profiles.Profile{Key: hostile, Labels: []string{"c"}}, etag.Any)
				return err
			}, "gold a+b n 5/1s", "c  5/1s", "profile.set"},
			{func() error { _, err := s.EndLimit(ctx, storetest.Operator, hostile, "over"); return err }, "c  5/1s", "c", "profile.end_limit"},
			{func() error { _, err := s.DeleteProfile(ctx, storetest.Operator, hostile, etag.Any); return err }, "c", "none", "profile.delete"},
		} {
			if err := c.change(); err != nil {
				t.Fatal(c.action, err)
			}
			if e := storetest.NewestRecord(t, f); e.Action != c.action || e.Object != "profile" || e.ObjectID != hostile || strings.Contains(e.Summary, `token:">`) {
				t.Errorf("got the audit record %+v", e)
			}
			check(c.want)
			undo()
			check(c.before)
			undo()
			check(c.want)
		}
		if _, err := s.DeleteProfile(ctx, storetest.Operator, hostile, etag.Any); !fault.Is(err, fault.NotFound) {
			t.Errorf("DeleteProfile of an unknown key: got %v, want NotFound", err)
		}
		if _, err := s.EndLimit(ctx, storetest.Operator, hostile, ""); !fault.Is(err, fault.NotFound) {
			t.Errorf("EndLimit of an unknown key: got %v, want NotFound", err)
		}
		older := storetest.NewestRecord(t, f)
		if _, err := s.PutProfile(ctx, storetest.Operator, profiles.Profile{Key: hostile, Plan: "silver"}, etag.Any); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Undo(ctx, storetest.Operator, older.ID); !fault.Is(err, fault.Conflict) {
			t.Errorf("undoing a record of a profile that has changed since: got %v, want Conflict", err)
		}
		before := storetest.NewestRecord(t, f).ID
		if _, err := s.PutProfile(ctx, storetest.Operator, profiles.Profile{Key: hostile, Plan: "silver"}, etag.Any); err != nil || storetest.NewestRecord(t, f).ID != before {
			t.Errorf("putting an equal profile wrote a record: %v", err)
		}
	})
}

func TestProfilesLimitNumberOfPlans(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx, s := t.Context(), f.Profiles
		var all []profiles.Profile
		for i := range profiles.MaxPlans + 1 {
			all = append(all, profiles.Profile{Key: fmt.Sprintf("k:%04d", i), Plan: fmt.Sprintf("p%d", i)})
		}
		if _, err := s.ImportProfiles(ctx, storetest.Operator, rows(all...)); !fault.Is(err, fault.Invalid) {
			t.Fatalf("importing one plan too many: got %v, want Invalid", err)
		}
		if _, err := s.ImportProfiles(ctx, storetest.Operator, rows(all[1:]...)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.PutProfile(ctx, storetest.Operator, all[0], etag.Any); !fault.Is(err, fault.Invalid) {
			t.Errorf("putting one plan too many: got %v, want Invalid", err)
		}
		for _, known := range []profiles.Profile{{Key: "k:0000", Plan: "p7"}, {Key: "k:0000", Note: "no plan"}} {
			if _, err := s.PutProfile(ctx, storetest.Operator, known, etag.Any); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestImportAndFindProfiles(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx, s := t.Context(), f.Profiles
		if _, err := s.PutProfile(ctx, storetest.Operator, profiles.Profile{Key: "k:0000", Plan: "free"}, etag.Any); err != nil {
			t.Fatal(err)
		}
		if _, err := s.PutLimit(ctx, storetest.Operator, "k:0000", limit(t, "5/s", f.Clock.Now().Add(time.Minute))); err != nil {
			t.Fatal(err)
		}
		var all []profiles.Profile
		for i := range 4500 { // more than two batches of the import
			all = append(all, profiles.Profile{Key: fmt.Sprintf("k:%04d", i), Plan: []string{"free", "gold"}[i%2], Labels: []string{fmt.Sprint("n", i%3)}})
		}
		all[4499].Labels = []string{"last"}
		got, err := s.ImportProfiles(ctx, storetest.Operator, rows(all...))
		if err != nil || got != (profiles.ImportResult{Created: 4499, Replaced: 1}) {
			t.Fatalf("%+v, %v", got, err)
		}
		if again, err := s.ImportProfiles(ctx, storetest.Operator, rows(all...)); err != nil || again != (profiles.ImportResult{Unchanged: 4500}) {
			t.Errorf("importing again: got %+v, %v, want all unchanged", again, err)
		}
		if p, _ := s.FindProfile(ctx, "k:0000"); format(p) != "free n0  5/1s" {
			t.Errorf("the import changed the limit: %s", format(p))
		}
		for _, c := range []struct {
			f     profiles.Filter
			total int
		}{
			{profiles.Filter{}, 4500}, {profiles.Filter{Plan: "gold"}, 2250}, {profiles.Filter{Plan: "gold", Label: "n1"}, 750},
			{profiles.Filter{Label: "last"}, 1}, {profiles.Filter{Search: "K:449"}, 10}, {profiles.Filter{Limited: true}, 1},
			{profiles.Filter{Limited: true, At: f.Clock.Now().Add(time.Minute)}, 0}, {profiles.Filter{Plan: "none"}, 0},
		} {
			c.f.Limit = 1000
			seen := map[string]bool{}
			for {
				page, err := s.FindProfiles(ctx, c.f)
				if err != nil || page.Total != c.total {
					t.Fatalf("%+v: %d, %v", c.f, page.Total, err)
				}
				for _, p := range page.Items {
					seen[p.Key] = true
				}
				if c.f.Cursor = page.Next; page.Next == "" {
					break
				}
			}
			if len(seen) != c.total {
				t.Errorf("%+v: all pages have %d profiles, want %d", c.f, len(seen), c.total)
			}
		}
		if _, err := s.FindProfiles(ctx, profiles.Filter{Cursor: "!"}); !fault.Is(err, fault.Invalid) {
			t.Error(err)
		}
		if counts, err := s.CountPlans(ctx); err != nil || fmt.Sprint(counts) != "[{free 2250} {gold 2250}]" {
			t.Errorf("%v, %v", counts, err)
		}
		if some, err := s.FindProfilesByKey(ctx, []string{"k:0001", "k:none", "k:4499"}); err != nil || len(some) != 2 {
			t.Errorf("%v, %v", some, err)
		}
		if _, err := f.Undo(ctx, storetest.Operator, storetest.NewestRecord(t, f).ID); !fault.Is(err, fault.Conflict) {
			t.Errorf("undoing an import that replaced a profile: got %v, want Conflict", err)
		}
		if _, err := s.ImportProfiles(ctx, storetest.Operator, rows(profiles.Profile{Key: "new:1", Plan: "gold", Labels: []string{"x"}})); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Undo(ctx, storetest.Operator, storetest.NewestRecord(t, f).ID); err != nil {
			t.Fatal(err)
		}
		if p, err := s.FindProfile(ctx, "new:1"); p != nil || err != nil {
			t.Errorf("got the profile %s, %v after the import was undone, want none", format(p), err)
		}
		f.Clock.Advance(time.Hour)
		if _, err := f.Retention.DeleteEndedBefore(ctx, f.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		if page, err := f.Audit.FindRecords(ctx, audit.Filter{Object: "profile"}); err != nil || len(page.Records) != 5 {
			t.Errorf("got %d audit records, want 5; %v", len(page.Records), err)
		}
	})
}

// BenchmarkImport imports a hundred thousand new keys into SQLite.
func BenchmarkImport(b *testing.B) {
	f := storetest.Open(b, b.TempDir()+"/stint.db")
	for n := 0; b.Loop(); n++ {
		got, err := f.Profiles.ImportProfiles(b.Context(), storetest.Operator, func(yield func(*profiles.Profile, error) bool) {
			for i := range 100_000 {
				if !yield(&profiles.Profile{Key: fmt.Sprintf("token:%d:%d", n, i), Plan: "gold", Labels: []string{"region=eu"}}, nil) {
					return
				}
			}
		})
		if err != nil || got.Created != 100_000 {
			b.Fatal(got, err)
		}
	}
}

func TestPutProfileChecksETag(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx, s, by := t.Context(), f.Profiles, storetest.Operator
		gold, silver := profiles.Profile{Key: "token:a", Plan: "gold"}, profiles.Profile{Key: "token:a", Plan: "silver"}
		first, err := s.PutProfile(ctx, by, gold, etag.New)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.PutProfile(ctx, by, silver, etag.New); !fault.Is(err, fault.NeedVersion) {
			t.Errorf("putting a new profile a second time: got %v, want NeedVersion", err)
		}
		if same, err := s.PutProfile(ctx, by, gold, profiles.TagOf(first)); err != nil || profiles.TagOf(same) != profiles.TagOf(first) {
			t.Errorf("putting an equal profile: got %+v, %v, want the same tag", same, err)
		}
		second, err := s.PutProfile(ctx, by, silver, profiles.TagOf(first))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.PutProfile(ctx, by, gold, profiles.TagOf(first)); !fault.Is(err, fault.Outdated) {
			t.Errorf("a change with an old tag: got %v, want Outdated", err)
		}
		if _, err := s.DeleteProfile(ctx, by, "token:a", profiles.TagOf(first)); !fault.Is(err, fault.Outdated) {
			t.Errorf("deleting with an old tag: got %v, want Outdated", err)
		}
		if _, err := s.DeleteProfile(ctx, by, "token:a", profiles.TagOf(second)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.PutProfile(ctx, by, gold, profiles.TagOf(second)); !fault.Is(err, fault.NotFound) {
			t.Errorf("a change of a deleted profile: got %v, want NotFound", err)
		}
		if _, err := s.PutProfile(ctx, by, gold, etag.New); err != nil {
			t.Errorf("putting a deleted profile again: %v", err)
		}
	})
}
