package api

import (
	"github.com/stint-dev/stint/internal/auditfile"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/nodes"
	"github.com/stint-dev/stint/internal/notes"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/wire"
)

// fromTraffic returns an estimate as the API shows it, nil for nil.
func fromTraffic(t *blocklist.Traffic) *wire.TrafficEstimate {
	if t == nil {
		return nil
	}
	return &wire.TrafficEstimate{
		From: wire.At(t.From), To: wire.At(t.To), Keys: t.Keys, AllKeys: t.AllKeys, Checks: t.Checks, AllChecks: t.AllChecks,
		Share: t.Share, ShareError: t.Error,
	}
}

// fromImport returns what an import did as the API shows it.
func fromImport(r *blocklist.ImportReport) wire.ImportAnswer {
	out := wire.ImportAnswer{
		DryRun: r.DryRun, Rows: r.Rows, Created: r.Created, Extended: r.Extended, Replaced: r.Replaced, Unchanged: r.Unchanged,
		Invalid: r.Invalid, Exempt: r.Exempt, InvalidRows: []wire.BadRow{}, Estimate: fromTraffic(r.Traffic),
	}
	for _, bad := range r.Bad {
		out.InvalidRows = append(out.InvalidRows, wire.BadRow(bad))
	}
	out.Broad = []wire.BroadRow{}
	if c := r.Confirmation; c != nil {
		out.Confirm, out.BroadCount, out.Broad = wire.NullString(c.Digest), c.Count, fromFindings(c.Findings)
	}
	return out
}

// fromFindings returns why a file needs a confirmation as the API shows it.
func fromFindings(all []blocklist.Finding) []wire.BroadRow {
	rows := make([]wire.BroadRow, len(all))
	for i, f := range all {
		rows[i] = wire.BroadRow{Line: f.Line, Rows: f.Rows, Pattern: wire.NullString(f.Pattern.String()), ConfirmReason: f.Why, Exemptions: []string{}}
		if f.Impact == nil {
			continue
		}
		rows[i].Estimate, rows[i].Hidden, rows[i].BlocksCaller = fromTraffic(f.Impact.Traffic), f.Impact.Hidden, f.Impact.BlocksCaller
		for _, e := range f.Impact.Exemptions {
			rows[i].Exemptions = append(rows[i].Exemptions, e.Pattern.String())
		}
	}
	return rows
}

// fromEvent returns an event as the API tells it.
func fromEvent(e *events.Event) wire.Event {
	out := wire.Event{
		Kind: string(e.Kind), At: wire.At(e.At), Key: e.Key.String(), Decision: string(e.Outcome), Policy: wire.NullString(e.Policy),
		Rule: e.Rule, Block: e.BlockID, Refusal: e.Refusal, RetryAt: wire.At(e.RetryAt), Source: e.Source, Degraded: e.Degraded,
		Shadow: string(e.Shadow), ShadowPolicy: e.ShadowPolicy, Notice: e.Text, Skipped: e.Skipped,
	}
	if e.Entry != nil {
		entry := auditfile.Entry(e.Entry)
		out.Change = &entry
	}
	return out
}

// fromJob returns a job as the API shows it.
func fromJob(s jobs.Status) wire.Job {
	out := wire.Job{Name: s.Name, Help: s.Help, Schedule: s.Schedule, NextAt: wire.At(s.Next)}
	if s.Last != nil {
		last := fromRun(s.Last)
		out.Last = &last
	}
	return out
}

// fromRun returns a run as the API shows it.
func fromRun(r *jobs.Run) wire.JobRun {
	return wire.JobRun{
		ID: r.ID, Job: r.Job, Node: r.Node, DueAt: wire.At(r.Due), StartedAt: wire.At(r.Started), FinishedAt: wire.At(r.Finished),
		Did: r.Did, Error: wire.NullString(r.Err), Asked: r.Asked,
	}
}

// fromDelivery returns a delivery as the API shows it.
func fromDelivery(d notify.Delivery) wire.Delivery {
	out := wire.Delivery{
		ID: d.ID, Kind: string(d.Kind), At: wire.At(d.At), Subject: d.Subject, Text: d.Text, Channel: d.Channel, Attempts: d.Attempts,
		SentAt: wire.At(d.Sent), FailedAt: wire.At(d.Failed), Error: wire.NullString(d.Err),
	}
	if d.Sent.IsZero() && d.Failed.IsZero() {
		out.NextAt = wire.At(d.Next)
	}
	return out
}

// fromNode shows one node.
func fromNode(n nodes.Node) wire.Node {
	return wire.Node{
		ID: n.ID, Name: n.Name, Version: n.Version, StartedAt: wire.At(n.Started), SeenAt: wire.At(n.Seen),
		RequestsPerSecond: n.PerSecond, SlowMS: float64(n.P99.Microseconds()) / 1000, Degraded: n.Degraded, Revision: n.Revision,
	}
}

// fromNote shows one note.
func fromNote(n *notes.Note) wire.Note {
	return wire.Note{ID: n.ID, Key: n.Key, Text: n.Text, Author: n.Author, CreatedAt: wire.At(n.Created)}
}

// fromReport shows what a report is about.
func fromReport(d *reports.Document) wire.Report {
	attention := d.Attention
	if attention == nil {
		attention = []string{}
	}
	return wire.Report{
		ID: d.ID, Kind: string(d.Kind), From: wire.At(d.From), To: wire.At(d.To), CreatedAt: wire.At(d.Created),
		Allowed: d.Totals.Allowed, Refused: d.Totals.Refused(), Offenders: d.Totals.Offenders, Attention: attention,
	}
}
