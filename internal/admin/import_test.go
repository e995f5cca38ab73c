package admin_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
)

const list = `203.0.113.1
203.0.113.2
203.0.113.2
198.51.100.0/24
198.51.100.7
token:known
token:bad*bad
token:mine-1
token:mine-2
`

func TestDryRunPredictsTheImport(t *testing.T) {
	for _, on := range []blocks.Conflict{blocks.Keep, blocks.Extend, blocks.Replace} {
		t.Run(string(on), func(t *testing.T) {
			onBoth(t, func(t *testing.T, f *fixture) {
				f.add(t, blocks.Block, "token:known", blocks.Expiry{For: time.Hour})
				f.add(t, blocks.Exemption, "ip:198.51.100.0/25", blocks.Expiry{})
				f.add(t, blocks.Exemption, "token:mine-*", blocks.Expiry{})
				o := admin.ImportOptions{OnConflict: on, SkipBad: true, DryRun: true}
				before := f.catalog.Revision()
				predicted, err := f.run(t, list, o)
				if err != nil {
					t.Fatal(err)
				}
				if f.catalog.Revision() != before {
					t.Error("a dry run changed something")
				}
				if predicted.Rows != 9 || predicted.Invalid != 1 || predicted.Exempt != 3 || predicted.Created != 6 || predicted.Bad[0].Line != 7 || predicted.Traffic != nil {
					t.Fatalf("got %+v", predicted)
				}
				o.DryRun = false
				did, err := f.run(t, list, o)
				if err != nil {
					t.Fatal(err)
				}
				predicted.RecordID = did.RecordID
				if did.RecordID == 0 || did.ImportResult != predicted.ImportResult || did.Exempt != predicted.Exempt || did.Invalid != predicted.Invalid {
					t.Errorf("predicted %+v, did %+v", predicted, did)
				}
			})
		})
	}
}

// TestDryRunPredictsRepeatedRowsOfAScope also names a pattern in two scopes and in none.
func TestDryRunPredictsRepeatedRowsOfAScope(t *testing.T) {
	const file = "pattern,scope,expires_in\ntoken:a,login,1h\ntoken:a,login,2h\ntoken:a,search,1h\ntoken:a,,1h\ntoken:a,login,30m\n"
	for _, on := range []blocks.Conflict{blocks.Keep, blocks.Extend, blocks.Replace} {
		onBoth(t, func(t *testing.T, f *fixture) {
			o := admin.ImportOptions{Format: blocklist.CSV, OnConflict: on, DryRun: true}
			predicted, err := f.Import(t.Context(), ann, strings.NewReader(file), o)
			if err != nil {
				t.Fatal(err)
			}
			o.DryRun = false
			did, err := f.Import(t.Context(), ann, strings.NewReader(file), o)
			if err != nil {
				t.Fatal(err)
			}
			predicted.RecordID = did.RecordID
			if did.Created != 3 || did.ImportResult != predicted.ImportResult {
				t.Errorf("%s: predicted %+v, did %+v", on, predicted.ImportResult, did.ImportResult)
			}
		})
	}
}

func TestInvalidRowsImportNothingAndAreAllNamed(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		_, err := f.run(t, list+"bad:*:*\ntoken:good\n", admin.ImportOptions{})
		var e *fault.Error
		if !errors.As(err, &e) || e.Code != fault.Invalid || e.Detail["invalid"] != 2 || e.Detail["rows"] != 11 {
			t.Fatalf("got %+v", err)
		}
		rows := e.Detail["invalid_rows"].([]admin.InvalidRow)
		if len(rows) != 2 || rows[0].Line != 7 || rows[1].Line != 10 {
			t.Fatalf("got %+v", rows)
		}
		if active := f.active(t, blocks.Block); active != nil {
			t.Fatalf("active: %q", active)
		}
	})
}

func TestTruncatedFileImportsNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		file := strings.NewReader(`[{"pattern":"token:a"},{"pat`)
		_, err := f.Import(t.Context(), ann, file, admin.ImportOptions{Format: blocklist.JSON, SkipBad: true})
		if !fault.Is(err, fault.Malformed) {
			t.Fatalf("got %v", err)
		}
		if active := f.active(t, blocks.Block); active != nil {
			t.Fatalf("active: %q", active)
		}
	})
}

func TestDryRunCountsWhatOnlyTheNewBlocksWouldHaveRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.Traffic = recorded{"ip:203.0.113.1": 10, "token:known": 20, "ip:198.51.100.7": 30, "ip:192.0.2.1": 40}
		f.add(t, blocks.Block, "token:known", blocks.Expiry{})
		f.add(t, blocks.Exemption, "ip:198.51.100.7", blocks.Expiry{})
		got, err := f.run(t, list, admin.ImportOptions{SkipBad: true, DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		want := admin.TrafficEstimate{From: noon.Add(-24 * time.Hour), To: noon, Keys: 1, AllKeys: 4, Checks: 10, AllChecks: 100, Ratio: 0.1}
		if got.Traffic == nil || *got.Traffic != want {
			t.Fatalf("got %+v, want %+v", got.Traffic, want)
		}
	})
}

func TestImportOfExportedEndedBlocksActivatesNone(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		for _, format := range []admin.FileFormat{admin.BlocksCSV, admin.BlocksJSON, admin.BlocksPlain} {
			f.add(t, blocks.Block, "token:active", blocks.Expiry{})
			f.add(t, blocks.Block, "token:expired", blocks.Expiry{For: time.Minute})
			ended := f.add(t, blocks.Block, "token:ended", blocks.Expiry{})
			if _, err := f.End(t.Context(), ann, blocks.Block, "", ended.ID); err != nil {
				t.Fatal(err)
			}
			f.now = f.now.Add(time.Hour)
			var file bytes.Buffer
			if err := f.Export(t.Context(), &file, blocks.Filter{Kind: blocks.Block, State: "all"}, format); err != nil {
				t.Fatal(err)
			}
			for _, dry := range []bool{true, false} {
				r, err := f.Import(t.Context(), ann, bytes.NewReader(file.Bytes()), admin.ImportOptions{Format: format, DryRun: dry})
				if err != nil || r.Created != 0 || r.Unchanged != 1 {
					t.Errorf("%s: got %+v, %v", format, r, err)
				}
			}
			if active := f.active(t, blocks.Block); len(active) != 1 || active[0] != "token:active" {
				t.Errorf("%s: active are %v", format, active)
			}
			for e, err := range f.Each(t.Context(), blocks.Filter{Kind: blocks.Block}) {
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.End(t.Context(), ann, blocks.Block, "", e.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
