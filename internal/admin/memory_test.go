package admin_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

// While the database does not answer, pages list what the node has in memory. The list must be
// that of the database.
func TestEntriesInMemoryAreListedAsThoseOfTheDatabase(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	n := storetest.OpenNode(t, storetest.Migrated.SQLite(t), func() time.Time { return now })
	add := func(kind blocks.Kind, pattern, scope, reason, author string, source blocks.Source, lasts time.Duration) {
		t.Helper()
		p, err := (keys.Parser{}).Pattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		e := blocks.Entry{Kind: kind, Pattern: p, EntryTerms: wire.EntryTerms{Scope: scope}, Reason: reason, Author: author, Source: source}
		if lasts > 0 {
			e.Expires = now.Add(lasts)
		}
		if _, err := n.Store.Entries.Add(t.Context(), audit.SystemActor("test"), blocks.Fail, e); err != nil {
			t.Fatal(err)
		}
	}
	add(blocks.Block, "ip:192.0.2.0/24", "", "Scraper", "maria", blocks.Manual, time.Hour)
	add(blocks.Block, "ip:192.0.2.7", "", "repeat offender", "escalation", blocks.Automatic, 2*time.Hour)
	add(blocks.Block, "ip:198.51.100.1", "", "an old list", "import", blocks.Imported, 0)
	add(blocks.Block, "ip:192.0.2.7", "login", "too many failed logins", "escalation", blocks.Automatic, time.Minute)
	add(blocks.Block, "token:Abc_*", "", "", "jo", blocks.Manual, 3*time.Hour)
	add(blocks.Block, "token:gone", "", "expires", "jo", blocks.Manual, time.Second)
	add(blocks.Exemption, "ip:192.0.2.9", "", "office", "maria", blocks.Manual, 0)
	now = now.Add(2 * time.Second)
	within, err := (keys.Parser{}).Pattern("ip:192.0.2.0/24")
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]blocks.Filter{
		"all":              {},
		"blocks":           {Kind: blocks.Block},
		"the newest":       {Kind: blocks.Block, Limit: 2},
		"ends soonest":     {Kind: blocks.Block, Order: blocks.ByExpiry},
		"two that end":     {Kind: blocks.Block, Order: blocks.ByExpiry, Limit: 2},
		"exemptions":       {Kind: blocks.Exemption},
		"a source":         {Kind: blocks.Block, Source: blocks.Automatic},
		"an author":        {Author: "maria"},
		"within":           {Kind: blocks.Block, Within: within},
		"a text, any case": {Search: "SCRAPER"},
		"part of a key":    {Search: "abc_"},
		"text, paged":      {Search: "a", Limit: 1},
		"paged by expiry":  {Search: "a", Order: blocks.ByExpiry, Limit: 1},
		"uncounted":        {Kind: blocks.Block, Uncounted: true},
		"none":             {Search: "nothing like it"},
	} {
		f.At = now
		want, err := n.Store.Entries.Find(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := n.Catalog.Blocks().Find(f)
		if err != nil || listed(got) != listed(want) || got.Next != want.Next {
			t.Errorf("%s: got %s %q in memory, %v, want %s %q", name, listed(got), got.Next, err, listed(want), want.Next)
		}
		for f.Limit = 1; want.Next != ""; { // the further pages, one by one
			f.Cursor = want.Next
			if want, err = n.Store.Entries.Find(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			if got, err = n.Catalog.Blocks().Find(f); err != nil || listed(got) != listed(want) || got.Next != want.Next {
				t.Errorf("%s, after %s: got %s %q in memory, %v, want %s %q", name, f.Cursor, listed(got), got.Next, err, listed(want), want.Next)
			}
		}
	}
}

// What is active is counted in memory: the database would read each.
func TestActiveEntriesAreCountedInMemory(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	n := storetest.OpenNode(t, storetest.Migrated.SQLite(t), func() time.Time { return now })
	for i, source := range []blocks.Source{blocks.Manual, blocks.Automatic, blocks.Automatic, blocks.Listed} {
		p, err := (keys.Parser{}).Pattern(fmt.Sprintf("ip:192.0.2.%d", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Store.Entries.Add(t.Context(), audit.SystemActor("test"), blocks.Fail, blocks.Entry{Kind: blocks.Block, Pattern: p, Source: source, Author: "maria", Expires: now.Add(time.Duration(i+1) * time.Minute)}); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(90 * time.Second) // the first has expired
	for name, f := range map[string]blocks.Filter{
		"all": {}, "automatic": {Source: blocks.Automatic}, "of lists": {Source: blocks.Listed}, "with lists": {Lists: true}, "none": {Source: blocks.Imported},
	} {
		f.Kind, f.At = blocks.Block, now
		want, err := n.Store.Entries.Find(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if got, known := n.Catalog.Blocks().Count(&f); !known || got != want.Total {
			t.Errorf("%s: got %d, %t, want %d", name, got, known, want.Total)
		}
	}
	for name, f := range map[string]blocks.Filter{
		"ended": {State: "ended"}, "an author": {Author: "maria"}, "a text": {Search: "a"}, "a name": {Holder: "maria"}, "exemptions": {Kind: blocks.Exemption},
	} {
		f.At = now
		if f.Kind == "" {
			f.Kind = blocks.Block
		}
		if got, known := n.Catalog.Blocks().Count(&f); known {
			t.Errorf("%s: got %d, which is not what memory can count", name, got)
		}
	}
}

// listed returns the entries of a page in their order, and its total.
func listed(p paging.Page[*blocks.Entry]) string {
	text := ""
	for _, e := range p.Items {
		text += fmt.Sprintf("%s %s %s, ", e.Kind, e.Pattern, e.Scope)
	}
	return text + fmt.Sprint(p.Total)
}
