package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/wire"
)

const csvBody, plainBody, lineBody = "Content-Type: text/csv", "Content-Type: text/plain; charset=utf-8", "Content-Type: application/x-ndjson"

// newJobs returns a runner of two jobs, one of which always fails.
func (n *testNode) newJobs(store jobs.Store) *jobs.Runner {
	r, err := jobs.New(jobs.Options{Store: store, Node: "test", Now: n.clock.Now, Log: slog.New(slog.DiscardHandler)},
		jobs.Job{Name: "good", Help: "Works.", Schedule: "@hourly", Run: func(context.Context, time.Time) (string, error) { return "did it", nil }},
		jobs.Job{Name: "bad", Help: "Fails.", Schedule: "@daily", Run: func(context.Context, time.Time) (string, error) { return "", errors.New("no luck") }},
	)
	if err != nil {
		n.Fatal(err)
	}
	return r
}

// testChannel records what it is sent, or fails.
type testChannel struct {
	sent []notify.Message
	err  error
}

func (c *testChannel) Name() string { return "desk" }

func (c *testChannel) Send(_ context.Context, m notify.Message) error {
	c.sent = append(c.sent, m)
	return c.err
}

// describeOperations compares the operations of operations() with openapi.json.
func describeOperations(d *described) {
	d.Helper()
	d.do("previewBlock", post, "/v1/blocks/preview", `{"pattern":"ip:0.0.0.0/1"}`, 200)
	d.do("importBlocks", post, "/v1/blocks/import?dry_run=true&skip_bad=true&on_conflict=extend&reason=feed&expires_in=7d", "203.0.113.80\nip:*:*\n", 200, plainBody)
	d.do("importBlocks", post, "/v1/blocks/import", "pattern,reason\nip:203.0.113.81,scraping\n", 200, csvBody)
	d.do("importBlocks", post, "/v1/blocks/import", `[{"pattern":"nobody*"}]`, 422)
	d.do("importBlocks", post, "/v1/blocks/import?dry_run=true", "0.0.0.0/1\n128.0.0.0/1\n", 200, plainBody)
	d.do("importBlocks", post, "/v1/blocks/import", "0.0.0.0/1\n128.0.0.0/1\n", 409, plainBody)
	d.do("importExemptions", post, "/v1/exemptions/import?dry_run=true&skip_bad=true&on_conflict=extend&reason=ours&expires_in=7d", "203.0.113.82\nip:*:*\n", 200, plainBody)
	d.do("importExemptions", post, "/v1/exemptions/import", "pattern,kind\nip:203.0.113.82,block\n", 422, csvBody)
	d.do("importExemptions", post, "/v1/exemptions/import?dry_run=true", "0.0.0.0/1\n128.0.0.0/1\n", 200, plainBody)
	d.do("importExemptions", post, "/v1/exemptions/import", "0.0.0.0/1\n128.0.0.0/1\n", 409, plainBody)
	d.do("importExemptions", post, "/v1/exemptions/import", "token:82\n", 200, plainBody)
	d.do("exportBlocks", get, "/v1/blocks/export?format=plain&source=imported", "", 200)
	d.do("exportBlocks", get, "/v1/blocks/export?format=json&state=all", "", 200)
	page := read[wire.Page[wire.AuditEntry]](d, d.as(administer, get, "/v1/audit?limit=1", ""))
	d.do("exportExemptions", get, "/v1/exemptions/export?format=plain", "", 422)
	d.do("exportExemptions", get, "/v1/exemptions/export?format=csv&source=imported", "", 200)
	d.do("exportExemptions", get, "/v1/exemptions/export?format=json&state=all", "", 200)
	d.do("listExemptions", get, "/v1/exemptions?source=imported", "", 200)
	d.do("undoEntry", post, fmt.Sprintf("/v1/audit/%d/undo", page.Items[0].ID), "", 201)
	d.do("undoEntry", post, fmt.Sprintf("/v1/audit/%d/undo", page.Items[0].ID), "", 409)
	d.do("putPolicy", put, "/v1/policies/compared", `{"match":["token:*"],"rules":["1/s"]}`, 201)
	d.do("putPolicy", put, "/v1/policies/compared", `{"match":["token:*"],"rules":["2/s"]}`, 200, d.ifMatch("/v1/policies/compared"))
	d.do("diffPolicy", get, "/v1/policies/compared/diff?from=1&to=2", "", 200)
	d.do("diffPolicy", get, "/v1/policies/compared/diff?from=7", "", 404)
	d.do("explainPolicy", get, "/v1/policies/compared/explain", "", 200)
	d.do("explainPolicy", get, "/v1/policies/nobody/explain", "", 404)
	d.do("explainDraft", post, "/v1/policies/compared/explain", `{"match":["*"],"rules":["0/s"],"algorithm":"gcra"}`, 200)
	d.do("explainDraft", post, "/v1/policies/compared/explain", `{"match":["*"],"rules":["1/x"]}`, 422)
	describeTrials(d)
	d.do("compareDraft", get, "/v1/policies/compared/draft", "", 404)
	d.do("putPolicy", put, "/v1/policies/compared.draft", `{"match":["host:compared-draft"],"rules":["7/m"],"mode":"shadow"}`, 201)
	d.do("compareDraft", get, "/v1/policies/compared/draft", "", 200)
	d.do("promotePolicy", post, "/v1/policies/compared/promote", "", 428)
	d.do("promotePolicy", post, "/v1/policies/compared/promote", "", 412, `If-Match: "1-0123456789abcdef"`)
	d.do("renamePolicy", post, "/v1/policies/compared/rename", `{"name":"other"}`, 428)
	d.do("renamePolicy", post, "/v1/policies/compared/rename", `{"name":"Other!"}`, 422, "If-Match: *")
	d.do("renamePolicy", post, "/v1/policies/compared/rename", `{"name":"default"}`, 409, "If-Match: *")
	d.do("renamePolicy", post, "/v1/policies/compared/rename", `{"name":"contrasted"}`, 200, "If-Match: *")
	d.do("promotePolicy", post, "/v1/policies/contrasted/promote?confirm=contrasted", "", 200, d.ifMatch("/v1/policies/contrasted.draft"))
	d.do("renamePolicy", post, "/v1/policies/contrasted/rename", `{"name":"compared"}`, 200, "If-Match: *")
	d.do("rollBackPolicy", post, "/v1/policies/compared/rollback", "", 428)
	d.do("rollBackPolicy", post, "/v1/policies/compared/rollback", `{"version":1}`, 412, `If-Match: "1-0123456789abcdef"`)
	d.do("rollBackPolicy", post, "/v1/policies/compared/rollback", `{"version":9}`, 404, d.ifMatch("/v1/policies/compared"))
	d.do("rollBackPolicy", post, "/v1/policies/compared/rollback", `{"version":-1}`, 422, d.ifMatch("/v1/policies/compared"))
	d.do("rollBackPolicy", post, "/v1/policies/compared/rollback", `{"version":1}`, 200, d.ifMatch("/v1/policies/compared"))
	d.do("listPresets", get, "/v1/presets", "", 200)
	d.do("previewPreset", get, "/v1/presets/traps/preview?last=1h", "", 404) // no traffic is recorded here
	d.do("exportPolicies", get, "/v1/policy-set", "", 200)
	d.do("exportPolicies", get, "/v1/policy-set?format=yaml", "", 200)
	d.do("planPolicies", post, "/v1/policy-set/plan?prune=true", `{"policies":[],"expect":{"compared":"*","default":"*"}}`, 200)
	d.do("applyPolicies", post, "/v1/policy-set", `{"policies":[{"name":"compared","match":["token:*"],"rules":["1/s"]}],"expect":{"compared":"*"}}`, 200)
	d.do("applyPolicies", post, "/v1/policy-set", `{"policies":[{"name":"compared","match":["token:*"],"rules":["9/s"]}],"expect":{"compared":"1-0123456789abcdef"}}`, 412)
	d.do("listJobs", get, "/v1/jobs", "", 200)
	d.do("runJob", post, "/v1/jobs/good/run", "", 200)
	d.do("runJob", post, "/v1/jobs/nothing/run", "", 404)
	d.do("listRuns", get, "/v1/jobs/runs?job=good&limit=5", "", 200)
	if err := d.store.Outbox.AddNotifications(d.Context(), []notify.Notification{{Kind: notify.Outage, At: start, Subject: "Redis is away"}}, []string{"desk"}); err != nil {
		d.Fatal(err)
	}
	d.do("listNotifications", get, "/v1/notifications", "", 200)
	d.do("testNotification", post, "/v1/notifications/test", `{"channel":"desk"}`, 200)
	d.do("testNotification", post, "/v1/notifications/test", `{"channel":"nobody"}`, 422)
	d.callChannels()
	d.callSources()
	d.do("streamEvents", get, "/v1/events?kind=nothing", "", 422)
}

