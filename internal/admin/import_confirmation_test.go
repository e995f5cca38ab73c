package admin_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
)

// scattered returns every other /16, so that no two form a wider network.
func scattered(n int) string {
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, "%d.%d.0.0/16\n", 1+i*2/256, i*2%256)
	}
	return list.String()
}

func TestImportOfBroadPatternsNeedsConfirmation(t *testing.T) {
	for name, c := range map[string]struct {
		list string
		want []string // part of the reason of each finding
	}{
		"every IPv4 address":                 {"203.0.113.1\n0.0.0.0/0\n", []string{"every IPv4 address"}},
		"every IPv6 address":                 {"::/0\n", []string{"every IPv6 address"}},
		"every key":                          {"*\n", []string{"every key"}},
		"every address":                      {"ip:*\n", []string{"every key of the kind"}},
		"every token":                        {"token:*\n", []string{"every key of the kind"}},
		"a wide network":                     {"10.0.0.0/15\n2001:db8::/31\n", []string{"wider than a /16", "wider than a /32"}},
		"two halves of IPv4":                 {"128.0.0.0/1\n0.0.0.0/1\n", []string{"together it covers every IPv4 address", "wider than a /16", "wider than a /16"}},
		"quarters of IPv6":                   {"::/2\n4000::/2\n8000::/2\nc000::/2\n", []string{"together it covers every IPv6", "wider", "wider", "wider", "wider"}},
		"adjacent networks":                  {"10.0.0.0/16\n192.0.2.1\n10.1.0.0/16\n", []string{"together it is wider than a /16"}},
		"adjacent networks of several sizes": {"10.0.0.0/17\n10.1.0.0/16\n10.0.128.0/18\n10.0.192.0/18\n", []string{"together it is wider than a /16"}},
		"many separate networks":             {scattered(257), []string{"0.4% of all IPv4 addresses"}},
		"the caller's own address":           {"203.0.113.9\n", []string{"your own address, 203.0.113.9"}},
		"the caller's own network":           {"203.0.113.0/24\n203.0.113.9\n", []string{"your own address, 203.0.113.9"}},
		"narrow patterns":                    {"10.0.0.0/16\n10.2.0.0/16\n2001:db8::/32\ntoken:test_*\n203.0.113.1\n", nil},
		"the same network twice":             {"10.0.0.0/16\n10.0.0.0/16\n10.0.7.0/24\n", nil},
		"fewer separate networks":            {scattered(256), nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, t.TempDir()+"/stint.db")
			o := admin.ImportOptions{}
			predicted, err := f.run(t, c.list, admin.ImportOptions{DryRun: true})
			if err != nil {
				t.Fatal(err)
			}
			if (predicted.Confirmation == nil) != (c.want == nil) {
				t.Fatalf("the dry run needs the confirmation %+v, want one: %v", predicted.Confirmation, c.want != nil)
			}
			_, err = f.run(t, c.list, o)
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var needs *admin.NeedsConfirmation
			if !errors.As(err, &needs) || !fault.Is(err, fault.NeedConfirm) {
				t.Fatalf("got %v", err)
			}
			if needs.Count != len(c.want) || len(needs.Findings) != len(c.want) || needs.Digest != predicted.Confirmation.Digest {
				t.Fatalf("got %+v, the dry run %+v", needs.Confirmation, predicted.Confirmation)
			}
			for i, want := range c.want {
				found := needs.Findings[i]
				if !strings.Contains(found.Reason, want) || (found.Impact == nil) != found.Pattern.IsZero() || found.Line == 0 || found.Rows == 0 {
					t.Errorf("finding %d is %+v, want %q", i, found, want)
				}
			}
			if active := f.active(t, blocks.Block); active != nil {
				t.Fatalf("active: %q", active)
			}
			o.Confirm = needs.Digest
			if _, err := f.run(t, c.list+"192.0.2.200\n", o); !fault.Is(err, fault.NeedConfirm) {
				t.Errorf("the digest confirms another file: got %v, want NeedConfirm", err)
			}
			did, err := f.run(t, c.list, o)
			if err != nil || did.Created == 0 {
				t.Errorf("with the confirmation: got %+v, %v", did, err)
			}
		})
	}
}

func TestConfirmationOfAScopeIsNotOneOfAllChecks(t *testing.T) {
	f := newFixture(t, t.TempDir()+"/stint.db")
	o := admin.ImportOptions{Format: admin.BlocksCSV}
	run := func(file string) error {
		_, err := f.Import(t.Context(), f.caller, strings.NewReader(file), o)
		return err
	}
	err := run("pattern,scope\nip:*,login\n")
	var needs *admin.NeedsConfirmation
	if !errors.As(err, &needs) {
		t.Fatalf("got %v", err)
	}
	o.Confirm = needs.Digest
	if err := run("pattern,scope\nip:*,\n"); !fault.Is(err, fault.NeedConfirm) {
		t.Errorf("without the scope: got %v, want that a confirmation is needed", err)
	}
	if err := run("pattern,scope\nip:*,login\n"); err != nil {
		t.Errorf("with the scope: %v", err)
	}
}

func TestRowsThatRefuseMuchTrafficNeedConfirmation(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.caller.Address = netip.Addr{}
		f.Traffic = recorded{"ip:203.0.113.1": 1, "ip:198.51.100.1": 1, "ip:192.0.2.1": 98}
		_, err := f.run(t, "203.0.113.0/24\n198.51.100.0/24\n", admin.ImportOptions{})
		var needs *admin.NeedsConfirmation
		if !errors.As(err, &needs) || needs.Count != 1 || needs.Findings[0].Rows != 2 || !strings.Contains(needs.Findings[0].Reason, "2.0%") {
			t.Fatalf("got %v", err)
		}
		// A block of a single client needs no confirmation.
		if _, err := f.run(t, "192.0.2.1\n", admin.ImportOptions{}); err != nil {
			t.Fatal(err)
		}
		// This file does not newly refuse what is already refused or exempt.
		f.add(t, blocks.Exemption, "ip:198.51.100.1", blocks.Expiry{})
		if _, err := f.run(t, "192.0.2.0/24\n198.51.100.0/24\n203.0.113.0/24\n", admin.ImportOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestBroadRowsBeyondThoseShownAreCounted(t *testing.T) {
	f := newFixture(t, t.TempDir()+"/stint.db")
	var list strings.Builder
	for i := range 100 {
		fmt.Fprintf(&list, "kind%d:*\n", i)
	}
	_, err := f.run(t, list.String(), admin.ImportOptions{Literal: true})
	var needs *admin.NeedsConfirmation
	if !errors.As(err, &needs) || needs.Count != 100 || len(needs.Findings) != 20 {
		t.Fatalf("got %v", err)
	}
}
