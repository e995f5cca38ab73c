package v1

import (
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/notify"
)

// FromTraffic returns an estimate as the API shows it, nil for nil.
func FromTraffic(t *blocklist.Traffic) *TrafficEstimate {
	if t == nil {
		return nil
	}
	return &TrafficEstimate{
		From: At(t.From), To: At(t.To), Keys: t.Keys, AllKeys: t.AllKeys, Checks: t.Checks, AllChecks: t.AllChecks,
		Share: t.Share, ShareError: t.Error,
	}
}

// FromImport returns what an import did as the API shows it.
func FromImport(r *blocklist.ImportReport) ImportAnswer {
	out := ImportAnswer{
		DryRun: r.DryRun, Rows: r.Rows, Created: r.Created, Extended: r.Extended, Replaced: r.Replaced, Known: r.Known,
		Invalid: r.Invalid, Exempt: r.Exempt, Bad: []BadRow{}, Estimate: FromTraffic(r.Traffic),
	}
	for _, bad := range r.Bad {
		out.Bad = append(out.Bad, BadRow(bad))
	}
	out.Broad = []BroadRow{}
	if c := r.Confirmation; c != nil {
		out.Confirm, out.BroadCount, out.Broad = NullString(c.Digest), c.Count, FromFindings(c.Findings)
	}
	return out
}

// FromFindings returns why a file needs a confirmation as the API shows it.
func FromFindings(all []blocklist.Finding) []BroadRow {
	rows := make([]BroadRow, len(all))
	for i, f := range all {
		rows[i] = BroadRow{Line: f.Line, Rows: f.Rows, Pattern: NullString(f.Pattern.String()), Why: f.Why, Exemptions: []string{}}
		if f.Impact == nil {
			continue
		}
		rows[i].Estimate, rows[i].Hidden, rows[i].HitsCaller = FromTraffic(f.Impact.Traffic), f.Impact.Hidden, f.Impact.HitsCaller
		for _, e := range f.Impact.Exemptions {
			rows[i].Exemptions = append(rows[i].Exemptions, e.Pattern.String())
		}
	}
	return rows
}

// FromEvent returns an event as the API tells it.
func FromEvent(e *events.Event) Event {
	out := Event{
		Kind: string(e.Kind), At: At(e.At), Key: e.Key.String(), Decision: string(e.Outcome), Policy: NullString(e.Policy),
		Rule: e.Rule, Block: e.BlockID, Refusal: e.Refusal, RetryAt: At(e.RetryAt), Source: e.Source, Degraded: e.Degraded,
		Shadow: string(e.Shadow), ShadowPolicy: e.ShadowPolicy, Notice: e.Text, Skipped: e.Skipped,
	}
	if e.Entry != nil {
		entry := FromEntry(e.Entry)
		out.Change = &entry
	}
	return out
}

// FromJob returns a job as the API shows it.
func FromJob(s jobs.Status) Job {
	out := Job{Name: s.Name, Help: s.Help, Schedule: s.Schedule, NextAt: At(s.Next)}
	if s.Last != nil {
		last := FromRun(s.Last)
		out.Last = &last
	}
	return out
}

// FromRun returns a run as the API shows it.
func FromRun(r *jobs.Run) JobRun {
	return JobRun{
		ID: r.ID, Job: r.Job, Node: r.Node, DueAt: At(r.Due), StartedAt: At(r.Started), FinishedAt: At(r.Finished),
		Did: r.Did, Error: NullString(r.Err), Asked: r.Asked,
	}
}

// FromDelivery returns a delivery as the API shows it.
func FromDelivery(d notify.Delivery) Delivery {
	out := Delivery{
		ID: d.ID, Kind: string(d.Kind), At: At(d.At), Subject: d.Subject, Text: d.Text, Channel: d.Channel, Attempts: d.Attempts,
		SentAt: At(d.Sent), FailedAt: At(d.Failed), Error: NullString(d.Err),
	}
	if d.Sent.IsZero() && d.Failed.IsZero() {
		out.NextAt = At(d.Next)
	}
	return out
}
