package catalog_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/storetest"
)

// savedFrom returns the saved catalog of a database with some of everything.
func savedFrom(t testing.TB) *catalog.Saved {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), filepath.Join(t.TempDir(), "stint.db"), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	by := audit.SystemActor("a test")
	for n, text := range []string{"ip:192.0.2.0/24", "token:a*", `host:\*.example.com`, "*"} {
		p, err := keys.Parser{}.Pattern(text)
		if err != nil {
			t.Fatal(err)
		}
		b := blocks.Entry{Kind: blocks.Block, Pattern: p, Reason: "\x1b[31m\n reason", Source: blocks.Manual}
		if n%2 == 0 {
			b.Expires = time.Now().Add(time.Hour)
		}
		if _, err := store.Entries.Add(t.Context(), by, blocks.Fail, b); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Entries.Add(t.Context(), by, blocks.Fail, blocks.Entry{Kind: blocks.Exemption, Pattern: p, Reason: "why"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Entries.Add(t.Context(), by, blocks.Fail, storetest.FullBlock(t, "ip:198.51.100.0/24", time.Now().Add(time.Hour))); err != nil {
		t.Fatal(err)
	}
	for name, scope := range map[string]identity.Access{"edge": identity.Check, "boss": identity.Admin} {
		secret := identity.NewSecret([]identity.Access{scope})
		if _, err := store.Identities.AddToken(t.Context(), by, identity.Token{Name: name, Hint: secret.Hint, Hash: secret.Hash[:], Scopes: []identity.Access{scope}}); err != nil {
			t.Fatal(err)
		}
	}
	when, err := conditions.Parse(conditions.Texts{"path": {"/login*"}})
	if err != nil {
		t.Fatal(err)
	}
	every, err := keys.Parser{}.Pattern("*")
	if err != nil {
		t.Fatal(err)
	}
	for _, account := range []string{"account 800/d", "account 20/d"} { // the file must keep what the replaced rules need
		also, err := rules.ParseAlso([]string{account})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Policies.PutPolicy(t.Context(), by, &rules.Policy{
			Name: "guessing", Match: []keys.Pattern{every}, When: when, Outcome: "login_failed", Rules: rules.Stack{{Limit: 20, Window: 24 * time.Hour}}, Also: also,
			Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog,
		}, etag.Any); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Profiles.PutProfile(t.Context(), by, profiles.Profile{Key: "token:a", Plan: "gold", Labels: []string{"vip"}}, etag.Any); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Profiles.PutLimit(t.Context(), by, "token:b", &profiles.Limit{Rules: rules.Stack{{Limit: 5, Window: time.Second}}, Reason: "launch", Expires: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	c := catalog.New(store, time.Now)
	if c.Snapshot() != nil {
		t.Fatal("Snapshot of a catalog that is not loaded is not nil")
	}
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.Snapshot()
}

func TestSavedCatalogRoundTrips(t *testing.T) {
	saved := savedFrom(t)
	if len(saved.Entries) != 9 || len(saved.Policies) != 2 || len(saved.Settings.Secret) != 32 {
		t.Fatalf("saved %+v", saved)
	}
	if len(saved.Tokens) != 1 || saved.Tokens[0].Name != "edge" {
		t.Fatalf("the saved tokens are %+v, want only the one for checks", saved.Tokens)
	}
	var file bytes.Buffer
	if err := saved.Write(&file, "here"); err != nil {
		t.Fatal(err)
	}
	read, err := catalog.ReadSaved(&file, "here")
	if err != nil {
		t.Fatal(err)
	}
	if len(read.Profiles) != 2 {
		t.Fatalf("profiles %+v", read.Profiles)
	}
	for i, p := range read.Profiles {
		if want := saved.Profiles[i]; p.Key != want.Key || p.Plan != want.Plan || !p.Limit.Equal(want.Limit) {
			t.Errorf("the profile %+v, want %+v", p, want)
		}
	}
	// Policies are stored as JSON, which has no monotonic clock and no time zone.
	if len(read.Policies) != 2 || !reflect.DeepEqual(*read.Policies[0], *saved.Policies[0]) || !reflect.DeepEqual(*read.Policies[1], *saved.Policies[1]) {
		t.Errorf("policies %+v and %+v, want %+v and %+v", read.Policies[0], read.Policies[1], saved.Policies[0], saved.Policies[1])
	}
	if !reflect.DeepEqual(read.Entries, saved.Entries) {
		t.Errorf("read %+v, want %+v", read, saved)
	}
	if read.Revision != saved.Revision || !reflect.DeepEqual(read.Settings, saved.Settings) || read.Tokens[0].Name != "edge" ||
		!bytes.Equal(read.Tokens[0].Hash, saved.Tokens[0].Hash) {
		t.Errorf("read %+v, want %+v", read, saved)
	}
}

func TestSavedFileWithAnyDamagedByteIsRejected(t *testing.T) {
	var file bytes.Buffer
	if err := savedFrom(t).Write(&file, "here"); err != nil {
		t.Fatal(err)
	}
	good := file.Bytes()
	for at := range good {
		bad := bytes.Clone(good)
		bad[at] ^= 0x41
		for name, content := range map[string][]byte{"changed": bad, "cut": good[:at]} {
			if _, err := catalog.ReadSaved(bytes.NewReader(content), "here"); !errors.Is(err, catalog.ErrSaved) {
				t.Fatalf("%s at byte %d: %v", name, at, err)
			}
		}
	}
	if _, err := catalog.ReadSaved(bytes.NewReader(good), "elsewhere"); !errors.Is(err, catalog.ErrSaved) {
		t.Errorf("ReadSaved for another database: got %v, want ErrSaved", err)
	}
}

func BenchmarkSavingAMillionBlocks(b *testing.B) {
	saved := &catalog.Saved{Entries: make([]*blocks.Entry, 1_000_000)}
	for i := range saved.Entries {
		p, err := keys.Parser{}.Pattern(fmt.Sprintf("ip:10.%d.%d.%d", i>>16, i>>8&255, i&255))
		if err != nil {
			b.Fatal(err)
		}
		saved.Entries[i] = &blocks.Entry{Kind: blocks.Block, ID: fmt.Sprintf("0198f000-0000-7000-8000-%012d", i), Pattern: p, Reason: "list", Author: "admin", Created: 1}
	}
	for b.Loop() {
		var file bytes.Buffer
		if err := saved.Write(&file, "here"); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(file.Len())/1e6, "MB")
	}
}
