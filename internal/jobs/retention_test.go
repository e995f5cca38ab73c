package jobs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

func TestExpiredBlocksAreArchivedAndDeletedOnlyAfterTheirRetention(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		ctx := t.Context()
		p, err := keys.Parser{}.Pattern("token:a")
		if err != nil {
			t.Fatal(err)
		}
		by := audit.SystemActor("test")
		start := time.Now()
		if _, err := store.Entries.Add(ctx, by, blocks.Fail, blocks.Entry{Kind: blocks.Block, Pattern: p, Expires: start.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		if err := store.Outbox.AddNotifications(ctx, []notify.Notification{{Kind: notify.Test, At: start}}, []string{"mail"}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the last one is kept
			if _, err := store.Jobs.BeginRun(ctx, wire.JobRun{Job: "x", DueAt: wire.At(start), StartedAt: wire.At(start)}); err != nil {
				t.Fatal(err)
			}
		}
		now := start
		clock := func() time.Time { return now }
		expire, deletePast := jobs.EndExpired(store.Entries, clock), jobs.DeletePast(store.Retention, 365*24*time.Hour, clock)
		for _, step := range []struct {
			after       time.Duration
			job         jobs.Job
			did         string
			left, notes int
		}{
			{0, expire, "archived 0", 1, 1},
			{2 * time.Hour, expire, "archived 0", 1, 1}, // an hour after its expiry, when it is still active on a node whose clock is behind
			{4 * time.Hour, expire, "archived 1", 1, 1},
			{5 * time.Hour, expire, "archived 0", 1, 1},
			{5 * time.Hour, deletePast, "deleted 0 changes, 0 ended blocks and exemptions, 0 tokens, 0 runs, 0 notifications", 1, 1},
			{100 * 24 * time.Hour, deletePast, "deleted 0 changes, 0 ended blocks and exemptions, 0 tokens, 0 runs, 0 notifications", 1, 1},
			{400 * 24 * time.Hour, deletePast, "1 ended blocks and exemptions, 0 tokens, 1 runs, 1 notifications", 0, 0},
			{800 * 24 * time.Hour, deletePast, "0 ended blocks and exemptions", 0, 0},
		} {
			now = start.Add(step.after)
			did, err := step.job.Run(ctx, now)
			if err != nil || !strings.Contains(did, step.did) {
				t.Fatalf("after %v %s returns %q, %v; want %q", step.after, step.job.Name, did, err, step.did)
			}
			page, err := store.Entries.Find(ctx, blocks.Filter{Kind: blocks.Block, State: "all", At: now})
			if err != nil || len(page.Items) != step.left {
				t.Fatalf("after %v there are %d blocks, %v; want %d", step.after, len(page.Items), err, step.left)
			}
			notes, err := store.Outbox.Deliveries(ctx, 10)
			if err != nil || len(notes) != step.notes {
				t.Fatalf("after %v there are %d notifications, %v; want %d", step.after, len(notes), err, step.notes)
			}
		}
		entries, err := store.Audit.FindRecords(ctx, audit.Filter{})
		// What is left is the record of the retention itself.
		if err != nil || len(entries.Records) != 1 || entries.Records[0].Action != "audit.expire" {
			t.Fatalf("after 800 days %d changes are kept, %v", len(entries.Records), err)
		}
	})
}

func TestEveryJobHasAScheduleAHelpTextAndErrors(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		for _, j := range []jobs.Job{jobs.EndExpired(store.Entries, time.Now), jobs.DeletePast(store.Retention, time.Hour, time.Now), jobs.ExpireSessions(store.Identities, time.Now)} {
			if _, err := jobs.ParseSchedule(j.Schedule); err != nil || j.Help == "" {
				t.Errorf("%s: %v, %q", j.Name, err, j.Help)
			}
			if did, err := j.Run(t.Context(), time.Now()); err != nil || did == "" {
				t.Errorf("Run of %s: got %q, %v", j.Name, did, err)
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := j.Run(gone, time.Now()); err == nil {
				t.Errorf("%s returns no error with a cancelled context", j.Name)
			}
		}
	})
}

