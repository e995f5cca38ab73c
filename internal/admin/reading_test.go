package admin_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

// TestARangeIsAddedAsItsNetworks: all or none, and broad as one.
func TestARangeIsAddedAsItsNetworks(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		add := func(text, confirm string) ([]admin.Added, error) {
			return f.Add(t.Context(), ann, admin.AddEntries{Kind: blocks.Block, Patterns: []string{text}, AddEntry: wire.AddEntry{Reason: "scraping", Confirm: confirm}})
		}
		if added, err := add("10.0.0.1 - 10.0.0.3, AS64500", "AS64500, 10.0.0.1-10.0.0.3"); err != nil || len(added) != 3 || len(f.active(t, blocks.Block)) != 3 {
			t.Errorf("added %v, %v", f.active(t, blocks.Block), err)
		}
		if _, err := add("10.0.0.3-10.0.0.4", ""); err != nil {
			t.Errorf("the end of one that is blocked in part: %v", err)
		}
		if _, err := add("10.0.0.1-10.0.0.2", ""); !fault.Is(err, fault.Conflict) || len(f.active(t, blocks.Block)) != 5 {
			t.Errorf("a range of which a part is blocked: %v, active %v", err, f.active(t, blocks.Block))
		}
		_, err := add("1.0.0.0-2.255.255.255", "")
		var mistake *fault.Error
		if !fault.Is(err, fault.NeedConfirm) || !asFault(err, &mistake) || mistake.Detail["confirm"] != "ip:1.0.0.0/8, ip:2.0.0.0/8" {
			t.Errorf("a broad range: %v", err)
		}
		for _, confirm := range []string{"ip:1.0.0.0/8", "1.0.0.0-1.255.255.255"} {
			if _, err := add("1.0.0.0-2.255.255.255", confirm); !fault.Is(err, fault.NeedConfirm) {
				t.Errorf("confirmed in part by %s: %v", confirm, err)
			}
		}
		for n, confirm := range []string{"ip:1.0.0.0/8, ip:2.0.0.0/8", "1.0.0.0-2.255.255.255"} {
			on := []blocks.Conflict{blocks.Fail, blocks.Keep}[n]
			if _, err := f.Add(t.Context(), ann, admin.AddEntries{Kind: blocks.Block, Patterns: []string{"1.0.0.0-2.255.255.255"}, AddEntry: wire.AddEntry{OnConflict: string(on), Confirm: confirm}}); err != nil {
				t.Errorf("confirmed by %s: %v", confirm, err)
			}
		}
	})
}

func asFault(err error, to **fault.Error) (is bool) {
	if e, found := err.(*fault.Error); found { //nolint:errorlint // it is not wrapped
		*to, is = e, true
	}
	return is
}

// TestNetworksOfARangeAreBroadTogether: each is below the ratio that needs a confirmation.
func TestNetworksOfARangeAreBroadTogether(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	traffic := recorded{"ip:203.0.113.1": 985}
	for _, n := range []string{"1", "2", "3"} {
		traffic["ip:10.0.0."+n] = 5
	}
	f.Traffic = traffic
	request := admin.AddEntries{Kind: blocks.Block, Patterns: []string{"10.0.0.1-10.0.0.3"}}
	if _, err := f.Add(t.Context(), ann, request); !fault.Is(err, fault.NeedConfirm) || !strings.Contains(err.Error(), "together they would have refused about 1.5%") {
		t.Errorf("a range of 1.5%% of the checks: %v", err)
	}
	i, err := f.Preview(t.Context(), ann, blocks.Block, "10.0.0.1-10.0.0.3", false)
	if err != nil || i.Text() != "ip:10.0.0.1, ip:10.0.0.2/31" || i.Traffic.Keys != 3 || !strings.HasPrefix(i.ConfirmReason, "together they would") {
		t.Errorf("preview: %+v, %v", i, err)
	}
	request.Patterns = []string{"10.0.0.1"}
	if _, err := f.Add(t.Context(), ann, request); err != nil {
		t.Errorf("one client: %v", err)
	}
}

// TestAKindIsKnownByItsPoliciesAndKeys: one that neither has needs to be meant.
func TestAKindIsKnownByItsPoliciesAndKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		add := func(text string, literal bool) error {
			_, err := f.Add(t.Context(), ann, admin.AddEntries{Kind: blocks.Block, Patterns: []string{text}, AddEntry: wire.AddEntry{Literal: literal, OnConflict: wire.ConflictKeep}})
			return err
		}
		unknown := []string{"shop:7", "shop:7*", "customer:7", "batch"}
		for _, text := range unknown {
			if err := add(text, false); !isField(err, "pattern") || !strings.Contains(err.Error(), "--literal") {
				t.Errorf("%s before it is known: %v", text, err)
			}
			if err := add(text, true); err != nil {
				t.Errorf("%s, meant literally: %v", text, err)
			}
		}
		match := func(text string) (p keys.Pattern) {
			p, err := keys.Parser{}.Pattern(text)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		also, err := rules.ParseAlso([]string{"customer 10/1h"})
		if err != nil {
			t.Fatal(err)
		}
		stack, err := rules.ParseStack([]string{"5/1s"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.store.Policies.PutPolicy(t.Context(), ann.Actor, &rules.Policy{Name: "shops", Match: []keys.Pattern{match("shop:*"), match("batch")}, Rules: stack, Also: also, Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog}, ""); err != nil {
			t.Fatal(err)
		}
		f.count(t, map[string][2]int64{"fd12:1": {1, 0}, "user42": {0, 1}})
		unknown = append(unknown, "fd12:7", "fd12:a:b", "user42")
		for _, text := range unknown {
			if err := add(text, false); err != nil {
				t.Errorf("%s of a policy: %v", text, err)
			}
		}
		if err := add("batch2", false); !isField(err, "pattern") {
			t.Errorf("another key without a kind: %v", err)
		}
	})
}