func TestBroadEntryRequiresConfirmation(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		for _, path := range []string{wire.PathBlocks, wire.PathExemptions} {
			p := n.wantProblem(n.as(operate, post, path, `{"pattern":"ip:10.0.0.0/8"}`), http.StatusConflict, "confirm")
			if p.Code != "confirmation_required" || string(p.More["confirm"]) != `"ip:10.0.0.0/8"` {
				t.Errorf("%s: got %+v", path, p)
			}
			n.wantProblem(n.as(operate, post, path, `{"pattern":"ip:10.0.0.0/8","confirm":"ip:11.0.0.0/8"}`), http.StatusConflict, "confirm")
			n.wantProblem(n.as(operate, post, path, `{"pattern":"ip:10.0.0.0/8","confirm":"yes:"}`), http.StatusUnprocessableEntity, "confirm")
			n.must(n.as(operate, post, path, `{"pattern":"ip:10.0.0.0/8","confirm":"ip:10.0.0.0/8"}`), http.StatusCreated)
			n.must(n.as(operate, post, path, `{"pattern":"ip:10.0.0.0/16"}`), http.StatusCreated)
		}
	})
}

// halfOfAll estimates that any pattern has half of all traffic.
type halfOfAll struct{ err error }

func (h halfOfAll) EstimateTraffic(_ context.Context, from, to time.Time, _ func(keys.Key) bool) (*admin.TrafficEstimate, error) {
	return &admin.TrafficEstimate{From: from, To: to, Keys: 3, AllKeys: 10, Checks: 500, AllChecks: 1000, Ratio: 0.5, Error: 0.02}, h.err
}