func TestIdleOrLongDecidedProposalsAreDeleted(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		ctx := t.Context()
		now := time.Now()
		put := func(pattern string) offences.RefreshedProposal {
			t.Helper()
			p, err := keys.Parser{}.Pattern(pattern)
			if err != nil {
				t.Fatal(err)
			}
			put, err := store.Proposals.PutProposal(ctx, offences.Proposal{Pattern: p, Created: now, Updated: now}, now.Add(-24*time.Hour))
			if err != nil || put == nil {
				t.Fatalf("PutProposal: got %+v, %v", put, err)
			}
			return *put
		}
		idle, decided := put("ip:203.0.113.0/24"), put("ip:198.51.100.0/24")
		if _, err := store.Proposals.DecideProposal(ctx, audit.SystemActor("test"), decided.Proposal.ID, offences.Accepted, "", ""); err != nil {
			t.Fatal(err)
		}
		deletePast := jobs.DeletePast(store.Retention, 30*24*time.Hour, func() time.Time { return now })
		start := now
		for _, step := range []struct {
			days int
			did  string
			left int
		}{
			{6, "0 decided proposals, 0 open proposals", 2},
			{8, "0 decided proposals, 1 open proposals", 1},
			{29, "0 decided proposals, 0 open proposals", 1},
			{31, "1 decided proposals, 0 open proposals", 0},
		} {
			now = start.AddDate(0, 0, step.days)
			if did, err := deletePast.Run(ctx, now); err != nil || !strings.Contains(did, step.did) {
				t.Errorf("after %d days the job returns %q, %v; want %q", step.days, did, err, step.did)
			}
			if all, _, err := store.Proposals.FindProposals(ctx, offences.AllProposals, "", 1000); err != nil || len(all) != step.left {
				t.Errorf("after %d days there are %d, %v; want %d", step.days, len(all), err, step.left)
			}
		}
		// A range that offends again leads to a new proposal, so that people are notified. The
		// proposal stays open while the range offends.
		again := put("ip:203.0.113.0/24")
		if !again.New || again.Proposal.ID == idle.Proposal.ID {
			t.Errorf("proposed again: %+v", again)
		}
		now = now.AddDate(0, 0, 5)
		if refreshed := put("ip:203.0.113.0/24"); refreshed.New {
			t.Errorf("refreshed: %+v", refreshed)
		}
		now = now.AddDate(0, 0, 5)
		if did, err := deletePast.Run(ctx, now); err != nil || !strings.Contains(did, "0 open proposals") {
			t.Errorf("the job returns %q, %v; want no deleted open proposals", did, err)
		}
	})
}

// TestMissedRunIsFoundAfterRetention is about a retention that is shorter than the interval of a
// job.
func TestMissedRunIsFoundAfterRetention(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		c := newClock("2026-11-26T00:40:00Z")
		r := newRunner(t, store.Jobs, "a", c, jobs.Job{Name: "weekly", Schedule: "40 0 * * 1", MakeUp: true, Run: succeed})
		for _, due := range []string{"2026-11-09T00:40:00Z", "2026-11-16T00:40:00Z"} {
			c.set(due)
			if run, err := r.RunDue(t.Context(), "weekly", at(due)); err != nil || run == nil {
				t.Fatal(run, err)
			}
		}
		c.set("2026-11-26T00:40:00Z")
		if deleted, err := store.Retention.DeleteRuns(t.Context(), c.now().Add(-24*time.Hour)); err != nil || deleted != 1 {
			t.Errorf("%d runs were deleted, %v; want 1", deleted, err)
		}
		if due := r.Missed(t.Context(), "weekly"); !due.Equal(at("2026-11-23T00:40:00Z")) {
			t.Errorf("missed %s", due)
		}
	})
}

func TestEndedBlocksAreKeptForADayWhateverTheRetention(t *testing.T) {
	bothDatabases(t, func(t *testing.T, store *sqlstore.Store) {
		ctx, by := t.Context(), audit.SystemActor("test")
		added, err := store.Entries.Add(ctx, by, blocks.Fail, storetest.NewBlock(t, "token:a", time.Time{}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Entries.End(ctx, by, blocks.Block, "", added[0].Entry.ID); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		deletePast := jobs.DeletePast(store.Retention, time.Hour, func() time.Time { return now })
		for _, want := range []string{", 0 ended blocks", ", 1 ended blocks"} {
			now = now.Add(13 * time.Hour)
			if did, err := deletePast.Run(ctx, now); err != nil || !strings.Contains(did, want) {
				t.Errorf("got %q, %v; want %q", did, err, want)
			}
		}
	})
}
