package sqlstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
)

// newest returns the newest entry of the audit.
func newest(t testing.TB, f *fixture) *audit.Record {
	t.Helper()
	page, err := f.FindRecords(t.Context(), audit.Filter{Limit: 1})
	if err != nil || len(page.Records) != 1 {
		t.Fatalf("the newest entry: %v, %v", page.Records, err)
	}
	return page.Records[0]
}

// undo undoes the newest entry and returns the entry that this made.
func undo(t testing.TB, f *fixture) *audit.Record {
	t.Helper()
	id := newest(t, f).ID
	made, err := f.Undo(t.Context(), operator, id)
	if err != nil {
		t.Fatal(err)
	}
	if made.ID == id || made.Actor != operator || !strings.Contains(made.Summary, "This undoes entry") {
		t.Fatalf("undoing made the entry %+v", made)
	}
	return made
}

// standing returns the active blocks as "pattern reason seconds-to-its-end".
func standing(t testing.TB, f *fixture) string {
	t.Helper()
	var all []string
	for b, err := range f.Entries().Each(t.Context(), blocks.Filter{Kind: blocks.Block, At: f.clock.Now()}) {
		if err != nil {
			t.Fatal(err)
		}
		left := "for good"
		if !b.Expires.IsZero() {
			left = b.Expires.Sub(f.clock.Now()).String()
		}
		all = append(all, b.Pattern.String()+" "+b.Reason+" "+left)
	}
	return strings.Join(all, ", ")
}

func TestUndoEntry_of_blocks_brings_back_what_stood(t *testing.T) {
	reason := "else"
	for name, c := range map[string]struct {
		change       func(t *testing.T, f *fixture, b *blocks.Entry)
		before, want string
	}{
		"a lift, until the old end": {
			func(t *testing.T, f *fixture, b *blocks.Entry) {
				if _, err := f.Entries().End(t.Context(), operator, blocks.Block, "by mistake", b.ID); err != nil {
					t.Fatal(err)
				}
				f.clock.Advance(10 * time.Minute)
			}, "", "token:a scraping 50m0s",
		},
		"an addition": {
			func(t *testing.T, f *fixture, b *blocks.Entry) {
				add(t, f, block(t, "token:b", time.Time{}), blocks.Fail)
			},
			"token:b scraping for good, token:a scraping 1h0m0s", "token:a scraping 1h0m0s",
		},
		"an extension": {
			func(t *testing.T, f *fixture, b *blocks.Entry) {
				add(t, f, block(t, "token:a", f.clock.Now().Add(9*time.Hour)), blocks.Extend)
			},
			"token:a scraping 9h0m0s", "token:a scraping 1h0m0s",
		},
		"an edit": {
			func(t *testing.T, f *fixture, b *blocks.Entry) {
				if _, err := f.Entries().Update(t.Context(), operator, blocks.Block, b.ID, blocks.Update{Reason: &reason, Expires: &time.Time{}}); err != nil {
					t.Fatal(err)
				}
			}, "token:a else for good", "token:a scraping 1h0m0s",
		},
		"a replacement": {
			func(t *testing.T, f *fixture, b *blocks.Entry) {
				add(t, f, block(t, "token:a", time.Time{}), blocks.Replace)
			},
			"token:a scraping for good", "token:a scraping 1h0m0s",
		},
		"an import": {
			func(t *testing.T, f *fixture, b *blocks.Entry) {
				if _, err := f.Entries().Import(t.Context(), operator, addresses(t, 3), blocks.Fail, nil); err != nil {
					t.Fatal(err)
				}
			},
			"ip:10.0.0.2 scraping for good, ip:10.0.0.1 scraping for good, ip:10.0.0.0 scraping for good, token:a scraping 1h0m0s",
			"token:a scraping 1h0m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, f *fixture) {
				b := add(t, f, block(t, "token:a", f.clock.Now().Add(time.Hour)), blocks.Fail).Entry
				c.change(t, f, b)
				if got := standing(t, f); got != c.before {
					t.Fatalf("before, %q stood, want %q", got, c.before)
				}
				undo(t, f)
				if got := standing(t, f); got != c.want {
					t.Fatalf("after, %q stands, want %q", got, c.want)
				}
			})
		})
	}
}

func TestUndoEntry_can_itself_be_undone(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		b := add(t, f, block(t, "token:a", time.Time{}), blocks.Fail).Entry
		if _, err := f.Entries().End(t.Context(), operator, blocks.Block, "", b.ID); err != nil {
			t.Fatal(err)
		}
		undo(t, f)
		undo(t, f)
		if got := standing(t, f); got != "" {
			t.Fatalf("%q stands, want nothing", got)
		}
		undo(t, f)
		if got := standing(t, f); got != "token:a scraping for good" {
			t.Fatalf("%q stands", got)
		}
	})
}

