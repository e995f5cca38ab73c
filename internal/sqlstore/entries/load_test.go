package entries_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/test/storetest"
)

// loaded returns how often a starting node loads each pattern.
func loaded(t *testing.T, f *storetest.Fixture) map[string]int {
	t.Helper()
	all := map[string]int{}
	err := f.EachChange(t.Context(), catalog.Position{}, func(ch catalog.Changes) error {
		for b, err := range ch.Entries {
			if err != nil {
				return err
			}
			all[b.Pattern.String()]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// many is enough rows for changes to happen while they are read.
const many = 3000

func TestLoadReturnsEachActiveBlockOnce(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		if _, err := f.Entries.Import(t.Context(), storetest.Operator, storetest.Blocks(t, many), blocks.Keep, nil); err != nil {
			t.Fatal(err)
		}
		storetest.AddEntry(t, f, storetest.NewBlock(t, "token:expires", f.Clock.Now().Add(time.Second)), blocks.Fail)
		ended := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:ended", time.Time{}), blocks.Fail)
		if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "", ended.Entry.ID); err != nil {
			t.Fatal(err)
		}
		storetest.AddEntry(t, f, storetest.NewBlock(t, "token:active", time.Time{}), blocks.Fail)
		f.Clock.Advance(time.Minute)
		all := loaded(t, f)
		for b := range storetest.Blocks(t, many) {
			if n := all[b.Pattern.String()]; n != 1 {
				t.Fatalf("%s was loaded %d times, want once", b.Pattern, n)
			}
		}
		if len(all) != many+1 || all["token:active"] != 1 {
			t.Errorf("%d patterns were loaded, want %d; token:active was loaded %d times, want once", len(all), many+1, all["token:active"])
		}
	})
}

// A database may store texts in another encoding.
func TestLoadReadsDatabaseInOtherEncoding(t *testing.T) {
	urls := map[string]func(t *testing.T) string{
		"SQLite": func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "stint.db")
			file, err := sql.Open("sqlite", path)
			if err == nil {
				_, err = file.ExecContext(t.Context(), "PRAGMA encoding = 'UTF-16le'; CREATE TABLE other (a); DROP TABLE other")
			}
			if err := errors.Join(err, file.Close()); err != nil {
				t.Fatal(err)
			}
			return path
		},
		"Postgres": func(t *testing.T) string {
			f := storetest.OpenPostgres(t)
			u, err := url.Parse(f.URL)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimPrefix(u.Path, "/") + "_latin1"
			f.Exec(t, "CREATE DATABASE "+name+" ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
			raw := f.Raw(t)
			t.Cleanup(func() {
				if _, err := raw.ExecContext(context.Background(), "DROP DATABASE "+name); err != nil {
					t.Error(err)
				}
			})
			values := u.Query()
			values.Set("client_encoding", "UTF8")
			u.Path, u.RawQuery = "/"+name, values.Encode()
			return u.String()
		},
	}
	for database, urlOf := range urls {
		t.Run(database, func(t *testing.T) {
			f := storetest.Open(t, urlOf(t))
			b := storetest.NewBlock(t, "user:zoë", time.Time{})
			b.Reason = "für  immer"
			want := storetest.AddEntry(t, f, b, blocks.Fail).Entry
			count := 0
			err := f.EachChange(t.Context(), catalog.Position{}, func(ch catalog.Changes) error {
				for got, err := range ch.Entries {
					if err != nil {
						return err
					}
					if count++; got.ID != want.ID || got.Pattern != b.Pattern || got.Reason != b.Reason {
						t.Errorf("loaded %+v, want %+v", got, want)
					}
				}
				return nil
			})
			if err != nil || count != 1 {
				t.Fatalf("loaded %d entries: %v", count, err)
			}
		})
	}
}

func TestLoadSkipsOnlyUnreadableEntries(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		old := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:old", time.Time{}), blocks.Fail)
		storetest.AddEntry(t, f, storetest.NewBlock(t, "token:active", time.Time{}), blocks.Fail)
		f.Exec(t, `UPDATE entries SET pattern = 'asn:corp-12' WHERE pattern = 'token:old'`)
		if all := loaded(t, f); len(all) != 1 || all["token:active"] != 1 {
			t.Errorf("loaded %v", all)
		}
		if read, err := f.Entries.ByID(t.Context(), blocks.Block, old.Entry.ID); err != nil || read.Pattern.String() != "asn:corp-12" {
			t.Errorf("%+v, %v", read, err)
		}
		if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "", old.Entry.ID); err != nil {
			t.Error(err)
		}
		if all := loaded(t, f); len(all) != 1 {
			t.Errorf("loaded %v after the unreadable entry was ended, want one", all)
		}
	})
}

func TestLoadSeesOneSnapshotDuringChanges(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		if _, err := f.Entries.Import(t.Context(), storetest.Operator, storetest.Blocks(t, many), blocks.Keep, nil); err != nil {
			t.Fatal(err)
		}
		// Each replacement ends a row at the beginning and adds one at the end: without one
		// snapshot, a pattern would be loaded twice or never.
		ctx, stop := context.WithCancel(t.Context())
		var changing sync.WaitGroup
		changing.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				b := storetest.NewBlock(t, fmt.Sprintf("ip:10.0.0.%d", i%100), time.Time{})
				if _, err := f.Entries.Add(ctx, storetest.Operator, blocks.Replace, b); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
		for range 20 {
			all := loaded(t, f)
			for pattern, n := range all {
				if n != 1 {
					t.Errorf("%s was loaded %d times, want once", pattern, n)
				}
			}
			if len(all) != many {
				t.Errorf("%d patterns were loaded, want %d", len(all), many)
			}
		}
		stop()
		changing.Wait()
	})
}