func TestBlockOfMuchTrafficRequiresConfirmation(t *testing.T) {
	n := startNode(t, func(d *nodeParts) { d.Entries.Traffic = halfOfAll{} })
	n.must(n.as(operate, post, wire.PathExemptions, `{"pattern":"ip:203.0.113.7"}`), http.StatusCreated)
	n.wantProblem(n.as(operate, post, wire.PathBlocks, `{"pattern":"ip:203.0.113.0/24"}`), http.StatusConflict, "confirm")
	n.must(n.as(operate, post, wire.PathBlocks, `{"pattern":"ip:203.0.113.9"}`), http.StatusCreated)
	preview := read[wire.Impact](t, n.must(n.as(reader, post, wire.PathBlockPreview, `{"pattern":"ip:203.0.113.0/24"}`), http.StatusOK))
	if preview.Confirm != "ip:203.0.113.0/24" || preview.Estimate == nil || preview.Estimate.Ratio != 0.5 || preview.Estimate.RatioError != 0.02 ||
		len(preview.Exemptions) != 1 || len(preview.Covers) != 1 || preview.BlocksCaller || preview.Hidden || len(preview.Warnings) != 1 {
		t.Errorf("got %+v", preview)
	}
	mine := read[wire.Impact](t, n.must(n.as(reader, post, wire.PathBlockPreview, `{"pattern":"ip:127.0.0.1"}`), http.StatusOK))
	if !mine.BlocksCaller || mine.Confirm != "" {
		t.Errorf("the preview of the caller's own address: got %+v", mine)
	}
}

