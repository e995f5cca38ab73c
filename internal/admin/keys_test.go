package admin_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/wire"
)

// orderedRecorder calls before and then records in the audit log, or fails with err.
type orderedRecorder struct {
	audit.Recorder
	before func()
	err    error
}

func (r *orderedRecorder) AddRecord(ctx context.Context, e audit.Record) error {
	r.before()
	if r.err != nil {
		return r.err
	}
	return r.Recorder.AddRecord(ctx, e)
}

// keyFixture is a node's key use case with a log in memory, in which the key
// token:a has used one request under the policy default.
func keyFixture(t *testing.T, f *fixture) (*admin.Keys, *orderedRecorder, func() int) {
	log := memlog.New(memlog.Options{Now: func() time.Time { return f.now }})
	g := gate.New(gate.Options{View: f.catalog, Log: log, Now: func() time.Time { return f.now }})
	recorder := &orderedRecorder{Recorder: f.store.Audit, before: func() {}}
	use := &admin.Keys{View: f.catalog, Gate: g, Logs: []timestamplog.Log{log}, Notes: f.store.Notes, Recorder: recorder,
		Erasure: f.store.Erasure, Secret: func() []byte { return []byte("secret") }, Forget: func(context.Context, string) error { return nil }}
	key, err := use.Parse(t.Context(), "token:a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Check(t.Context(), gate.Check{Key: key, Cost: 1}); err != nil {
		t.Fatal(err)
	}
	used := func() int {
		x, err := use.Explain(t.Context(), key, "default")
		if err != nil {
			t.Fatal(err)
		}
		return x.Enforcing.Rules[0].Used
	}
	return use, recorder, used
}

func lastRecord(t *testing.T, f *fixture) *audit.Record {
	t.Helper()
	page, err := f.store.Audit.FindRecords(t.Context(), audit.Filter{Limit: 1})
	if err != nil || len(page.Records) == 0 {
		t.Fatal(page, err)
	}
	return page.Records[0]
}

func TestResetIsRecordedBeforeItHappens(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		use, recorder, used := keyFixture(t, f)
		if used() != 1 {
			t.Fatalf("the key has used %d", used())
		}
		recorder.err = errors.New("no database")
		if _, err := use.Reset(t.Context(), ann, "token:a", ""); !errors.Is(err, recorder.err) || used() != 1 {
			t.Errorf("Reset without a record: got %v, and the key has used %d; want the error and 1", err, used())
		}
		recorder.err = nil
		atRecord := -1
		recorder.before = func() { atRecord = used() }
		reset, err := use.Reset(t.Context(), ann, "token:a", "default")
		if err != nil || !slices.Equal(reset.Logs, []admin.LogReset{{Policy: "default", Existed: true}}) {
			t.Fatal(reset, err)
		}
		if atRecord != 1 || used() != 0 {
			t.Errorf("the key had used %d when the reset was recorded and %d after it", atRecord, used())
		}
		if r := lastRecord(t, f); r.Action != "key.reset" || r.ObjectID != "token:a" || r.Actor.Name != "ann" || !strings.Contains(r.Summary, "policy default") {
			t.Errorf("the record is %+v", r)
		}
	})
}

func TestResetIncludesLogsOfTheKeyAsAFurtherKey(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		p := policyWith(t, "guessing", "ip:*", "9/1h")
		also, err := rules.ParseAlso([]string{"net:/24 5/1h"})
		if err != nil {
			t.Fatal(err)
		}
		p.Also = also
		if _, err := f.policies().Put(t.Context(), ann, p, etag.New, ""); err != nil {
			t.Fatal(err)
		}
		use, _, _ := keyFixture(t, f)
		used := func() int {
			x, err := use.Explain(t.Context(), mustParse(t, use, "net:192.0.2.0/24"), "")
			if err != nil || len(x.Conditional) != 1 {
				t.Fatal(x, err)
			}
			return x.Conditional[0].Rules[0].Used
		}
		if _, err := use.Gate.(*gate.Gate).Check(t.Context(), gate.Check{Key: mustParse(t, use, "ip:192.0.2.7"), Cost: 1}); err != nil || used() != 1 {
			t.Fatalf("the network has used %d, %v", used(), err)
		}
		reset, err := use.Reset(t.Context(), ann, "net:192.0.2.0/24", "guessing")
		if err != nil || !slices.Equal(reset.Logs, []admin.LogReset{{Policy: "guessing", Existed: true}}) || used() != 0 {
			t.Errorf("%v, %v, and the network has used %d", reset, err, used())
		}
	})
}

