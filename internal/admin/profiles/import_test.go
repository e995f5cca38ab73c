package profiles_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	use "github.com/stint-dev/stint/internal/admin/profiles"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestMain(m *testing.M) { servers.Main(m) }

var olu = admin.Caller{Actor: storetest.Operator}

// onBoth runs a test of the use case on both databases.
func onBoth(t *testing.T, test func(t *testing.T, f *storetest.Fixture, u *use.Profiles)) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		known := catalog.New(f.Store, f.Clock.Now)
		if err := known.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, f, &use.Profiles{View: known, Store: f.Profiles, Now: f.Clock.Now})
	})
}

// run imports a CSV.
func run(t *testing.T, u *use.Profiles, file string, o use.ImportOptions) (*use.ImportResult, error) {
	t.Helper()
	return u.Import(t.Context(), olu, strings.NewReader(file), o)
}

// TestDryRunPredictsTheImportOfKeys tries files that create, replace and keep profiles, with and
// without limits, in more than one batch, and then imports them.
func TestDryRunPredictsTheImportOfKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, f *storetest.Fixture, u *use.Profiles) {
		random := rand.New(rand.NewPCG(1, 2))
		for round := range 4 {
			var file strings.Builder
			file.WriteString("key,plan,labels,note\n")
			for i := range 2500 {
				if random.IntN(3) > 0 {
					fmt.Fprintf(&file, "token:%d,%s,%s,%s\n", i, []string{"", "gold", "free"}[random.IntN(3)], []string{"", "a b", "vip"}[random.IntN(3)], "n")
				}
			}
			for range 20 {
				key := fmt.Sprintf("token:%d", random.IntN(2500))
				if _, err := u.SetLimit(t.Context(), olu, wire.OwnLimitRequest{Key: key, Rules: []string{"5/s"}, Reason: "launch"}); err != nil {
					t.Fatal(err)
				}
				if random.IntN(2) == 0 {
					if _, err := u.Delete(t.Context(), olu, wire.DeleteProfileRequest{Key: key, IfMatch: "*"}); err != nil {
						t.Fatal(err)
					}
				}
			}
			newest := storetest.NewestRecord(t, f).ID
			dry, err := run(t, u, file.String(), use.ImportOptions{DryRun: true})
			if err != nil {
				t.Fatal(err)
			}
			if storetest.NewestRecord(t, f).ID != newest || !dry.DryRun {
				t.Fatal("the dry run changed something")
			}
			did, err := run(t, u, file.String(), use.ImportOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if dry.ImportResult != did.ImportResult || dry.Rows != did.Rows || fmt.Sprint(dry.Plans) != fmt.Sprint(did.Plans) {
				t.Errorf("round %d: predicted %+v of %d rows with %v, imported %+v of %d with %v", round, dry.ImportResult, dry.Rows, dry.Plans, did.ImportResult, did.Rows, did.Plans)
			}
			if changes := dry.Created + dry.Replaced; len(dry.Changes) != min(changes, admin.MaxShown) || len(did.Changes) != 0 {
				t.Errorf("round %d: %d of %d changes are shown, %d after the import", round, len(dry.Changes), changes, len(did.Changes))
			}
			for _, change := range dry.Changes {
				if kept, err := u.Find(t.Context(), change.After.Key); err != nil || !profiles.Same(kept, change.After) {
					t.Errorf("line %d: predicted %+v, stored %+v, %v", change.Line, change.After, kept, err)
				}
				if profiles.Same(change.Before, change.After) {
					t.Errorf("line %d changes nothing", change.Line)
				}
			}
		}
	})
}

