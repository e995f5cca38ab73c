package api

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
)

const (
	formBody = "Content-Type: multipart/form-data; boundary=b"
	draftOf1 = `{"match":["ip:203.0.113.0/24"],"rules":["1/1h"]}`
	oneLine  = `203.0.113.7 - - [20/Nov/2026:13:00:01 +0000] "GET / HTTP/1.1" 200 1` + "\n"
)

// trialForm is a form with a draft and a log; each is omitted if it is "".
func trialForm(draft, log string) string {
	form := ""
	if draft != "" {
		form += "--b\r\nContent-Disposition: form-data; name=\"policy\"\r\n\r\n" + draft + "\r\n"
	}
	if log != "" {
		form += "--b\r\nContent-Disposition: form-data; name=\"log\"; filename=\"access.log\"\r\n\r\n" + log + "\r\n"
	}
	return form + "--b--\r\n"
}

// describeTrials compares the operations of trials with openapi.json.
func describeTrials(d *described) {
	d.Helper()
	d.do("tryPolicy", post, "/v1/policies/compared/try", draftOf1, 404) // no traffic is recorded here
	d.do("backtestPolicy", post, "/v1/policies/compared/backtest", trialForm(draftOf1, oneLine+oneLine), 200, formBody)
	d.do("backtestPolicy", post, "/v1/policies/compared/backtest", trialForm(draftOf1, ""), 422, formBody)
}

func TestPolicyDraftIsBacktestedOnTrafficAndLog(t *testing.T) {
	n := startNode(t, func(d *nodeParts) {
		key, err := (keys.Parser{}).Key("ip:203.0.113.7")
		if err != nil {
			t.Fatal(err)
		}
		d.Policies.Traffic = func(_ context.Context, from, _ time.Time) (accesslog.Source, bool, error) {
			at := from.UnixMilli()
			return accesslog.Slice([]accesslog.Record{{Time: at, Key: key, Cost: 1}, {Time: at + 1500, Key: key, Cost: 1}}), true, nil
		}
	})
	const try, backtest = "/v1/policies/draft/try", "/v1/policies/draft/backtest"
	trial := read[wire.PolicyTrial](t, n.must(n.as(administer, post, try+"?last=7d", draftOf1), http.StatusOK))
	if !trial.Estimate || trial.Requests != 2 || trial.Refused != 1 || trial.RefusedNow != 0 || trial.NewlyRefused.Keys != 1 || trial.Log != nil {
		t.Errorf("got %+v", trial)
	}
	trial = read[wire.PolicyTrial](t, n.must(n.as(administer, post, backtest, trialForm(draftOf1, oneLine+"\x1b[31mno request\n"+strings.Repeat(oneLine, 2)), formBody), http.StatusOK))
	if trial.Requests != 3 || trial.Refused != 2 || trial.RefusedNow != 2 || trial.Log == nil || trial.Log.Lines != 4 || trial.Log.Invalid != 1 {
		t.Errorf("got %+v, %+v", trial, trial.Log)
	}
	var packed strings.Builder
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(oneLine)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	other := fmt.Sprintf("from byte %d on, is no gzip data and was ignored", packed.Len())
	withOther := read[wire.PolicyTrial](t, n.must(n.as(administer, post, backtest, trialForm(draftOf1, packed.String()+"garbage"), formBody), http.StatusOK))
	if w := withOther.Warnings; withOther.Requests != 1 || len(w) != 1 || !strings.Contains(w[0], other) {
		t.Errorf("got %+v, %+v", withOther, withOther.Log)
	}
	n.must(n.as(reader, get, "/v1/policies/draft", ""), http.StatusNotFound)
	if trial.Trap != nil {
		t.Errorf("the trial on a log has the preview %+v, want none", trial.Trap)
	}

	for last, field := range map[string]string{"1s": "last", "90d": "last", "soon": "last"} {
		n.wantProblem(n.as(administer, post, try+"?last="+last, draftOf1), http.StatusUnprocessableEntity, field)
	}
	n.wantProblem(n.as(administer, post, try, `{"match":["*"],"rules":["1/x"]}`), http.StatusUnprocessableEntity, "rules[0]")
	n.wantProblem(n.as(operate, post, try, draftOf1), http.StatusForbidden, "")
	n.wantProblem(n.as(administer, post, backtest, draftOf1), http.StatusUnsupportedMediaType, "")
	for name, bad := range map[string]struct {
		form   string
		status int
		field  string
	}{
		"no draft":            {trialForm("", oneLine), http.StatusUnprocessableEntity, "policy"},
		"an invalid draft":    {trialForm(`{"match":["*"],"rules":["1/x"]}`, oneLine), http.StatusUnprocessableEntity, "policy.rules[0]"},
		"an unknown member":   {trialForm(`{"match":["*"],"rules":[],"speed":1}`, oneLine), http.StatusUnprocessableEntity, "policy.speed"},
		"no log":              {trialForm(draftOf1, ""), http.StatusUnprocessableEntity, "log"},
		"a log of no format":  {trialForm(draftOf1, "\x00\x01\x02\n"), http.StatusUnprocessableEntity, ""},
		"no request":          {trialForm(draftOf1, oneLine[:20]+"\n"), http.StatusUnprocessableEntity, ""},
		"a truncated form":    {trialForm(draftOf1, oneLine)[:100], http.StatusBadRequest, ""},
		"no form":             {"", http.StatusUnprocessableEntity, "policy"},
		"a draft of 65 KB":    {trialForm(`{"match":["`+strings.Repeat("a", 65<<10)+`"]}`, oneLine), http.StatusRequestEntityTooLarge, ""},
		"fields of over 1 MB": {strings.Repeat("--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n"+strings.Repeat("a", 60<<10)+"\r\n", 20), http.StatusRequestEntityTooLarge, ""},
	} {
		a := n.as(administer, post, backtest, bad.form, formBody)
		t.Logf("%s: %d %s", name, a.status, a.body)
		n.wantProblem(a, bad.status, bad.field)
	}
}