func TestBlockIsAddedWhenTrafficEstimateFails(t *testing.T) {
	n := startNode(t, func(d *nodeParts) { d.Entries.Traffic = halfOfAll{errors.New("the database is away")} })
	n.must(n.as(operate, post, wire.PathBlocks, `{"pattern":"ip:203.0.113.0/24"}`), http.StatusCreated)
	n.wantProblem(n.as(operate, post, wire.PathBlocks, `{"pattern":"ip:*"}`), http.StatusConflict, "confirm")
}

func TestBlocksAreImportedAndExportedInEveryFormat(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		for _, c := range []struct{ header, body string }{
			{csvBody, "pattern,reason,expires_in\nip:203.0.113.1,=1+1,1h\n"},
			{lineBody, `{"pattern":"ip:203.0.113.2","reason":"=1+1"}` + "\n"},
			{"Content-Type: application/json", `[{"pattern":"ip:203.0.113.3","reason":"=1+1"}]`},
			{plainBody, "203.0.113.4 # =1+1\n"},
		} {
			result := read[wire.ImportAnswer](t, n.must(n.as(operate, post, wire.PathBlockImport, c.body, c.header), http.StatusOK))
			if result.Created != 1 || result.Rows != 1 || result.DryRun || result.Estimate != nil {
				t.Errorf("%s: got %+v", c.header, result)
			}
			n.must(n.ask(`{"key":"ip:203.0.113.1"}`), http.StatusForbidden)
		}
		exports := map[string]string{}
		for _, format := range []string{"csv", "json", "plain"} {
			a := n.must(n.as(reader, get, wire.PathBlockExport+"?format="+format, ""), http.StatusOK)
			exports[format] = a.body
			if strings.Count(a.body, "203.0.113.") != 4 {
				t.Errorf("%s: got %s, want 4 addresses", format, a.body)
			}
		}
		if strings.Count(exports["csv"], ",'=1+1,") != 4 {
			t.Errorf("the export contains a formula:\n%s", exports["csv"])
		}
		unchanged := read[wire.ImportAnswer](t, n.must(n.as(operate, post, wire.PathBlockImport, exports["csv"], csvBody), http.StatusOK))
		if unchanged.Unchanged != 4 || unchanged.Created != 0 {
			t.Errorf("importing its own export: got %+v, want 4 unchanged", unchanged)
		}
		n.wantProblem(n.as(operate, post, wire.PathBlockImport, "x", "Content-Type: application/pdf"), http.StatusUnsupportedMediaType, "")
		n.wantProblem(n.as(operate, post, wire.PathBlockImport+"?skip_bad=yes", "x", plainBody), http.StatusUnprocessableEntity, "skip_bad")
		n.wantProblem(n.as(operate, post, wire.PathBlockImport+"?expires_in=soon", "x", plainBody), http.StatusUnprocessableEntity, "expires_in")
		n.wantProblem(n.as(operate, post, wire.PathBlockImport+"?expires_at=2020-01-01T00:00:00Z", "x", plainBody), http.StatusUnprocessableEntity, "expires_at")
		n.wantProblem(n.as(operate, post, wire.PathBlockImport, "reason\nx\n", csvBody), http.StatusBadRequest, "")
	})
}