func TestImportNamesInvalidRowsByLineAndReason(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *storetest.Fixture, u *use.Profiles) {
		const file = "key,plan\ntoken:a,gold\nip:300.1.1.1,gold\ntoken:b,Gold\ntoken:a,free\ntoken:c,\nip:2001:db8::1,gold\nip:2001:db8::2,gold\n"
		want := []string{
			"line 3: the key has a bad address", "line 4: plan must be", "line 5: it has the key of line 2; leave one of the two",
			"line 6: it has neither a plan nor labels nor a note", "line 8: it has the key of line 7; leave one of the two",
		}
		dry, err := run(t, u, file, use.ImportOptions{DryRun: true})
		if err != nil || dry.Rows != 7 || dry.Created != 2 || dry.Invalid != len(want) || len(dry.Bad) != len(want) {
			t.Fatalf("dry run: got %+v, %v", dry, err)
		}
		for i, bad := range dry.Bad {
			if !strings.HasPrefix(bad.Error(), want[i]) {
				t.Errorf("got the error %q, want %q", bad.Error(), want[i])
			}
		}
		if _, err := run(t, u, file, use.ImportOptions{}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "5 of the 7 rows") {
			t.Errorf("Import with invalid rows: got %v, want Invalid", err)
		}
		if page, err := u.List(t.Context(), profiles.Filter{}); err != nil || page.Total != 0 {
			t.Errorf("%d keys are stored, %v; want none", page.Total, err)
		}
		if did, err := run(t, u, file, use.ImportOptions{SkipBad: true}); err != nil || did.Created != 2 || did.Invalid != len(want) {
			t.Errorf("Import with SkipBad: got %+v, %v", did, err)
		}
		if kept, err := u.Find(t.Context(), "token:a"); err != nil || kept.Plan != "gold" {
			t.Errorf("a key in two rows has %+v, %v; want the plan of the first row", kept, err)
		}
	})
}

// TestImportReportsPlansThatNoPolicyNames compares the plans of a file with the policies.
func TestImportReportsPlansThatNoPolicyNames(t *testing.T) {
	onBoth(t, func(t *testing.T, f *storetest.Fixture, u *use.Profiles) {
		gold, err := keys.Parser{}.Pattern("plan:gold")
		if err != nil {
			t.Fatal(err)
		}
		stack, err := rules.ParseStack([]string{"5/s"})
		if err != nil {
			t.Fatal(err)
		}
		p := &rules.Policy{Name: "gold", Match: []keys.Pattern{gold}, Rules: stack, Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: "timestamp_log"}
		if _, err := f.Policies.PutPolicy(t.Context(), storetest.Operator, p, etag.New); err != nil {
			t.Fatal(err)
		}
		if err := u.View.(*catalog.Catalog).Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		const file = "key,plan\ntoken:a,gold\ntoken:b,glod\ntoken:c,gold\ntoken:d,glod2\n"
		for _, isDryRun := range []bool{true, false} {
			got, err := run(t, u, file, use.ImportOptions{DryRun: isDryRun})
			if err != nil || fmt.Sprint(got.Plans) != "[{gold 2 gold} {glod 1 } {glod2 1 }]" || fmt.Sprint(got.UnusedPlans()) != "[{glod 1 } {glod2 1 }]" {
				t.Errorf("Import: got %+v, %v", got, err)
			}
		}
	})
}

// TestDryRunRejectsTooManyPlansLikeTheImport counts the plans that keys would have after the
// import.
func TestDryRunRejectsTooManyPlansLikeTheImport(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *storetest.Fixture, u *use.Profiles) {
		file := func(from, to int) string {
			var rows strings.Builder
			rows.WriteString("key,plan\n")
			for i := range to - from {
				fmt.Fprintf(&rows, "token:%d,p%d\n", i, from+i)
			}
			return rows.String()
		}
		for _, c := range []struct {
			file  string
			fails bool
		}{
			{file(0, profiles.MaxPlans+1), true}, {file(0, profiles.MaxPlans), false},
			{file(500, profiles.MaxPlans+500), false},                         // every key has another plan
			{"key,plan\ntoken:further,new\n", true},                           // one more
			{"key,plan,note\ntoken:0,,none\ntoken:further,new,\n", false},     // one plan is no longer used
			{"key,plan,note\ntoken:1,,none\ntoken:further,other,\n", false},   // and another one is
			{"key,plan,note\ntoken:2,gold,\ntoken:further,new,more\n", false}, // replaced by another
		} {
			_, predicted := run(t, u, c.file, use.ImportOptions{DryRun: true})
			did, err := run(t, u, c.file, use.ImportOptions{})
			if (predicted != nil) != c.fails || fmt.Sprint(predicted) != fmt.Sprint(err) {
				t.Errorf("predicted %v, imported %+v, %v; want an error: %v", predicted, did, err, c.fails)
			}
		}
	})
}

