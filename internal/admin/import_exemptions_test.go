package admin_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
)

func TestExemptionsAreImportedAsPredicted(t *testing.T) {
	const list = "203.0.113.1\n203.0.113.2 # ours\ntoken:known\ntoken:blocked\ntoken:bad*bad\ntoken:known\n"
	for _, on := range []blocks.Conflict{"", blocks.Keep, blocks.Extend, blocks.Replace} {
		t.Run(string(on), func(t *testing.T) {
			onBoth(t, func(t *testing.T, f *fixture) {
				f.Traffic = recorded{"ip:203.0.113.1": 100}
				f.add(t, blocks.Exemption, "token:known", blocks.Expiry{For: time.Hour})
				f.add(t, blocks.Block, "token:blocked", blocks.Expiry{})
				o := admin.ImportOptions{Kind: blocks.Exemption, OnConflict: on, SkipBad: true, DryRun: true, Reason: "partners"}
				before := f.catalog.Revision()
				predicted, err := f.run(t, list, o)
				if err != nil {
					t.Fatal(err)
				}
				if f.catalog.Revision() != before {
					t.Error("a dry run changed something")
				}
				if predicted.Rows != 6 || predicted.Created != 3 || predicted.Bad[0].Line != 5 || predicted.Exempt != 0 || predicted.Traffic != nil || predicted.Confirmation != nil {
					t.Fatalf("got %+v", predicted)
				}
				o.DryRun = false
				did, err := f.run(t, list, o)
				if err != nil {
					t.Fatal(err)
				}
				predicted.RecordID = did.RecordID
				if did.ImportResult != predicted.ImportResult {
					t.Errorf("predicted %+v, did %+v", predicted.ImportResult, did.ImportResult)
				}
				active := f.active(t, blocks.Exemption)
				slices.Sort(active)
				if got := strings.Join(active, " "); got != "ip:203.0.113.1 ip:203.0.113.2 token:blocked token:known" {
					t.Errorf("exempt: %s", got)
				}
				if got := strings.Join(f.active(t, blocks.Block), " "); got != "token:blocked" {
					t.Errorf("blocked: %s, want it unchanged", got)
				}
				if r := f.records(t)[0]; r.Action != "exemption.import" || r.Object != "exemption" || !strings.HasPrefix(r.Summary, "Imported exemptions: 3 created") {
					t.Errorf("the record is %+v", r)
				}
			})
		})
	}
}

// An exemption needs the confirmation that adding it by hand needs: it refuses nobody, so neither
// the caller's address nor the traffic asks for one.
func TestImportOfBroadExemptionsNeedsConfirmation(t *testing.T) {
	f := newFixture(t, t.TempDir()+"/stint.db")
	f.Traffic = recorded{"ip:192.0.2.1": 100}
	o := admin.ImportOptions{Kind: blocks.Exemption}
	if _, err := f.run(t, "192.0.2.0/24\n203.0.113.0/24\n", o); err != nil {
		t.Fatalf("narrow networks, one with the caller's address and all of the traffic: %v", err)
	}
	for list, reason := range map[string]string{
		"*\n": "every key", "10.0.0.0/15\n": "wider than a /16", "11.0.0.0/16\n11.1.0.0/16\n": "together it is wider than a /16", "token:*\n": "every key of the kind",
	} {
		before := f.active(t, blocks.Exemption)
		_, err := f.run(t, list, o)
		var needs *admin.NeedsConfirmation
		if !errors.As(err, &needs) || !strings.Contains(needs.Findings[0].Reason, reason) || !fault.Is(err, fault.NeedConfirm) {
			t.Fatalf("%q: got %v", list, err)
		}
		if !strings.Contains(err.Error(), "the file is broad: ") {
			t.Errorf("%q: got %q", list, err)
		}
		if after := f.active(t, blocks.Exemption); len(after) != len(before) {
			t.Errorf("%q: imported %q without a confirmation", list, after)
		}
		predicted, err := f.run(t, list, admin.ImportOptions{Kind: blocks.Exemption, DryRun: true})
		if err != nil || predicted.Confirmation == nil || predicted.Confirmation.Digest != needs.Digest {
			t.Fatalf("%q: the dry run says %+v, %v", list, predicted, err)
		}
		ofBlocks, err := f.run(t, list, admin.ImportOptions{DryRun: true})
		if err != nil || ofBlocks.Confirmation.Digest == needs.Digest {
			t.Errorf("%q: what confirms blocks also confirms exemptions, %v", list, err)
		}
		if _, err := f.run(t, list, admin.ImportOptions{Kind: blocks.Exemption, Confirm: needs.Digest}); err != nil {
			t.Fatalf("%q, confirmed: %v", list, err)
		}
	}
}

func TestExportsAreImportedAsTheSameKindOnly(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.add(t, blocks.Exemption, "token:ours", blocks.Expiry{})
		f.add(t, blocks.Exemption, "token:partner", blocks.Expiry{For: time.Hour})
		f.add(t, blocks.Block, "token:theirs", blocks.Expiry{})
		for _, format := range []admin.FileFormat{blocklist.CSV, blocklist.JSON} {
			for kind, other := range map[blocks.Kind]blocks.Kind{blocks.Block: blocks.Exemption, blocks.Exemption: blocks.Block} {
				var file bytes.Buffer
				if err := f.Export(t.Context(), &file, blocks.Filter{Kind: kind}, format); err != nil {
					t.Fatal(err)
				}
				_, err := f.Import(t.Context(), ann, bytes.NewReader(file.Bytes()), admin.ImportOptions{Kind: other, Format: format})
				var e *fault.Error
				if !errors.As(err, &e) || e.Code != fault.Invalid || e.Detail["invalid"] != e.Detail["rows"] {
					t.Errorf("an export of %ss imported as %ss: got %v", kind, other, err)
				} else if rows := e.Detail["invalid_rows"].([]admin.InvalidRow); rows[0].Line != 2 {
					t.Errorf("the first invalid row is said to be in line %d, want 2", rows[0].Line)
				}
				result, err := f.Import(t.Context(), ann, bytes.NewReader(file.Bytes()), admin.ImportOptions{Kind: kind, Format: format})
				if err != nil || result.Invalid != 0 || result.Unchanged != result.Rows || result.Rows == 0 {
					t.Errorf("an export of %ss imported again: got %+v, %v", kind, result, err)
				}
			}
		}
	})
}

func TestImportOfExemptionsIsUndone(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.add(t, blocks.Block, "token:a", blocks.Expiry{})
		result, err := f.run(t, "token:a\ntoken:b\n", admin.ImportOptions{Kind: blocks.Exemption})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.store.Undo(t.Context(), ann.Actor, result.RecordID); err != nil {
			t.Fatal(err)
		}
		if left := f.active(t, blocks.Exemption); left != nil {
			t.Errorf("exempt after the undo: %q", left)
		}
		if left := f.active(t, blocks.Block); len(left) != 1 {
			t.Errorf("blocked after the undo: %q", left)
		}
		if r := f.records(t)[0]; r.Action != "exemption.end_import" || !strings.Contains(r.Summary, "2 of the 2 exemptions") {
			t.Errorf("the record is %+v", r)
		}
	})
}
