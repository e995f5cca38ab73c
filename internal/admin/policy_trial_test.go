package admin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

func TestShadowDraftIsTriedAsIfItEnforced(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	policies := f.policies()
	if _, err := policies.Put(t.Context(), ann, policyWith(t, "login", "ip:203.0.113.0/24", "2/1h"), etag.New, ""); err != nil {
		t.Fatal(err)
	}
	draft := policyWith(t, "login", "ip:203.0.113.0/24", "1/1h", "3/1d")
	draft.Mode = rules.Shadow
	log := strings.Repeat(`203.0.113.7 - - [20/Nov/2026:13:00:01 +0000] "GET / HTTP/1.1" 200 1`+"\n", 4)
	trial, err := policies.Backtest(t.Context(), draft, "access.log", strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	if trial.Requests != 4 || trial.Refused != 3 || trial.RefusedNow != 2 || trial.MoreRefused.Requests != 1 || trial.NewlyAllowed.Keys != 0 {
		t.Errorf("got %+v", trial)
	}
	if len(trial.Rules) != 3 || trial.Rules[0].Rule != "1/1h" || *trial.Rules[0].Draft != 3 || trial.Rules[0].Active != nil || trial.Rules[2].Rule != "2/1h" || *trial.Rules[2].Active != 2 || trial.Rules[2].Draft != nil {
		t.Errorf("got %+v", trial.Rules)
	}
	if now, err := policies.FindPolicyByName(t.Context(), "login"); err != nil || now.Version != 1 || now.Mode != rules.Enforce {
		t.Errorf("the trial changed the policy to %+v, %v", now, err)
	}
}

func TestTrialAttributesOnlyItsOwnRefusalsToTheDraft(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	policies := f.policies()
	if _, err := policies.Put(t.Context(), ann, policyWith(t, "login", "ip:203.0.113.0/24", "1/1h"), etag.New, ""); err != nil {
		t.Fatal(err)
	}
	log := strings.Repeat(`203.0.113.7 - - [20/Nov/2026:13:00:01 +0000] "GET / HTTP/1.1" 200 1`+"\n", 4) +
		strings.Repeat(`198.51.100.7 - - [20/Nov/2026:13:00:02 +0000] "GET / HTTP/1.1" 200 1`+"\n", 3)
	// default refuses two requests of the other address.
	for rule, want := range map[string]int64{"100/1h": 0, "1/1h": 2} {
		trial, err := policies.Backtest(t.Context(), policyWith(t, "partners", "ip:198.51.100.0/24", rule), "access.log", strings.NewReader(log))
		if err != nil {
			t.Fatal(err)
		}
		if trial.RefusedByDraft != want || trial.Refused != 3+want || trial.RefusedNow != 5 {
			t.Errorf("under %s: %d of %d refusals are by the draft, %d requests are refused now; want %d of %d, 5", rule, trial.RefusedByDraft, trial.Refused, trial.RefusedNow, want, 3+want)
		}
	}
}

func TestTrialListsEachKeyOnceByItsOverallChange(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	policies := f.policies()
	if _, err := policies.Put(t.Context(), ann, policyWith(t, "login", "ip:203.0.113.0/24", "2/1h"), etag.New, ""); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	for _, line := range []string{"1 00", "2 00", "3 00", "1 01", "2 01", "3 01", "2 02", "1 31", "4 40", "4 41"} {
		host, minute, _ := strings.Cut(line, " ")
		log.WriteString("203.0.113." + host + ` - - [20/Nov/2026:13:` + minute + `:01 +0000] "GET / HTTP/1.1" 200 1` + "\n")
	}
	trial, err := policies.Backtest(t.Context(), policyWith(t, "login", "ip:203.0.113.0/24", "1/30m"), "access.log", strings.NewReader(log.String()))
	if err != nil {
		t.Fatal(err)
	}
	names := func(k wire.TriedKeys) (all []string) {
		for _, key := range k.Top {
			all = append(all, strings.TrimPrefix(key.Key, "ip:203.0.113.")+":"+strconv.FormatInt(key.RefusedNow, 10)+">"+strconv.FormatInt(key.Refused, 10))
		}
		return all
	}
	// The draft refuses different requests of .1 than the active version, but equally many.
	got := fmt.Sprint(names(trial.NewlyRefused), names(trial.MoreRefused), names(trial.LessRefused), names(trial.NewlyAllowed))
	if want := "[3:0>1 4:0>1] [2:1>2] [] []"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNodeRunsOneTrialAtATime(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	begun, end := make(chan struct{}), make(chan struct{})
	policies := f.policiesOn(func(context.Context, time.Time, time.Time) (accesslog.Source, bool, error) {
		close(begun)
		<-end
		return accesslog.Slice(nil), false, nil
	})
	draft := policyWith(t, "login", "ip:*", "2/1h")
	first := make(chan error, 1)
	go func() {
		_, err := policies.Try(t.Context(), draft, time.Hour)
		first <- err
	}()
	<-begun
	if _, err := policies.Backtest(t.Context(), draft, "access.log", strings.NewReader("")); !fault.Is(err, fault.Conflict) {
		t.Errorf("Backtest while another runs: got %v, want Conflict", err)
	}
	close(end)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestTrialOfTooMuchIsRejected(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	draft := policyWith(t, "login", "ip:*", "2/1h")
	for name, log := range map[string]io.Reader{
		"64 MB of lines": io.MultiReader(strings.NewReader(`203.0.113.7 - - [20/Nov/2026:13:00:01 +0000] "GET / HTTP/1.1" 200 1`+"\n"), newLines(65<<20)),
		"one long line":  strings.NewReader(strings.Repeat("a", 4<<20)),
		"nothing":        strings.NewReader(""),
	} {
		_, err := f.policies().Backtest(t.Context(), draft, "access.log", log)
		var known *fault.Error
		if !errors.As(err, &known) || !strings.HasPrefix(known.Message, "Nothing was tried") {
			t.Errorf("Backtest of %s: got %v, want a fault that says that nothing was tried", name, err)
		}
	}
	for _, span := range []time.Duration{0, -time.Hour, 32 * 24 * time.Hour} {
		if _, err := f.policiesOn(func(context.Context, time.Time, time.Time) (accesslog.Source, bool, error) {
			return accesslog.Slice(nil), false, nil
		}).Try(t.Context(), draft, span); !fault.Is(err, fault.Invalid) {
			t.Errorf("Try of %v: got %v, want Invalid", span, err)
		}
	}
	if _, err := f.policies().Try(t.Context(), draft, time.Hour); !fault.Is(err, fault.NotFound) {
		t.Errorf("Try without recorded traffic: got %v, want NotFound", err)
	}
}

// newLines returns blank lines of so many bytes.
func newLines(size int64) io.Reader { return io.LimitReader(blankLines{}, size) }

type blankLines struct{}

func (blankLines) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '\n'
	}
	return len(p), nil
}

// The recorded traffic has no agents: a draft that looks at them refused none of it, and nothing said why.
func TestTrialSaysWhatRecordedTrafficDoesNotHave(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	policies := f.policies()
	policies.Traffic = func(context.Context, time.Time, time.Time) (accesslog.Source, bool, error) {
		return accesslog.Slice(nil), true, nil
	}
	for agent, want := range map[string]string{"": "", "scraper/*": `policy "draft" has nothing to look at: the recorded traffic has no agent`} {
		draft := policyWith(t, "draft", "*", "0/1s")
		if agent != "" {
			when, err := conditions.Parse(conditions.Texts{"agent": {agent}})
			if err != nil {
				t.Fatal(err)
			}
			draft.When = when
		}
		trial, err := policies.Try(t.Context(), draft, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(trial.Warnings, "; "); got != want {
			t.Errorf("with the agent %q: got %q, want %q", agent, got, want)
		}
	}
}