func TestImportOfBroadPatternsRequiresConfirmation(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		for _, list := range []string{"0.0.0.0/0\n", "::/0\n", "*\n", "ip:*\n", "0.0.0.0/1\n128.0.0.0/1\n", "127.0.0.1\n"} {
			preview := read[wire.ImportAnswer](t, n.must(n.as(operate, post, wire.PathBlockImport+"?dry_run=true", list, plainBody), http.StatusOK))
			if preview.Confirm == "" || preview.BroadCount == 0 || len(preview.Broad) != preview.BroadCount || !preview.Broad[0].BlocksCaller && !strings.Contains(list, ":") {
				t.Fatalf("%q: the dry run returned %+v", list, preview)
			}
			p := n.wantProblem(n.as(operate, post, wire.PathBlockImport+"?skip_bad=true&confirm=yes", list, plainBody), http.StatusConflict, "confirm")
			if p.Code != "confirmation_required" || string(p.More["confirm"]) != `"`+string(preview.Confirm)+`"` || len(p.More["broad"]) == 0 {
				t.Fatalf("%q: got %+v", list, p)
			}
			if found := read[wire.Page[wire.Entry]](t, n.must(n.as(operate, get, wire.PathBlocks, ""), http.StatusOK)); len(found.Items) != 0 {
				t.Fatalf("%q: %d blocks are active without a confirmation", list, len(found.Items))
			}
			result := read[wire.ImportAnswer](t, n.must(n.as(operate, post, wire.PathBlockImport+"?confirm="+string(preview.Confirm), list, plainBody), http.StatusOK))
			if result.Created == 0 {
				t.Fatalf("%q: got %+v with the confirmation, want blocks created", list, result)
			}
			for _, b := range read[wire.Page[wire.Entry]](t, n.must(n.as(operate, get, wire.PathBlocks, ""), http.StatusOK)).Items {
				n.must(n.as(operate, del, wire.PathBlocks+"/"+b.ID, ""), http.StatusOK)
			}
		}
	})
}

func TestLargeImportIsStreamed(t *testing.T) {
	n := startNode(t)
	var body strings.Builder
	const rows = 60_000
	for i := range rows {
		fmt.Fprintf(&body, "10.%d.%d.%d # feed\n", i>>16, i>>8&255, i&255)
	}
	if body.Len() <= httpserver.MaxBody {
		t.Fatalf("the body has %d bytes, want more than are held in memory", body.Len())
	}
	result := read[wire.ImportAnswer](t, n.must(n.as(operate, post, wire.PathBlockImport, body.String(), plainBody), http.StatusOK))
	if result.Created != rows {
		t.Fatalf("got %+v, want %d created", result, rows)
	}
	n.must(n.ask(`{"key":"ip:10.0.200.7"}`), http.StatusForbidden)
	p := n.wantProblem(n.as(operate, post, wire.PathBlockImport, body.String()+"bad*bad\n", plainBody), http.StatusUnprocessableEntity, "")
	if string(p.More["invalid"]) != "1" || !strings.Contains(string(p.More["invalid_rows"]), strconv.Itoa(rows+1)) {
		t.Errorf("got %+v", p)
	}
}

func TestUndoRequiresAccessOfTheChange(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		n.must(n.as(operate, post, wire.PathBlocks, `{"pattern":"token:a"}`), http.StatusCreated)
		newest := func() string {
			page := read[wire.Page[wire.AuditEntry]](t, n.must(n.as(reader, get, "/v1/audit?limit=1", ""), http.StatusOK))
			return fmt.Sprintf("/v1/audit/%d/undo", page.Items[0].ID)
		}
		entry := read[wire.AuditEntry](t, n.must(n.as(operate, post, newest(), ""), http.StatusCreated))
		if entry.Action != "block.end" || entry.Actor.Name != "test-operate" {
			t.Fatalf("got %+v", entry)
		}
		n.must(n.ask(`{"key":"token:a"}`), http.StatusOK)
		putPolicy(n, "search", `{"match":["token:*"],"rules":["1/s"]}`)
		undo := newest()
		n.wantProblem(n.as(operate, post, undo, ""), http.StatusForbidden, "")
		n.must(n.as(administer, post, undo, ""), http.StatusCreated)
		n.wantProblem(n.as(administer, post, undo, ""), http.StatusConflict, "")
		n.wantProblem(n.as(administer, post, "/v1/audit/0/undo", ""), http.StatusNotFound, "")
		n.wantProblem(n.as(administer, post, "/v1/audit/999999/undo", ""), http.StatusNotFound, "")
	})
}

