package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/wire"
)

// longLists are lists that may have more than one page, with a function that creates seven rows
// of each, some at the same instant.
var longLists = []struct {
	path string
	add  func(n *testNode, i int) error
}{
	{wire.PathNotes + "?key=ip:203.0.113.7", func(n *testNode, i int) error {
		n.must(n.as(operate, post, wire.PathNotes, fmt.Sprintf(`{"key":"ip:203.0.113.7","text":"note %d"}`, i)), http.StatusCreated)
		return nil
	}},
	{wire.PathReports + "?", func(n *testNode, i int) error {
		kind, from := reports.Daily, start.Add(-time.Duration(i/2)*24*time.Hour)
		if i%2 > 0 {
			kind = reports.Weekly
		}
		return n.store.Reports.PutDocument(n.Context(), &reports.Document{Kind: kind, From: from, To: from.Add(time.Hour), Created: start})
	}},
	{wire.PathProposals + "?", func(n *testNode, i int) error {
		pattern, err := (keys.Parser{}).Pattern(fmt.Sprintf("ip:198.51.%d.0/24", i))
		if err == nil {
			_, err = n.store.Proposals.PutProposal(n.Context(), offences.Proposal{Pattern: pattern, Created: start, Updated: start}, start.Add(-time.Hour))
		}
		return err
	}},
	{wire.PathEscalations + "/events?from=2020-01-01T00:00:00Z&to=2021-01-01T00:00:00Z", func(n *testNode, i int) error {
		return n.store.Write(n.Context(), func(t *db.Tx) error {
			_, err := t.Exec(`INSERT INTO escalation_events (id, at, policy_id, policy, key, kind, level, offences, length, block_id, detail)
VALUES ($1, $2, 1, 'default', 'ip:203.0.113.7', 'block', 1, 1, 60000, '', '')`, fmt.Sprintf("0172b1a1-0000-7000-8000-00000000000%d", i),
				time.Date(2020, 6, 1, 0, 0, i/2, 0, time.UTC).UnixMilli())
			return err
		})
	}},
	{wire.PathJobs + "/runs?", func(n *testNode, i int) error {
		at := start.Add(time.Duration(i/2) * time.Minute)
		_, err := n.store.Jobs.BeginRun(n.Context(), wire.JobRun{Job: "good", Node: "test", DueAt: wire.At(at), StartedAt: wire.At(at)})
		return err
	}},
}

func TestPagedListsAreReadToTheEnd(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		for _, list := range longLists {
			for i := range 7 {
				if err := list.add(n, i); err != nil {
					t.Fatal(list.path, err)
				}
			}
			ids := func(limit int) (all []string, pages int) {
				cursor := ""
				for {
					path := fmt.Sprintf("%s&limit=%d%s", list.path, limit, cursor)
					page := read[wire.Page[map[string]any]](t, n.must(n.as(reader, get, path, ""), http.StatusOK))
					if len(page.Items) > limit || page.Total != nil {
						t.Fatalf("%s: %d items, total %v", path, len(page.Items), page.Total)
					}
					for _, item := range page.Items {
						id, err := json.Marshal(item["id"])
						if err != nil {
							t.Fatal(err)
						}
						all = append(all, string(id))
					}
					if pages++; page.NextCursor == "" {
						return all, pages
					}
					cursor = "&cursor=" + url.QueryEscape(string(page.NextCursor))
				}
			}
			whole, pages := ids(100)
			if len(whole) != 7 || pages != 1 {
				t.Errorf("%s: got %d items on %d pages, want 7 on one", list.path, len(whole), pages)
			}
			for limit, want := range map[int]int{2: 4, 3: 3, 7: 1} {
				if parts, pages := ids(limit); !slices.Equal(parts, whole) || pages != want {
					t.Errorf("%s with the limit %d: got %v on %d pages, want %v on %d", list.path, limit, parts, pages, whole, want)
				}
			}
			for _, wrong := range []string{"!!", "x", "IA", paging.Cursor("x"), paging.Cursor("1", "\x00"), paging.Cursor("zzzzzzzzzzzzzzzzzzz", "a")} {
				n.wantProblem(n.as(reader, get, list.path+"&cursor="+url.QueryEscape(wrong), ""), http.StatusUnprocessableEntity, "cursor")
			}
		}
	})
}

func TestRunJobReturnsAcceptedForLongJob(t *testing.T) {
	goOn := make(chan struct{})
	defer close(goOn)
	var use *operations.Jobs
	n := startNode(t, func(p *nodeParts) { use = p.Deps.Jobs })
	runner, err := jobs.New(jobs.Options{Store: n.store.Jobs, Node: "test", Now: n.clock.Now, Log: slog.New(slog.DiscardHandler)},
		jobs.Job{Name: "long", Help: "Takes long.", Schedule: "@daily", Run: func(context.Context, time.Time) (string, error) {
			<-goOn
			return "did it", nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	// A node whose clock was slightly ahead died during its run, so that run is the newest.
	ahead := n.clock.Now().Add(jobs.MaxClockSkew / 2)
	if _, err := n.store.Jobs.BeginRun(t.Context(), wire.JobRun{Job: "long", Node: "dead", DueAt: wire.At(ahead), StartedAt: wire.At(ahead)}); err != nil {
		t.Fatal(err)
	}
	use.Runner, use.MaxWait = runner, 50*time.Millisecond
	for until := time.Now().Add(30 * time.Second); ; {
		a := n.as(operate, post, wire.PathJobs+"/long/run", "")
		if a.status == http.StatusServiceUnavailable && time.Now().Before(until) { // it has not begun yet
			goOn <- struct{}{}
			use.MaxWait *= 2
			continue
		}
		if a.status == http.StatusConflict && time.Now().Before(until) { // the one before ends
			continue
		}
		run := read[wire.JobRun](t, n.must(a, http.StatusAccepted))
		if !run.FinishedAt.IsZero() || run.Job != "long" || run.Node != "test" {
			t.Fatalf("got %+v", run)
		}
		return
	}
}
