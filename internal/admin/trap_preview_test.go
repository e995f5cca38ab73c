package admin_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

// recordedRequests are several equal requests of one client.
type recordedRequests struct {
	key, path string
	times     int
	refused   bool
	reported  bool // known only from reports of failures
}

// policiesOf returns the use case of policies on a node that recorded requests, each element in
// its own minute.
func (f *fixture) policiesOf(t *testing.T, requests []recordedRequests) *admin.Policies {
	t.Helper()
	secret := func() []byte { return []byte("secret") }
	r := recorder.NewRecorder(recorder.Options{Secret: secret, Node: "a"})
	flusher := recorder.NewFlusher(recorder.FlusherOptions{
		Recorder: r, Sink: f.store.Offences, Node: "a", Secret: secret, Log: slog.New(slog.DiscardHandler),
		Escalations: func() map[int64]offences.EscalationPolicy { return nil }, Now: func() time.Time { return f.now },
	})
	for i, q := range requests {
		k, err := keys.Parser{}.Key(q.key)
		if err != nil {
			t.Fatal(err)
		}
		at, request := noon.Add(time.Duration(i-len(requests))*time.Minute), conditions.NewRequest(q.path, "", "", "")
		d := gate.Decision{Check: gate.Check{Key: k, Cost: 1, Request: request}, Outcome: gate.Allowed, Answer: gate.Answer{At: at, Rule: -1}}
		if q.refused {
			d.Outcome = gate.Unavailable
		}
		for range q.times {
			if q.reported {
				r.RecordReport(&gate.Reported{Report: gate.Report{Key: k, Outcome: conditions.NotFound, Request: request}, At: at})
			} else {
				r.Record(&d)
			}
		}
	}
	if err := flusher.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return admin.NewPolicies(f.store.Policies, admin.PolicyOptions{View: f.catalog, Now: func() time.Time { return f.now },
		Paths: func(ctx context.Context, from, to time.Time) (*admin.PathSample, error) {
			return admin.ReadPathSample(ctx, f.store.Offences, secret(), from, to)
		}})
}

// trapOn returns a trap for addresses that blocks after three refusals in an hour.
func trapOn(t *testing.T, paths ...string) *rules.Policy {
	t.Helper()
	p := policyWith(t, "traps", "ip:*", "0/1s")
	when, err := conditions.Parse(conditions.Texts{"path": paths})
	if err != nil {
		t.Fatal(err)
	}
	p.When = when
	p.Escalation = &rules.Escalation{Threshold: 3, Window: time.Hour, Duration: time.Hour, Factor: 2, MaxDuration: 24 * time.Hour, DecayAfter: 24 * time.Hour}
	return p
}

func preview(t *testing.T, policies *admin.Policies, p *rules.Policy) wire.TrapPreview {
	t.Helper()
	all, err := policies.PreviewTraps(t.Context(), []*rules.Policy{policyWith(t, "other", "*", "1/1s"), p}, time.Hour)
	if err != nil || len(all) != 1 {
		t.Fatalf("got %+v, %v", all, err)
	}
	return all[0]
}

func TestTrapPreviewUsesTheSampledPaths(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.add(t, blocks.Exemption, "ip:203.0.113.99", blocks.Expiry{})
		const scanner, person, once = "ip:203.0.113.1", "ip:203.0.113.2", "ip:203.0.113.3"
		policies := f.policiesOf(t, []recordedRequests{
			{key: scanner, path: "/.env", times: 2}, {key: scanner, path: "/a/%2egit/config", times: 1, refused: true},
			{key: scanner, path: "/.env", times: 2, reported: true}, {key: scanner, path: "/old", times: 1}, {key: scanner, path: "/old", times: 1, reported: true},
			{key: person, path: "/", times: 5}, {key: person, path: "/.env", times: 1},
			{key: once, path: "/.git/HEAD", times: 1, reported: true},
			{key: "ip:203.0.113.4", path: "/", times: 3}, {key: "ip:203.0.113.5", times: 2},
			{key: "ip:203.0.113.6", path: "/" + strings.Repeat("x", 300), times: 1},
			{key: "ip:203.0.113.99", path: "/.env", times: 9}, {key: "token:abc", path: "/.env", times: 9},
		})
		got := preview(t, policies, trapOn(t, "*/.env", "*/.git/*", "/never"))
		want := wire.TrapPreview{
			Policy: "traps", FirstAt: got.FirstAt, LastAt: got.LastAt, SampleRatio: 1, Keys: 6, Requests: 17, WithPath: 14, LeftOut: 1,
			CaughtKeys: 3, Caught: 5, RefusedNow: 1, OtherKeys: 1, Other: 5, BlockedKeys: 1,
			Entries:  []wire.TrapEntry{{Path: "*/.env", Requests: 3, Keys: 2, OtherKeys: 1}, {Path: "*/.git/*", Requests: 2, Keys: 2}, {Path: "/never"}},
			Top:      []wire.TrappedKey{{Key: scanner, Caught: 3, Blocked: true}, {Key: person, Caught: 1, Other: 5}, {Key: once, Caught: 1}},
			TopOther: []wire.TrappedKey{{Key: person, Caught: 1, Other: 5}},
			Note:     "2 requests came without a path. The path of 1 request was not recorded: it was longer than 256 bytes, or there were too many different ones in a minute.",
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got\n%+v, want\n%+v", got, want)
		}
		if !got.LastAt.Equal(noon) || !got.FirstAt.Equal(noon.Add(-13*time.Minute)) {
			t.Errorf("the traffic is from %s to %s", got.FirstAt, got.LastAt)
		}
	})
}