func TestUnreadableFileIsRejected(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *storetest.Fixture, u *use.Profiles) {
		for _, isDryRun := range []bool{true, false} {
			for file, code := range map[string]fault.Code{"": fault.Malformed, "plan\ngold\n": fault.Malformed} {
				if _, err := run(t, u, file, use.ImportOptions{DryRun: isDryRun}); !fault.Is(err, code) {
					t.Errorf("Import of %q: got %v, want %s", file, err, code)
				}
			}
			broken, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := u.Import(broken, olu, strings.NewReader("key,plan\ntoken:a,gold\n"), use.ImportOptions{DryRun: isDryRun}); err == nil {
				t.Error("Import with an ended context returned no error")
			}
		}
		if page, err := u.List(t.Context(), profiles.Filter{}); err != nil || page.Total != 0 {
			t.Errorf("%d keys are stored, %v; want none", page.Total, err)
		}
	})
}

func TestEndlessFileIsReadUpToABound(t *testing.T) {
	f := storetest.OpenSQLite(t)
	u := &use.Profiles{View: catalog.New(f.Store, f.Clock.Now), Store: f.Profiles, Now: f.Clock.Now}
	many := io.MultiReader(strings.NewReader("key,plan\n"), &endless{line: "token:a,gold\n"})
	if _, err := u.Import(t.Context(), olu, many, use.ImportOptions{DryRun: true}); !fault.Is(err, fault.TooLarge) {
		t.Errorf("Import of an endless file: got %v, want TooLarge", err)
	}
}

// endless is a reader that repeats a line.
type endless struct {
	line string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.line[e.at]
		e.at = (e.at + 1) % len(e.line)
	}
	return len(p), nil
}

// TestHostileKeysAreStoredUnchanged exports and imports keys that attackers chose.
func TestHostileKeysAreStoredUnchanged(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *storetest.Fixture, u *use.Profiles) {
		hostile := []string{`token:"><script>alert(1)</script>`, `=cmd|' /C calc'!A0`, "+1,2", "@sum(1)", "token:a\u202eb", "token:; DROP TABLE profiles"}
		var file strings.Builder
		file.WriteString("key,plan\n")
		for _, key := range hostile {
			file.WriteString(`"` + strings.ReplaceAll(escape.CSV(key), `"`, `""`) + "\",gold\n")
		}
		if did, err := run(t, u, file.String(), use.ImportOptions{}); err != nil || did.Created != len(hostile) {
			t.Fatalf("Import: got %+v, %v", did, err)
		}
		for _, format := range []admin.FileFormat{use.CSV, use.JSON} {
			var out strings.Builder
			if err := u.Export(t.Context(), &out, profiles.Filter{}, format); err != nil {
				t.Fatal(err)
			}
			again, err := run(t, u, out.String(), use.ImportOptions{Format: format, DryRun: true})
			if err != nil || again.Unchanged != len(hostile) || again.Invalid != 0 {
				t.Errorf("%s: %+v, %v", format, again, err)
			}
		}
	})
}

// BenchmarkImport tries and imports a file of a hundred thousand keys on SQLite: new ones,
// and the same again.
func BenchmarkImport(b *testing.B) {
	var file strings.Builder
	file.WriteString("key,plan,labels,note\n")
	for i := range 100_000 {
		fmt.Fprintf(&file, "token:customer-%d,%s,region=eu,Contract %d\n", i, []string{"gold", "silver", "free"}[i%3], i)
	}
	for b.Loop() {
		b.StopTimer()
		f := storetest.OpenSQLite(b)
		u := &use.Profiles{View: catalog.New(f.Store, f.Clock.Now), Store: f.Profiles, Now: f.Clock.Now}
		b.StartTimer()
		for _, step := range []struct {
			name     string
			isDryRun bool
			want     profiles.ImportResult
		}{
			{"try-new", true, profiles.ImportResult{Created: 100_000}}, {"import-new", false, profiles.ImportResult{Created: 100_000}},
			{"try-known", true, profiles.ImportResult{Unchanged: 100_000}}, {"import-known", false, profiles.ImportResult{Unchanged: 100_000}},
		} {
			before := time.Now()
			got, err := u.Import(b.Context(), olu, strings.NewReader(file.String()), use.ImportOptions{DryRun: step.isDryRun})
			if err != nil || got.ImportResult != step.want {
				b.Fatalf("%s: %+v, %v", step.name, got, err)
			}
			b.ReportMetric(time.Since(before).Seconds(), step.name+"-s")
		}
	}
}
