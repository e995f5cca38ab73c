package identities_test

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
)

// records is an audit log that may be unreachable.
type records struct {
	isUnreachable bool
	all           []audit.Record
}

func (r *records) AddRecord(_ context.Context, e audit.Record) error {
	if r.isUnreachable {
		return errors.New("the database is unreachable")
	}
	r.all = append(r.all, e)
	return nil
}

func TestFailedLoginsAreAggregatedAndBounded(t *testing.T) {
	var f identities.FailedLogins
	r, at := &records{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ada := &identity.User{ID: "id-of-ada", Name: "ada"}
	for i := range 3 {
		f.Wrong(ada, address(0), at.Add(time.Duration(i)*time.Second))
	}
	f.Wrong(nil, netip.MustParseAddr("2001:db8::1"), at.Add(time.Minute))
	f.Refused(netip.MustParseAddr("2001:db8::2"), at.Add(2*time.Minute))
	r.isUnreachable = true
	if f.Flush(t.Context(), r) == nil {
		t.Fatal("Flush to an unreachable audit log returned no error")
	}
	r.isUnreachable = false
	f.Wrong(ada, address(0), at.Add(time.Hour))
	if err := f.Flush(t.Context(), r); err != nil || len(r.all) != 2 {
		t.Fatalf("recorded %+v, %v", r.all, err)
	}
	first, second := r.all[0], r.all[1]
	if first.Action != "session.login_failed" || first.ObjectID != ada.ID || first.Actor.Address != "203.0.113.1" ||
		first.Summary != `4 failed logins as "ada".` || !strings.Contains(string(first.After), `"last_at":"2026-01-01T01:00:00Z"`) {
		t.Errorf("recorded %+v %s", first, first.After)
	}
	if second.ObjectID != "" || second.Actor.Address != "2001:db8::/64" || second.Summary != "2 failed logins, 1 of them refused as too many." {
		t.Errorf("recorded %+v", second)
	}

	r.all = nil
	for i := range 10_000 {
		f.Wrong(nil, address(i), at)
	}
	if err := f.Flush(t.Context(), r); err != nil || len(r.all) > 9 {
		t.Fatalf("10,000 failed logins made %d records, want at most 9; %v", len(r.all), err)
	}
	counted := 0
	for _, e := range r.all {
		n, _, _ := strings.Cut(e.Summary, " ")
		one, err := strconv.Atoi(strings.ReplaceAll(n, ",", ""))
		if err != nil {
			t.Fatal(err)
		}
		counted += one
	}
	if counted != 10_000 {
		t.Errorf("the records count %d failures, want 10000", counted)
	}
	if err := f.Flush(t.Context(), r); err != nil || len(r.all) > 9 {
		t.Errorf("after a second Flush there are %d records, want at most 9; %v", len(r.all), err)
	}
}

// address returns the i-th of many addresses in networks of their own.
func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{203, 0, byte(113 + i/200), byte(1 + i%200)})
}