func TestTrapsArePreviewedOnRecordedTraffic(t *testing.T) {
	n := startNode(t, func(d *nodeParts) {
		d.Policies.Traffic = func(context.Context, time.Time, time.Time) (accesslog.Source, bool, error) {
			return accesslog.Slice(nil), false, nil
		}
		d.Policies.Paths = func(_ context.Context, from, to time.Time) (*admin.PathSample, error) {
			if from.Equal(to.Add(-2 * time.Hour)) {
				return nil, errors.New("no database")
			}
			key := func(path string) *admin.SampledKey {
				return &admin.SampledKey{Checks: 2, Paths: []offences.PathPoint{{Minute: from.UnixMilli(), Path: path, Allowed: 2}}}
			}
			return &admin.PathSample{
				Keys: map[string]*admin.SampledKey{"ip:203.0.113.7": key("/.env"), "ip:203.0.113.8": key("/")}, First: from.UnixMilli(), Last: to.UnixMilli(), Ratio: 0.5,
			}, nil
		}
	})
	const path = "/v1/presets/traps/preview"
	preview := read[wire.PresetPreview](t, n.must(n.as(administer, get, path+"?last=7d", ""), http.StatusOK))
	if preview.Name != "traps" || len(preview.Traps) != 1 {
		t.Fatalf("got %+v", preview)
	}
	trap := preview.Traps[0]
	if trap.Policy != "traps" || trap.SampleRatio != 0.5 || trap.Keys != 2 || trap.Requests != 4 || trap.Caught != 2 || trap.CaughtKeys != 1 || trap.OtherKeys != 0 ||
		len(trap.Entries) < 10 || len(trap.Top) != 1 || trap.Top[0] != (wire.TrappedKey{Key: "ip:203.0.113.7", Caught: 2}) || len(trap.TopOther) != 0 || trap.Note != "" {
		t.Errorf("got %+v", trap)
	}
	if preview := read[wire.PresetPreview](t, n.must(n.as(administer, get, "/v1/presets/api/preview", ""), http.StatusOK)); preview.Traps == nil || len(preview.Traps) != 0 {
		t.Errorf("a preset without traps: got %+v, want an empty list", preview)
	}
	trial := read[wire.PolicyTrial](t, n.must(n.as(administer, post, "/v1/policies/mine/try", `{"match":["ip:*"],"when":{"path":["/.env"]},"rules":["0/1s"]}`), http.StatusOK))
	if trial.Trap == nil || trial.Trap.Caught != 2 || len(trial.Trap.Entries) != 1 || trial.Trap.Entries[0] != (wire.TrapEntry{Path: "/.env", Requests: 2, Keys: 1}) {
		t.Errorf("the trial of a trap has the preview %+v", trial.Trap)
	}
	if trial := read[wire.PolicyTrial](t, n.must(n.as(administer, post, "/v1/policies/mine/try", draftOf1), http.StatusOK)); trial.Trap != nil {
		t.Errorf("the trial of a draft without a trap has the preview %+v, want none", trial.Trap)
	}
	for last, field := range map[string]string{"1s": "last", "90d": "last", "soon": "last"} {
		n.wantProblem(n.as(administer, get, path+"?last="+last, ""), http.StatusUnprocessableEntity, field)
	}
	n.wantProblem(n.as(administer, get, path+"?first=1h", ""), http.StatusUnprocessableEntity, "first")
	n.wantProblem(n.as(administer, get, "/v1/presets/none/preview", ""), http.StatusNotFound, "")
	n.wantProblem(n.as(operate, get, path, ""), http.StatusForbidden, "")
	n.must(n.as(administer, get, path+"?last=2h", ""), http.StatusInternalServerError)
}