func TestPreviewReportsWhatIsUnknown(t *testing.T) {
	trap := trapOn(t, "*/.env")
	withAgent := trapOn(t, "*/.env")
	when, err := conditions.Parse(conditions.Texts{"path": {"*/.env"}, "agent": {"*"}})
	if err != nil {
		t.Fatal(err)
	}
	withAgent.When = when
	for name, test := range map[string]struct {
		policy   *rules.Policy
		requests []recordedRequests
		want     string
	}{
		"nothing recorded": {trap, nil, "No traffic was recorded in this time."},
		"other keys":       {trap, []recordedRequests{{key: "token:abc", path: "/.env", times: 1}}, "None of the recorded keys is of this policy."},
		"no paths":         {trap, []recordedRequests{{key: "ip:203.0.113.1", times: 7}}, "None of the 7 recorded requests has its path"},
		"only reports":     {trap, []recordedRequests{{key: "ip:203.0.113.1", times: 7}, {key: "ip:203.0.113.1", path: "/.env", times: 1, reported: true}}, "the paths of requests that succeeded are not known"},
		"an agent":         {withAgent, []recordedRequests{{key: "ip:203.0.113.1", path: "/", times: 1}}, "The conditions on agent are left out"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, storetest.Migrated.SQLite(t))
			if got := preview(t, f.policiesOf(t, test.requests), test.policy); !strings.Contains(string(got.Note), test.want) {
				t.Errorf("the note is %q, want %q", got.Note, test.want)
			}
		})
	}
}

func TestTrapPreviewReturnsCountsAndRatioOfTheSample(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	var requests []recordedRequests
	for i := range 40 {
		requests = append(requests, recordedRequests{key: "ip:203.0.113.200", path: "/.env", times: 1 + i%2})
	}
	policies := f.policiesOf(t, requests)
	whole := policies.Paths
	policies.Paths = func(ctx context.Context, from, to time.Time) (*admin.PathSample, error) {
		sample, err := whole(ctx, from, to)
		if sample != nil {
			sample.Ratio = 0.25
		}
		return sample, err
	}
	if got := preview(t, policies, trapOn(t, "*/.env")); got.SampleRatio != 0.25 || got.Caught != 60 || got.CaughtKeys != 1 || got.BlockedKeys != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestTrapPreviewNeedsASampleAndAValidRange(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	trap := []*rules.Policy{trapOn(t, "*/.env")}
	if _, err := f.policies().PreviewTraps(t.Context(), trap, time.Hour); !fault.Is(err, fault.NotFound) {
		t.Errorf("PreviewTraps without records: got %v, want NotFound", err)
	}
	policies := f.policiesOf(t, nil)
	for _, span := range []time.Duration{time.Second, 32 * 24 * time.Hour} {
		if _, err := policies.PreviewTraps(t.Context(), trap, span); !fault.Is(err, fault.Invalid) {
			t.Errorf("PreviewTraps of %s: got %v, want Invalid", span, err)
		}
	}
	if got, err := policies.PreviewTraps(t.Context(), []*rules.Policy{policyWith(t, "default", "*", "1/1s")}, time.Hour); err != nil || got != nil {
		t.Errorf("PreviewTraps of a policy that is no trap: got %+v, %v; want nil", got, err)
	}
	waits, goOn := make(chan struct{}), make(chan struct{})
	policies.Paths = func(context.Context, time.Time, time.Time) (*admin.PathSample, error) {
		close(waits)
		<-goOn
		return nil, fmt.Errorf("no database")
	}
	ended := make(chan error)
	go func() { _, err := policies.PreviewTraps(t.Context(), trap, time.Hour); ended <- err }()
	<-waits
	if _, err := policies.PreviewTraps(t.Context(), trap, time.Hour); !fault.Is(err, fault.Conflict) {
		t.Errorf("PreviewTraps while another runs: got %v, want Conflict", err)
	}
	policies.Traffic = func(context.Context, time.Time, time.Time) (accesslog.Source, bool, error) {
		return noRequests{}, true, nil
	}
	if trial, err := policies.Try(t.Context(), trap[0], time.Hour); err != nil || trial == nil || trial.Trap != nil {
		t.Errorf("Try while a preview runs: got %+v, %v; want a trial without a preview", trial, err)
	}
	close(goOn)
	if err := <-ended; err == nil {
		t.Error("PreviewTraps returned no error although the database failed")
	}
}

// noRequests is traffic without requests.
type noRequests struct{}

func (noRequests) Next() (accesslog.Record, error) { return accesslog.Record{}, io.EOF }