func TestUndoEntry_brings_an_exemption_back(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		added, err := f.Entries().Add(t.Context(), operator, blocks.Fail, blocks.Entry{Kind: blocks.Exemption, Pattern: pattern(t, "token:a"), Reason: "monitoring"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Entries().End(t.Context(), operator, blocks.Exemption, "", added[0].Entry.ID); err != nil {
			t.Fatal(err)
		}
		undo(t, f)
		page, err := f.Entries().Find(t.Context(), blocks.Filter{Kind: blocks.Exemption, At: f.clock.Now()})
		if err != nil || len(page.Items) != 1 || page.Items[0].Reason != "monitoring" || page.Items[0].ID != added[0].Entry.ID {
			t.Fatalf("the exemptions are %+v, %v", page.Items, err)
		}
	})
}

func TestUndoEntry_of_policies(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		put(t, f, policy(t, "search", "token:*", "5/10s"), 0)
		undo(t, f)
		if _, err := f.FindPolicyByName(ctx, "search"); !fault.Is(err, fault.NotFound) {
			t.Fatalf("a created policy still stands: %v", err)
		}
		first := put(t, f, policy(t, "search", "token:*", "5/10s"), 0)
		put(t, f, policy(t, "search", "token:*", "9/10s"), 1)
		undo(t, f)
		p, err := f.FindPolicyByName(ctx, "search")
		if err != nil || p.Version != 3 || p.Rules.String() != "5/10s" || p.ID != first.ID {
			t.Fatalf("got %+v, %v", p, err)
		}
		if err := f.DeletePolicy(ctx, operator, "search", 3); err != nil {
			t.Fatal(err)
		}
		undo(t, f)
		p, err = f.FindPolicyByName(ctx, "search")
		if err != nil || p.Version != 1 || p.Rules.String() != "5/10s" || p.ID == first.ID {
			t.Fatalf("got %+v, %v", p, err)
		}
	})
}

func TestUndoEntry_refuses_what_has_changed_since(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		refused := func(id int64, words string) {
			t.Helper()
			_, err := f.Undo(ctx, operator, id)
			wants(t, err, fault.Conflict)
			if !strings.Contains(err.Error(), words) {
				t.Fatalf("got %q, want it to say %q", err, words)
			}
		}
		b := add(t, f, block(t, "token:a", f.clock.Now().Add(time.Hour)), blocks.Fail).Entry
		added := newest(t, f).ID
		reason := "else"
		if _, err := f.Entries().Update(ctx, operator, blocks.Block, b.ID, blocks.Update{Reason: &reason}); err != nil {
			t.Fatal(err)
		}
		refused(added, "has changed since")
		if _, err := f.Entries().End(ctx, operator, blocks.Block, "", b.ID); err != nil {
			t.Fatal(err)
		}
		lifted := newest(t, f).ID
		other := add(t, f, block(t, "token:a", time.Time{}), blocks.Fail).Entry
		refused(lifted, "has the active block "+other.ID)
		if _, err := f.Entries().End(ctx, operator, blocks.Block, "", other.ID); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(time.Hour)
		refused(lifted, "would have ended")

		put(t, f, policy(t, "search", "token:*", "5/10s"), 0)
		created := newest(t, f).ID
		put(t, f, policy(t, "search", "token:*", "9/10s"), 1)
		refused(created, "has changed since")
		if err := f.DeletePolicy(ctx, operator, "search", 2); err != nil {
			t.Fatal(err)
		}
		deleted := newest(t, f).ID
		put(t, f, policy(t, "other", "token:*", "5/10s"), 0)
		refused(deleted, "belongs to the policy")
		put(t, f, policy(t, "search", "ip:*", "5/10s"), 0)
		refused(deleted, "has changed since")

		if _, err := f.Entries().Import(ctx, operator, rowsOf(block(t, "token:new", f.clock.Now().Add(time.Second))), blocks.Fail, nil); err != nil {
			t.Fatal(err)
		}
		imported := newest(t, f).ID
		f.clock.Advance(time.Second)
		refused(imported, "Nothing is left")
		if err := f.AddRecord(ctx, audit.Record{Actor: operator, Action: "key.reset", Object: "key", ObjectID: "token:a", Summary: "Reset"}); err != nil {
			t.Fatal(err)
		}
		refused(newest(t, f).ID, "no change that can be undone")
		_, err := f.Undo(ctx, operator, 1<<40)
		wants(t, err, fault.NotFound)
	})
}