func TestRunJobReturnsResult(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		run := read[wire.JobRun](t, n.must(n.as(administer, post, "/v1/jobs/good/run", ""), http.StatusOK))
		if run.Result != "did it" || run.Error != "" || run.TriggeredBy != "operator" || run.FinishedAt.IsZero() {
			t.Errorf("got %+v", run)
		}
		run = read[wire.JobRun](t, n.must(n.as(administer, post, "/v1/jobs/bad/run", ""), http.StatusOK))
		if run.Error != "no luck" {
			t.Errorf("got %+v", run)
		}
		n.wantProblem(n.as(administer, post, "/v1/jobs/nothing/run", ""), http.StatusNotFound, "")
		all := read[wire.Page[wire.Job]](t, n.must(n.as(reader, get, wire.PathJobs, ""), http.StatusOK))
		if len(all.Items) != 2 || all.Items[1].Last == nil || all.Items[1].Last.Error != "no luck" || all.Items[0].NextAt.IsZero() {
			t.Errorf("got %+v", all)
		}
		runs := read[wire.Page[wire.JobRun]](t, n.must(n.as(reader, get, wire.PathJobs+"/runs?job=bad", ""), http.StatusOK))
		if len(runs.Items) != 1 {
			t.Errorf("got %+v", runs)
		}
		entry := read[wire.Page[wire.AuditEntry]](t, n.must(n.as(reader, get, "/v1/audit?action=job.run", ""), http.StatusOK))
		if len(entry.Items) != 2 {
			t.Errorf("got the audit records %+v, want 2", entry)
		}
	})
}

func TestNotificationTestReturnsSendError(t *testing.T) {
	n := startNode(t)
	result := read[wire.TestAnswer](t, n.must(n.as(administer, post, "/v1/notifications/test", `{"channel":"desk"}`), http.StatusOK))
	if !result.Sent || len(n.channel.sent) != 1 {
		t.Errorf("got %+v", result)
	}
	n.channel.err = errors.New("nobody\nis there")
	result = read[wire.TestAnswer](t, n.must(n.as(administer, post, "/v1/notifications/test", `{"channel":"desk"}`), http.StatusOK))
	if result.Sent || result.Error != `nobody\nis there` {
		t.Errorf("got %+v", result)
	}
}

// listen reads server-sent events until the test ends.
func (n *testNode) listen(query string, headers ...string) *bufio.Reader {
	n.Helper()
	request, err := http.NewRequestWithContext(n.Context(), get, n.admin+wire.PathEvents+query, nil)
	if err != nil {
		n.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+n.tokens[identity.Read])
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != eventType {
		n.Fatalf("got %d %v", response.StatusCode, response.Header)
	}
	return bufio.NewReader(response.Body)
}

// next reads one event and its id, comments left out.
func next(t *testing.T, from *bufio.Reader) (id string, e wire.Event) {
	t.Helper()
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		line = strings.TrimSuffix(line, "\n")
		switch name, value, _ := strings.Cut(line, ": "); {
		case name == "id":
			id = value
		case name == "data":
			if err := json.Unmarshal([]byte(value), &e, json.RejectUnknownMembers(true)); err != nil {
				t.Fatal(err)
			}
		case line == "" && e.Kind != "":
			return id, e
		}
	}
}

