package admin_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

// count writes the allowed and refused checks of keys in the minute before now.
func (f *fixture) count(t *testing.T, all map[string][2]int64) {
	t.Helper()
	minute := f.now.Add(-time.Minute).Truncate(time.Minute).UnixMilli()
	b := &offences.Batch{ID: fmt.Sprint(t.Name(), f.now.UnixNano())}
	macs := offences.NewRefusalIDMaker([]byte("0123456789abcdef0123456789abcdef"))
	totals := offences.Totals{Minute: minute, Policy: 1}
	for key, did := range all {
		b.Keys = append(b.Keys, offences.KeyTraffic{Minute: minute, Policy: 1, Key: key, Allowed: did[0], Refused: did[1], Cost: did[0]})
		totals.Allowed += did[0]
		totals.Limited += did[1]
		if did[1] > 0 {
			b.Offences = append(b.Offences, offences.Offence{Minute: minute, Policy: 1, Key: key, MAC: macs.MAC(1, key), RefusedBy: "20/1m", Count: did[1]})
		}
	}
	b.Totals = []offences.Totals{totals}
	if _, err := f.store.Offences.Flush(t.Context(), b, offences.Evaluation{Now: f.now}); err != nil {
		t.Fatal(err)
	}
}

func TestImpactOfABlockNamesExemptionsAndOverlappingBlocks(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.add(t, blocks.Block, "ip:203.0.0.0/8", blocks.Expiry{})
		inner := f.add(t, blocks.Block, "ip:203.0.113.8", blocks.Expiry{})
		f.add(t, blocks.Block, "token:a", blocks.Expiry{})
		exempt := f.add(t, blocks.Exemption, "ip:203.0.113.7", blocks.Expiry{})
		f.Traffic = recorded{"ip:203.0.113.1": 3, "ip:192.0.2.1": 97}
		i, err := f.Preview(t.Context(), ann, blocks.Block, "ip:203.0.113.0/24", false)
		if err != nil {
			t.Fatal(err)
		}
		if !i.BlocksCaller || i.IsExempt || len(i.Exemptions) != 1 || len(i.CoveredBy) != 1 || len(i.Covers) != 1 || i.Covers[0].ID != inner.ID || i.Traffic.Ratio != 0.03 {
			t.Fatalf("got %+v", i)
		}
		if !strings.Contains(i.ConfirmReason, "3.0%") {
			t.Errorf("the reason for a block of 3%% of the traffic is %q, want it to name 3.0%%", i.ConfirmReason)
		}
		if len(i.Warnings) != 2 || !strings.Contains(i.Warnings[0], exempt.ID) || !strings.Contains(i.Warnings[1], "your own address, 203.0.113.9") {
			t.Errorf("warnings %q", i.Warnings)
		}
		i, err = f.Preview(t.Context(), admin.Caller{Address: netip.MustParseAddr("203.0.113.7")}, blocks.Block, "ip:203.0.113.7", false)
		if err != nil || i.BlocksCaller || !i.IsExempt || i.ConfirmReason != "" {
			t.Fatalf("the impact on an exempt key is %+v, %v", i, err)
		}
		if i, err = f.Preview(t.Context(), ann, blocks.Exemption, "ip:203.0.113.0/24", false); err != nil || i.ConfirmReason != "" || i.BlocksCaller || len(i.Covers) != 1 || i.Suggested != nil {
			t.Fatalf("the impact of an exemption is %+v, %v", i, err)
		}
		if _, err := f.Preview(t.Context(), ann, blocks.Block, "ip:nothing", false); !isField(err, "pattern") {
			t.Errorf("got %v", err)
		}
	})
}