func mustParse(t *testing.T, use *admin.Keys, text string) keys.Key {
	t.Helper()
	k, err := use.Parse(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestFaultsOfAResetNameTheFieldAndAreNotRecorded(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		use, recorder, used := keyFixture(t, f)
		recorder.before = func() { t.Error("an invalid reset is recorded") }
		for field, args := range map[string][2]string{"key": {"", "default"}, "policy": {"token:a", "other"}} {
			_, err := use.Reset(t.Context(), ann, args[0], args[1])
			var mistake *fault.Error
			if !errors.As(err, &mistake) || mistake.Field != field {
				t.Errorf("Reset of %v: got %v, want an error of the field %s", args, err, field)
			}
		}
		if used() != 1 {
			t.Errorf("the key has used %d", used())
		}
	})
}

// unreachableLog is a log whose server is unreachable.
type unreachableLog struct{ timestamplog.Log }

func (unreachableLog) Reset(context.Context, timestamplog.LogID) (bool, error) {
	return false, timestamplog.ErrUnreachable
}

func TestResetWithAnUnreachableLogAsksToRepeatIt(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		use, _, _ := keyFixture(t, f)
		use.Logs = append([]timestamplog.Log{unreachableLog{}}, use.Logs...)
		if _, err := use.Reset(t.Context(), ann, "token:a", ""); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "repeat it") {
			t.Errorf("got %v", err)
		}
	})
}

func TestNoteIsAddedFoundAndDeleted(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		use, _, _ := keyFixture(t, f)
		n, err := use.AddNote(t.Context(), ann, wire.NoteRequest{Key: "token:a", Text: "  line 1\r\nline 2\n"})
		if err != nil || n.Text != "line 1\nline 2" || n.Author != "ann" {
			t.Fatal(n, err)
		}
		for _, text := range []string{"", " \n", strings.Repeat("a", admin.MaxNote+1)} {
			if _, err := use.AddNote(t.Context(), ann, wire.NoteRequest{Key: "token:b", Text: text}); !isField(err, "text") {
				t.Errorf("AddNote(%.10q): got %v, want the field text", text, err)
			}
		}
		// The field of the page counts characters.
		if _, err := use.AddNote(t.Context(), ann, wire.NoteRequest{Key: "token:b", Text: strings.Repeat("é", admin.MaxNote)}); err != nil {
			t.Errorf("AddNote of %d characters with accents: %v", admin.MaxNote, err)
		}
		all, err := use.FindNotes(t.Context(), ann, wire.NoteList{Key: "token:a"})
		if err != nil || len(all.Items) != 1 || all.Items[0].ID != n.ID {
			t.Fatal(all, err)
		}
		if _, err := use.DeleteNote(t.Context(), ann, wire.ByID{ID: n.ID}); err != nil {
			t.Fatal(err)
		}
		if _, err := use.DeleteNote(t.Context(), ann, wire.ByID{ID: n.ID}); !fault.Is(err, fault.NotFound) {
			t.Errorf("the second DeleteNote: got %v, want NotFound", err)
		}
		use.Notes = nil
		if _, err := use.AddNote(t.Context(), ann, wire.NoteRequest{Key: "token:a", Text: "x"}); !fault.Is(err, fault.NotFound) || use.HasNotes() {
			t.Errorf("AddNote on a node without notes: got %v, want NotFound", err)
		}
	})
}

func TestRequestedJobIsRecordedWithItsCaller(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		runner, err := jobs.New(jobs.Options{Store: f.store.Jobs, Node: "a", Now: func() time.Time { return f.now }},
			jobs.Job{Name: "tidy", Schedule: "@hourly", Run: func(context.Context, time.Time) (string, error) { return "tidied", nil }})
		if err != nil {
			t.Fatal(err)
		}
		use := &operations.Jobs{Runner: runner, Recorder: f.store.Audit}
		run, err := use.Run(t.Context(), ann, wire.ByName{Name: "tidy"})
		if err != nil || run.Result != "tidied" || run.TriggeredBy != jobs.ByOperator {
			t.Errorf("got %+v, %v", run, err)
		}
		if r := lastRecord(t, f); r.Action != "job.run" || r.ObjectID != "tidy" || r.Actor.Name != "ann" {
			t.Errorf("the record is %+v", r)
		}
		if _, err = use.Run(t.Context(), ann, wire.ByName{Name: "other"}); !fault.Is(err, fault.NotFound) {
			t.Errorf("Run of an unknown job: got %v, want NotFound", err)
		}
		if r := lastRecord(t, f); r.ObjectID != "tidy" {
			t.Errorf("an unknown job is recorded: %+v", r)
		}
	})
}
