package operations_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/test/storetest"
)

func TestAuditRecordsActorOfChangesWithoutSecrets(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		token := storetest.AddToken(t, f, "root", identity.Admin)
		ann := storetest.AddUser(t, f, "ann", identity.Administrator)
		hash := "$argon2id$other"
		if _, err := f.Identities.UpdateUser(ctx, storetest.Operator, ann.ID, identity.UserUpdate{PasswordHash: &hash}); err != nil {
			t.Fatal(err)
		}
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "default", "*", "5/s"), storetest.TagOf(t, f.Policies, "default"))
		page, err := f.Audit.FindRecords(ctx, audit.Filter{Limit: 2})
		if err != nil || len(page.Records) != 2 || page.Next == "" {
			t.Fatalf("%+v, %v", page, err)
		}
		newest := page.Records[0]
		if newest.Action != "policy.replace" || newest.Actor != storetest.Operator || newest.Object != "policy" || newest.ObjectID != "default" ||
			!newest.At.Equal(f.Clock.Now()) || newest.Revision != 5 ||
			!strings.Contains(string(newest.Before), `"800/1d"`) || !strings.Contains(string(newest.After), `"rules":["5/1s"]`) {
			t.Fatalf("got the record %+v", newest)
		}
		if read, err := f.Audit.FindRecordByID(ctx, newest.ID); err != nil || read.Summary != newest.Summary {
			t.Fatalf("%+v, %v", read, err)
		}
		_, err = f.Audit.FindRecordByID(ctx, newest.ID+1)
		storetest.WantFault(t, err, fault.NotFound)
		var actions []string
		for e, err := range f.Audit.EachRecord(ctx, audit.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			actions = append(actions, e.Action)
			for _, text := range []string{string(e.Before), string(e.After), e.Summary} {
				if strings.Contains(text, "argon2id") || strings.Contains(text, string(token.Hash)) || strings.Contains(text, "hash") {
					t.Errorf("the record %s contains a secret: %s", e.Action, text)
				}
			}
		}
		if got, want := strings.Join(actions, " "), "policy.replace user.update user.add token.add policy.create"; got != want {
			t.Fatalf("recorded %s, want %s", got, want)
		}
	})
}

func TestFindRecordsByFilter(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		start := f.Clock.Now()
		f.Clock.Advance(time.Minute)
		storetest.AddToken(t, f, "root", identity.Admin)
		f.Clock.Advance(time.Minute)
		ann := storetest.AddUser(t, f, "Ann", identity.Administrator)
		for name, test := range map[string]struct {
			filter audit.Filter
			want   int
		}{
			"from is inclusive and to is not": {audit.Filter{From: start, To: start.Add(time.Minute)}, 1},
			"by actor":                        {audit.Filter{Actor: "ann"}, 2},
			"by action":                       {audit.Filter{Action: "user.add"}, 1},
			"by the part before the dot":      {audit.Filter{Action: "token"}, 1},
			"not by a prefix of the action":   {audit.Filter{Action: "tok"}, 0},
			"by object and id":                {audit.Filter{Object: "user", ObjectID: ann.ID}, 1},
			"by text without case":            {audit.Filter{Search: "USER \"ann\""}, 1},
		} {
			page, err := f.Audit.FindRecords(t.Context(), test.filter)
			if err != nil || len(page.Records) != test.want {
				t.Errorf("%s: got %d records, %v; want %d", name, len(page.Records), err, test.want)
			}
		}
		for _, filter := range []audit.Filter{{Cursor: "-1"}, {Cursor: "!"}, {Limit: 5000}, {Search: "\x00"}} {
			_, err := f.Audit.FindRecords(t.Context(), filter)
			storetest.WantFault(t, err, fault.Invalid)
		}
		removed, err := f.Retention.DeleteRecordsBefore(t.Context(), start.Add(time.Minute))
		if err != nil || removed != 1 {
			t.Fatalf("retention removed %d records, want 1; %v", removed, err)
		}
	})
}

// SQLite compares texts without letters in another way than those with some.
func TestAuditIsSearchedByAddress(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		for _, r := range []audit.Record{{Summary: "Ended the block of 198.51.100.7."}, {Summary: "Ended a block.", ObjectID: "198.51.100.71"}, {Summary: "Ended the block of 198x51.100.7."}} {
			r.Actor, r.Action, r.Object = storetest.Operator, "block.end", "block"
			if err := f.Audit.AddRecord(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		for search, want := range map[string]int{"198.51.100.7": 2, "198.51.100.71": 1, "198_51": 0, "198%": 0, "ENDED": 3, "X51": 1} {
			page, err := f.Audit.FindRecords(t.Context(), audit.Filter{Search: search})
			if err != nil || len(page.Records) != want {
				t.Errorf("%s: got %d records, %v; want %d", search, len(page.Records), err, want)
			}
		}
	})
}

// A page of the audit that sorts all records of its filter takes seconds with a million of them.
func TestPagesOfTheAuditSortNothing(t *testing.T) {
	f := storetest.OpenSQLite(t)
	for uses, filter := range map[string]audit.Filter{
		"":             {},
		"audit_kind":   {Object: "block"},
		"audit_object": {Object: "block", ObjectID: "x"},
	} {
		for _, cursor := range []string{"", "zz"} {
			filter.Cursor, filter.Limit = cursor, 51
			query, args, err := f.Audit.QueryOfRecords(filter)
			if err != nil {
				t.Fatal(err)
			}
			rows, err := f.Raw(t).QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := db.Collect(rows, func(r db.Row) (step string, err error) {
				var id, parent, unused int
				return step, r.Scan(&id, &parent, &unused, &step)
			})
			if got := strings.Join(plan, "; "); err != nil || strings.Contains(got, "TEMP B-TREE") || !strings.Contains(got, uses) {
				t.Errorf("%+v: the plan is %s, %v; want one that uses %q and sorts nothing", filter, got, err, uses)
			}
		}
	}
}