func TestImpactCountsKeysAndSuggestsTheNarrowestPattern(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.count(t, map[string][2]int64{
			"ip:198.51.100.7": {4, 50}, "ip:198.51.100.9": {1, 40}, "ip:198.51.7.1": {9, 10}, "ip:198.51.7.2": {6, 0}, "ip:192.0.2.1": {80, 300},
		})
		for text, want := range map[string]string{
			"ip:198.51.0.0/16":   "198.51.100.0/24 90 5 of 100 20", // none of its keys has four fifths
			"ip:198.51.7.0/24":   "198.51.7.1 10 9 of 10 15",
			"ip:198.51.100.0/24": "none of 90 5",
			"ip:0.0.0.0/0":       "none of 400 100",
			"*":                  "none of 400 100",
			"ip:192.0.2.1":       "none of 300 80",
			"ip:10.0.0.0/8":      "none of 0 0",
		} {
			i, err := f.Preview(t.Context(), ann, blocks.Block, text, false)
			if err != nil {
				t.Fatal(err)
			}
			got := "none"
			if s := i.Suggested; s != nil {
				got = fmt.Sprintf("%s %d %d", strings.TrimPrefix(s.Pattern.String(), "ip:"), s.Refused, s.Allowed)
			}
			got += fmt.Sprintf(" of %d %d", i.Counted.Refused, i.Counted.Allowed)
			if got != want || i.Counted.AllAllowed != 100 || i.Counted.AllRefused != 400 || !i.Counted.IsExact {
				t.Errorf("%s: got %s, want %s, of all %+v", text, got, want, i.Counted)
			}
		}
		if i, err := f.Preview(t.Context(), ann, blocks.Exemption, "ip:198.51.0.0/16", false); err != nil || i.Suggested != nil || i.Counted.Keys != 4 {
			t.Errorf("an exemption: %+v, %v", i, err)
		}
		for text, want := range map[string]string{
			"ip:198.51.0.0/16": "24: 198.51.7.0/24 198.51.100.0/24", "ip:198.51.7.0/28": "32: 198.51.7.1/32 198.51.7.2/32",
			"ip:198.51.7.0/29": "", "ip:2001:db8::/48": "56:", "ip:2001:db8::/61": "", "token:a": "", "*": "",
		} {
			parts, err := f.Parts(t.Context(), keytest.Pattern(t, text))
			got := ""
			if parts != nil {
				got = fmt.Sprintf("%d:", parts.Bits)
				for _, part := range parts.Seen {
					got += " " + part.Network.String()
				}
			}
			if err != nil || got != want {
				t.Errorf("the parts of %s are %q, want %q, %v", text, got, want, err)
			}
		}
	})
}

func TestOnlyBroadEntriesNeedAConfirmation(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	for text, isBroad := range map[string]bool{
		"*": true, "ip:*": true, "token:*": true, "ip:10.0.0.0/8": true, "ip:10.0.0.0/15": true, "ip:2000::/3": true, "ip:2001:db8::/31": true,
		"ip:10.0.0.0/16": false, "ip:10.0.0.1": false, "ip:2001:db8::/32": false, "ip:2001:db8::/64": false, "token:test_*": false, "token:a": false,
	} {
		for _, kind := range blocks.Kinds {
			i, err := f.Preview(t.Context(), ann, kind, text, false)
			if err != nil || (i.ConfirmReason != "") != isBroad {
				t.Errorf("Preview of %s %s: got the reason %q, %v; want a reason: %v", kind, text, i.ConfirmReason, err, isBroad)
				continue
			}
			a := admin.AddEntries{Kind: kind, Patterns: []string{text}}
			if _, err := f.Add(t.Context(), ann, a); fault.Is(err, fault.NeedConfirm) != isBroad || isField(err, "confirm") != isBroad {
				t.Errorf("Add of %s %s: got %v, want NeedConfirm: %v", kind, text, err, isBroad)
			}
		}
	}
}

func TestUnreachableEstimateDoesNotPreventABlock(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	f.Traffic = unreachable{}
	if _, err := f.Preview(t.Context(), ann, blocks.Block, "ip:198.51.100.0/24", false); err == nil {
		t.Fatal("Preview without an estimate returned no error")
	}
	if _, err := f.Add(t.Context(), ann, admin.AddEntries{Kind: blocks.Block, Patterns: []string{"ip:198.51.100.0/24"}}); err != nil {
		t.Error(err)
	}
	if _, err := f.run(t, "192.0.2.0/24\n", admin.ImportOptions{}); err != nil {
		t.Error(err)
	}
}

// How many clients are selected by the bot that they say to be is not known: the impact says so.
func TestImpactOfAPatternOfBots(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.Traffic = recorded{"ip:203.0.113.1": 3}
		for text, isKnown := range map[string]bool{"bot:openai/gptbot": true, "category:search/claimed": true, "bot:openai/*": true, "bot:openai/gptbott": false} {
			i, err := f.Preview(t.Context(), ann, blocks.Block, text, false)
			if err != nil || i.ConfirmReason == "" || i.Counted != nil || i.Traffic != nil || isKnown != (len(i.Warnings) == 0) {
				t.Errorf("%s: %+v, %v", text, i, err)
			}
		}
	})
}