func TestEventStreamSendsEventsAndResumes(t *testing.T) {
	n := startNode(t)
	all := n.listen("")
	blocked := n.listen("?decision=blocked,limited&kind=decision&pattern=token:*")
	n.must(n.ask(`{"key":"token:a","source":"edge-1"}`), http.StatusOK)
	n.must(n.ask(`{"key":"token:a"}`), http.StatusTooManyRequests)
	first, e := next(t, all)
	if e.Kind != "decision" || e.Key != "token:a" || e.Decision != wire.Allowed || e.Policy != "default" || e.Source != "edge-1" || e.At.IsZero() {
		t.Fatalf("received %+v", e)
	}
	if _, e = next(t, blocked); e.Decision != wire.Limited || e.Rule != "1/1s" || e.Refusal == "" || e.RetryAt.IsZero() {
		t.Fatalf("received %+v", e)
	}
	n.events.Publish(events.Event{Kind: events.Block, Entry: &audit.Record{ID: 9, Action: "block.add", Object: "block"}})
	back := n.listen("", "Last-Event-ID: "+first)
	if _, e = next(t, back); e.Decision != wire.Limited {
		t.Fatalf("received %+v after the reconnection", e)
	}
	if _, e = next(t, back); e.Kind != "block" || e.Change == nil || e.Change.ID != 9 {
		t.Fatalf("received %+v after the reconnection", e)
	}
	if _, e = next(t, n.listen("", "Last-Event-ID: other-1")); e.Kind != "notice" || !strings.Contains(e.Notice, "missing") {
		t.Fatalf("received %+v after another node's Last-Event-ID, want a notice", e)
	}
	n.events.Close()
	rest, err := io.ReadAll(blocked)
	if err != nil || len(rest) != 0 {
		t.Errorf("received %q, %v at the end, want nothing", rest, err)
	}
	n.wantProblem(n.as(reader, get, wire.PathEvents+"?decision=all", ""), http.StatusUnprocessableEntity, "decision")
	n.wantProblem(n.as(reader, get, wire.PathEvents+"?pattern=ip:x", ""), http.StatusUnprocessableEntity, "pattern")
}

// callSources adds, pulls, agrees to and removes a list.
func (d *described) callSources() {
	const sources, bad = wire.PathBlockSources, wire.PathBlockSources + "/bad"
	d.publish(0, 50)
	d.do("addBlockSource", post, sources, `{"name":"bad","url":"https://lists.example.com/bad.txt","every":"1h","as":"block","format":"auto","column":"","header":"Key: abc"}`, 201)
	d.do("addBlockSource", post, sources, `{"name":"bad","url":"https://lists.example.com/bad.txt"}`, 409)
	d.do("addBlockSource", post, sources, `{"name":"worse","url":"file:///etc/passwd"}`, 422)
	d.do("agreeBlockSource", post, bad+"/agree", "", 409)
	d.publish(100, 50)
	held := read[wire.BlockSource](d, d.do("pullBlockSource", post, bad+"/pull", "", 200))
	if held.State != "held" || held.Held.Added != 50 {
		d.Errorf("got %+v, want it held", held)
	}
	d.do("listBlockSources", get, sources, "", 200)
	d.do("getBlockSource", get, bad, "", 200)
	d.do("getBlockSource", get, sources+"/none", "", 404)
	d.do("pullBlockSource", post, sources+"/none/pull", "", 404)
	d.do("agreeBlockSource", post, sources+"/none/agree", "", 404)
	d.do("removeBlockSource", del, sources+"/none", "", 404)
	d.do("agreeBlockSource", post, bad+"/agree", "", 200)
	d.do("listBlocks", get, "/v1/blocks?lists=true", "", 200)
	d.do("listKnownLists", get, wire.PathKnownLists, "", 200)
	d.do("removeBlockSource", del, bad, "", 204)
}
