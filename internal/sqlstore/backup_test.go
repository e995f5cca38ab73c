package sqlstore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

func TestBackupIsCompleteDatabaseReadableOnlyByOwner(t *testing.T) {
	f := storetest.OpenSQLite(t)
	storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", time.Time{}), blocks.Fail)
	path := storetest.Backup(t, f)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the mode of the backup is %v, want 0600; %v", info.Mode(), err)
	}
	storetest.WantFault(t, f.Backup(t.Context(), path), fault.Invalid)
	copied, err := sqlstore.Open(t.Context(), path, sqlstore.Options{Now: f.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	page, err := copied.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block})
	if err != nil || storetest.Patterns(page.Items) != "token:a" {
		t.Fatalf("the backup has the blocks %s, %v", storetest.Patterns(page.Items), err)
	}
}

func TestRestoreReplacesStateOfRunningNode(t *testing.T) {
	f := storetest.OpenSQLite(t)
	ctx := t.Context()
	storetest.AddEntry(t, f, storetest.NewBlock(t, "token:kept", time.Time{}), blocks.Fail)
	leaked := storetest.AddToken(t, f, "leaked", identity.Admin)
	storetest.AddUser(t, f, "ann", identity.Administrator)
	path := storetest.Backup(t, f)

	storetest.AddEntry(t, f, storetest.NewBlock(t, "token:later", time.Time{}), blocks.Fail)
	later := storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "later", "token:*", "1/s"), etag.New)
	changed := storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "default", "*", "5/s"), storetest.TagOf(t, f.Policies, "default"))
	if _, err := f.Identities.RevokeToken(ctx, storetest.Operator, leaked.ID); err != nil {
		t.Fatal(err)
	}
	own := storetest.AddToken(t, f, "own", identity.Admin)
	storetest.AddToken(t, f, "gone", identity.Admin)
	c := catalog.New(f, f.Clock.Now)
	if err := c.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	before := c.Revision()

	if err := f.Restore(ctx, audit.Actor{Kind: audit.Token, ID: own.ID, Name: "own"}, path); err != nil {
		t.Fatal(err)
	}
	page, err := f.Entries.Find(ctx, blocks.Filter{Kind: blocks.Block, State: "all"})
	if err != nil || storetest.Patterns(page.Items) != "token:kept" {
		t.Fatalf("blocks %s, %v", storetest.Patterns(page.Items), err)
	}
	if err := c.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	if c.Revision() <= before {
		t.Fatalf("the revision went from %d to %d", before, c.Revision())
	}
	if v := c.Blocks().Match(keytest.Key(t, "token:later"), f.Clock.Now()); v.Refuses() {
		t.Error("a block made after the backup still refuses")
	}
	policies, err := f.Policies.Policies(ctx)
	if err != nil || len(policies) != 1 || policies[0].Version != 1 || policies[0].Rules.LargestLimit() != 800 {
		t.Fatalf("policies %+v, %v", policies, err)
	}
	if again := storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "later", "token:*", "1/s"), etag.New); again.ID <= later.ID {
		t.Errorf("the id %d of a policy made after the backup was used again as %d", later.ID, again.ID)
	}
	tokens, err := f.Identities.Tokens(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var active []string
	for _, token := range tokens {
		if token.ActiveAt(f.Clock.Now()) {
			active = append(active, token.Name)
		}
	}
	if got := strings.Join(active, " "); got != "own" {
		t.Errorf("active tokens: %s, want only the restorer's own", got)
	}
	entries, err := f.Audit.FindRecords(ctx, audit.Filter{Action: "database.restore"})
	if err != nil || len(entries.Records) != 1 || entries.Records[0].Actor.Name != "own" {
		t.Fatalf("audit %+v, %v", entries, err)
	}
	storetest.AddEntry(t, f, storetest.NewBlock(t, "token:after", time.Time{}), blocks.Fail)
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(f.URL), ".stint-*")); err != nil || len(left) != 0 {
		t.Errorf("temporary files are left: %q, %v", left, err)
	}
	// The version number is reused, but the state has a different tag.
	if again := storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "default", "*", "6/s"), etag.Any); again.Version != changed.Version || rules.TagOf(again) == rules.TagOf(changed) {
		t.Errorf("version %d is %s after the restore, and %d was %s before", again.Version, rules.TagOf(again), changed.Version, rules.TagOf(changed))
	}
}

func TestRestoreKeepsCurrentUserRoles(t *testing.T) {
	f := storetest.OpenSQLite(t)
	own := storetest.AddToken(t, f, "own", identity.Admin)
	demoted := storetest.AddUser(t, f, "bob", identity.Administrator)
	promoted := storetest.AddUser(t, f, "eve", identity.Viewer)
	path := storetest.Backup(t, f)
	for id, role := range map[string]identity.Role{demoted.ID: identity.Viewer, promoted.ID: identity.Operator} {
		if _, err := f.Identities.UpdateUser(t.Context(), storetest.Operator, id, identity.UserUpdate{Role: &role}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Restore(t.Context(), audit.Actor{Kind: audit.Token, ID: own.ID, Name: "own"}, path); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]identity.Role{demoted.ID: identity.Viewer, promoted.ID: identity.Operator} {
		if u, err := f.Identities.FindUserByID(t.Context(), id); err != nil || u.Role != want {
			t.Errorf("got %+v, %v, want a %s", u, err, want)
		}
	}
}

func TestRestoreRejectsBackupThatLeavesNoAdministrator(t *testing.T) {
	f := storetest.OpenSQLite(t)
	old := storetest.AddUser(t, f, "old", identity.Administrator)
	path := storetest.Backup(t, f)
	next := storetest.AddUser(t, f, "next", identity.Administrator)
	if err := f.Identities.DeleteUser(t.Context(), storetest.Operator, old.ID); err != nil {
		t.Fatal(err)
	}
	storetest.WantFault(t, f.Restore(t.Context(), audit.Actor{Kind: audit.User, ID: next.ID, Name: "next"}, path), fault.Conflict)
	if u, err := f.Identities.FindUserByID(t.Context(), next.ID); err != nil || u.Name != "next" {
		t.Fatalf("got %+v, %v", u, err)
	}
	own := storetest.AddToken(t, f, "own", identity.Admin)
	if err := f.Restore(t.Context(), audit.Actor{Kind: audit.Token, ID: own.ID, Name: "own"}, path); err != nil {
		t.Fatal(err)
	}
}

// TestRestoreIncludesProfiles changes, deletes and adds some after the backup, and checks the restored ones in the database and in a node's copy.
func TestRestoreIncludesProfiles(t *testing.T) {
	f := storetest.OpenSQLite(t)
	ctx := t.Context()
	put := func(p profiles.Profile) {
		t.Helper()
		if _, err := f.Profiles.PutProfile(ctx, storetest.Operator, p, etag.Any); err != nil {
			t.Fatal(err)
		}
	}
	stack, err := rules.ParseStack([]string{"5/s"})
	if err != nil {
		t.Fatal(err)
	}
	put(profiles.Profile{Key: "token:changed", Plan: "gold", Labels: []string{"region=eu", "vip"}, Note: "Contract 17"})
	put(profiles.Profile{Key: "token:deleted", Plan: "silver"})
	limit := &profiles.Limit{Rules: stack, Reason: "launch", Expires: f.Clock.Now().Add(time.Hour)}
	if _, err := f.Profiles.PutLimit(ctx, storetest.Operator, "token:deleted", limit); err != nil {
		t.Fatal(err)
	}
	path := storetest.Backup(t, f)

	put(profiles.Profile{Key: "token:changed", Plan: "free"})
	put(profiles.Profile{Key: "token:later", Plan: "gold"})
	if _, err := f.Profiles.DeleteProfile(ctx, storetest.Operator, "token:deleted", etag.Any); err != nil {
		t.Fatal(err)
	}
	c := catalog.New(f, f.Clock.Now)
	if err := c.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if err := f.Restore(ctx, storetest.Operator, path); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	page, err := f.Profiles.FindProfiles(ctx, profiles.Filter{})
	if err != nil || page.Total != 2 {
		t.Fatalf("%d profiles are restored, want 2; %v", page.Total, err)
	}
	changed, deleted := page.Items[0], page.Items[1]
	if changed.Plan != "gold" || strings.Join(changed.Labels, " ") != "region=eu vip" || changed.Note != "Contract 17" || deleted.Plan != "silver" || deleted.Limit == nil || deleted.Limit.Rules.String() != stack.String() {
		t.Errorf("restored the profiles %+v and %+v", changed, deleted)
	}
	if found, err := f.Profiles.FindProfiles(ctx, profiles.Filter{Label: "vip"}); err != nil || found.Total != 1 {
		t.Errorf("%d keys have the label, %v", found.Total, err)
	}
	for key, plan := range map[string]string{"token:changed": "gold", "token:deleted": "silver", "token:later": ""} {
		if got := profiles.Subject(keytest.Key(t, key), c.Profiles().Find(keytest.Key(t, key))).Plan; got != plan {
			t.Errorf("a node counts %s under the plan %q, want %q", key, got, plan)
		}
	}
}

func TestRestoreDoesNotReviveRevokedCredentials(t *testing.T) {
	f := storetest.OpenSQLite(t)
	ctx := t.Context()
	own := storetest.AddToken(t, f, "own", identity.Admin)
	rotated, shortened, past := storetest.AddToken(t, f, "rotated", identity.Check), storetest.AddToken(t, f, "shortened", identity.Check), storetest.AddToken(t, f, "past", identity.Check)
	kept := storetest.AddToken(t, f, "kept", identity.Check)
	changed, disabled, deleted := storetest.AddUser(t, f, "changed", identity.Viewer), storetest.AddUser(t, f, "disabled", identity.Viewer), storetest.AddUser(t, f, "deleted", identity.Viewer)
	path := storetest.Backup(t, f)

	if _, _, err := f.Identities.RotateToken(ctx, storetest.Operator, rotated.ID, identity.NewSecret(rotated.Scopes), time.Hour); err != nil {
		t.Fatal(err)
	}
	end := f.Clock.Now().Add(2 * time.Hour)
	if _, err := f.Identities.UpdateToken(ctx, storetest.Operator, shortened.ID, identity.TokenUpdate{Expires: &end}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Identities.RevokeToken(ctx, storetest.Operator, past.ID); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(time.Second)
	if n, err := f.Retention.DeleteTokensBefore(ctx, f.Clock.Now()); err != nil || n != 1 {
		t.Fatalf("retention removed %d tokens, %v", n, err)
	}
	password, yes := "$argon2id$new", true
	if _, err := f.Identities.UpdateUser(ctx, storetest.Operator, changed.ID, identity.UserUpdate{PasswordHash: &password}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Identities.UpdateUser(ctx, storetest.Operator, disabled.ID, identity.UserUpdate{Disabled: &yes}); err != nil {
		t.Fatal(err)
	}
	if err := f.Identities.DeleteUser(ctx, storetest.Operator, deleted.ID); err != nil {
		t.Fatal(err)
	}

	by := audit.Actor{Kind: audit.Token, ID: own.ID, Name: "own"}
	for range 2 { // the second time from a state that was restored itself
		if err := f.Restore(ctx, by, path); err != nil {
			t.Fatal(err)
		}
		tokens, err := f.Identities.Tokens(ctx)
		if err != nil {
			t.Fatal(err)
		}
		ends, lifetimes := map[string]time.Time{}, map[string]time.Duration{}
		for _, token := range tokens {
			ends[token.ID], lifetimes[token.ID] = token.Expires, token.Lifetime
		}
		if got := ends[rotated.ID]; !got.Equal(f.Clock.Now().Add(time.Hour - time.Second)) {
			t.Errorf("the rotated token ends at %v", got)
		}
		if got := ends[shortened.ID]; !got.Equal(end) {
			t.Errorf("the shortened token ends at %v", got)
		}
		if got, want := lifetimes[shortened.ID], end.Sub(shortened.Created); lifetimes[rotated.ID] != 0 || got != want {
			t.Errorf("the successor of the rotated token would last %s, want for ever; that of the shortened one %s, want %s", lifetimes[rotated.ID], got, want)
		}
		if _, back := ends[past.ID]; back {
			t.Error("a revoked token that retention had removed is back")
		}
		if got, there := ends[kept.ID]; !there || !got.IsZero() {
			t.Errorf("the untouched token: %v, there %t", got, there)
		}
		if u, err := f.Identities.FindUserByID(ctx, changed.ID); err != nil || u.PasswordHash != password {
			t.Errorf("the changed password: %+v, %v", u, err)
		}
		if u, err := f.Identities.FindUserByID(ctx, disabled.ID); err != nil || u.Disabled.IsZero() {
			t.Errorf("the disabled user: %+v, %v", u, err)
		}
		_, err = f.Identities.FindUserByID(ctx, deleted.ID)
		storetest.WantFault(t, err, fault.NotFound)
	}
}

func TestRestoreRejectsDamagedOrForeignBackup(t *testing.T) {
	f := storetest.OpenSQLite(t)
	storetest.AddEntry(t, f, storetest.NewBlock(t, "token:kept", time.Time{}), blocks.Fail)
	good, err := os.ReadFile(storetest.Backup(t, f))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, content []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	damaged := append([]byte(nil), good...)
	for n := 4096; n < len(damaged); n += 7 {
		damaged[n] ^= 0xff
	}
	foreign := storetest.OpenSQLite(t)
	foreign.Exec(t, "DROP TABLE schema_migrations")
	newer := storetest.OpenSQLite(t)
	newer.Exec(t, "UPDATE schema_migrations SET version = 900")
	dirty := storetest.OpenSQLite(t)
	dirty.Exec(t, "UPDATE schema_migrations SET dirty = TRUE")
	for name, path := range map[string]string{
		"no file":                        filepath.Join(t.TempDir(), "none"),
		"an empty file":                  write("empty", nil),
		"a text file":                    write("text", []byte("-- a dump in SQL, which is something else\n")),
		"a damaged backup":               write("damaged", damaged),
		"a truncated backup":             write("cut", good[:len(good)/2]),
		"another application's database": storetest.Backup(t, foreign),
		"a backup of a newer release":    storetest.Backup(t, newer),
		"a backup of a failed migration": storetest.Backup(t, dirty),
	} {
		if err := f.Restore(t.Context(), storetest.Operator, path); !fault.Is(err, fault.Invalid) {
			t.Errorf("Restore of %s: got %v, want Invalid", name, err)
		}
	}
	page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block})
	if err != nil || page.Total != 1 {
		t.Fatalf("%d blocks, %v", page.Total, err)
	}
}

func TestBackupAndRestoreOnPostgresNamePgDump(t *testing.T) {
	f := storetest.OpenPostgres(t)
	for _, err := range []error{f.Backup(t.Context(), "x"), f.Restore(t.Context(), storetest.Operator, "x")} {
		storetest.WantFault(t, err, fault.Conflict)
		if !strings.Contains(err.Error(), "pg_dump") {
			t.Errorf("got %v, want an error that names pg_dump", err)
		}
	}
}

// A new machine shows pages before the backup is restored, and so caches empty offence reports.
// The rows of a backup may have no marks.
func TestRestoreReplacesCachedOffences(t *testing.T) {
	f := storetest.OpenSQLite(t)
	ctx, now := t.Context(), f.Clock.Now()
	flushed := offences.Batch{ID: "counted-before", Offences: []offences.Offence{{
		Minute: now.Truncate(time.Minute).UnixMilli(), Policy: 1, Key: "token:a", Kind: offences.Limited, RefusedBy: "1/1s", Count: 3,
		First: offences.Refusal{At: now.UnixMilli()}, Last: offences.Refusal{At: now.UnixMilli()},
	}}}
	if _, err := f.Offences.Flush(ctx, &flushed, storetest.EvaluationAt(f)); err != nil {
		t.Fatal(err)
	}
	f.Exec(t, `DELETE FROM count_marks`)
	path := storetest.Backup(t, f)

	empty := storetest.OpenSQLite(t)
	nodes := []*sqlstore.Store{empty.Store, empty.Another(t)}
	ranked := func(s *sqlstore.Store) int {
		t.Helper()
		r, err := s.Offences.Rank(ctx, offences.Query{From: now.Add(-time.Hour), To: now.Add(time.Minute), Limit: 9})
		if err != nil {
			t.Fatal(err)
		}
		return len(r.Rows)
	}
	for i, n := range nodes {
		if got := ranked(n); got != 0 {
			t.Fatalf("node %d of an empty database ranks %d keys, want 0", i, got)
		}
	}
	for range 2 {
		if err := empty.Restore(ctx, storetest.Operator, path); err != nil {
			t.Fatal(err)
		}
		for i, n := range nodes {
			if got := ranked(n); got != 1 {
				t.Errorf("after the restore node %d ranks %d keys, want 1", i, got)
			}
		}
	}
}
