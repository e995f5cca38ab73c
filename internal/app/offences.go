package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/offenders"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/rules"
)

// tellTimeout bounds putting a notification into the outbox.
const tellTimeout = 10 * time.Second

func (a *App) buildOffenders() {
	a.recorder = recorder.NewRecorder(recorder.Options{Secret: a.secret, Node: a.node})
	a.flusher = recorder.NewFlusher(recorder.FlusherOptions{
		Recorder: a.recorder, Sink: a.backends.store, Node: a.node, Secret: a.secret,
		Escalations: func() map[int64]offences.EscalationPolicy {
			return offences.EscalationsOf(a.catalog.Selector().Policies())
		},
		Exempt:       a.exempt,
		SafetyLimit:  func() offences.SafetyLimitSettings { return a.settings.SafetyLimit },
		OnEscalation: a.tellOfEscalations,
		Log:          a.log,
	})
	a.offenders = &offenders.Service{Store: a.backends.store, Entries: a.backends.store.Entries(), View: a.catalog,
		ProposalSettings: func() offences.ProposalSettings { return a.settings.Proposals }}
	a.reports = &reports.Builder{Store: a.backends.store, Offences: a.offenders, Now: time.Now}
}

// secret is what the nodes of one database share.
func (a *App) secret() []byte { return a.catalog.Settings().Secret }

// exempt reports whether a key is let through whatever it does.
func (a *App) exempt(text string) bool {
	k, err := offences.ParseKey(text)
	return err == nil && a.catalog.Blocks().Match(k, time.Now()).Exemption != nil
}

// tell puts notifications of one kind into the outbox. Where that is out of
// reach it sends them at once, or says in the log that it could not.
func (a *App) tell(ctx context.Context, all ...notify.Notification) {
	if len(all) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	err := a.notifier.Notify(limited, all...)
	if err == nil {
		return
	}
	if late := a.notifier.SendNow(ctx, all...); late != nil {
		a.log.Warn("a notification is lost", "kind", all[0].Kind, "subject", all[0].Subject, "error", errors.Join(err, late))
	}
}

// tellOfEscalations notifies people of what escalations did with one batch: of
// each of the first blocks, and of how many more there were.
func (a *App) tellOfEscalations(all []offences.EscalationEvent) {
	var blocked, stopped []notify.Notification
	more := 0
	for _, e := range all {
		switch e.Kind {
		case offences.EscalationPaused:
			a.log.Error("an escalation is paused and waits for a person", "policy", e.Name, "why", e.Detail)
			stopped = append(stopped, ofEscalation(notify.EscalationPaused, "The automatic blocks of policy "+e.Name+" have stopped", &e))
		case offences.EscalationBlocked:
			if len(blocked) == notify.MaxItems {
				more++
				continue
			}
			blocked = append(blocked, ofEscalation(notify.AutomaticBlock, fmt.Sprintf("%s is blocked for %s", e.Key, rules.FormatDuration(e.Length)), &e))
		}
	}
	if more > 0 {
		blocked = append(blocked, notify.Notification{Kind: notify.AutomaticBlock, At: all[0].At, Happenings: more,
			Subject: fmt.Sprintf("%d more keys are blocked automatically", more),
			Text:    "They were blocked within the same second. The list of blocks shows them all.",
			Facts:   map[string]string{"more": fmt.Sprint(more)}})
	}
	if len(blocked) > 0 {
		a.catalog.Wake()
	}
	// What is urgent is told first; what only would have been is for the report.
	a.tell(context.Background(), stopped...)
	a.tell(context.Background(), blocked...)
}

func ofEscalation(kind notify.Kind, subject string, e *offences.EscalationEvent) notify.Notification {
	return notify.Notification{Kind: kind, At: e.At, Subject: subject, Text: e.Detail, Facts: map[string]string{
		"key": e.Key, "policy": e.Name, "step": fmt.Sprint(e.Level), "offences": fmt.Sprint(e.Offences),
		"length": rules.FormatDuration(e.Length), "block": e.BlockID,
	}}
}

func (a *App) tellOfProposal(ctx context.Context, p offences.Proposal) {
	e := p.Evidence
	a.tell(ctx, notify.Notification{
		Kind: notify.Proposal, At: p.Created, Subject: "Block " + p.Pattern.String() + "?",
		Text:  fmt.Sprintf("%s; %d were seen and did not. It waits for a decision.", e.String(), e.SeenCount),
		Facts: map[string]string{"proposal": p.ID, "pattern": p.Pattern.String(), "offended": fmt.Sprint(e.OffendedCount)},
	})
}

// tellOfReport mails the report as a page.
func (a *App) tellOfReport(ctx context.Context, d *reports.Document) {
	var page bytes.Buffer
	if err := reports.WriteHTML(&page, d); err != nil {
		a.log.Error("the report could not be made into a page", "report", d.ID, "error", err)
		return
	}
	text := strings.Join(d.Attention, "\n")
	if text == "" {
		text = "Nothing needs attention."
	}
	a.tell(ctx, notify.Notification{
		Kind: notify.Report, At: d.Created, Subject: fmt.Sprintf("The %s report of %s", d.Kind, d.From.Format(time.DateOnly)),
		Text: text, Page: page.Bytes(), Facts: map[string]string{
			"report": d.ID, "allowed": fmt.Sprint(d.Totals.Allowed), "refused": fmt.Sprint(d.Totals.Refused()), "offenders": fmt.Sprint(d.Totals.Offenders),
		},
	})
}

// outageInterval is how often a node looks for outages to tell people of, and
// outagePatience how long one must last.
const (
	outageInterval = 5 * time.Second
	outagePatience = 10 * time.Second
)

// backend is a server that people are told of when it is unreachable.
type backend struct {
	name string
	// since returns when it became unreachable, zero while it is there.
	since                 func() time.Time
	meanwhile, afterwards string
	told                  bool
}

// watchOutages tells people when Redis or the database becomes unreachable, and
// when it is back.
func (a *App) watchOutages() func(context.Context) {
	all := []*backend{
		{name: "Redis", since: func() time.Time {
			if outage := a.gate.Outage(); outage.Open() {
				return outage.Since
			}
			return time.Time{}
		}, meanwhile: "Each policy does what its on_failure says until it is back. Blocks go on refusing.", afterwards: "Limits are exact again."},
		{name: "The database", since: func() time.Time {
			since, _ := a.catalog.Failing()
			return since
		}, meanwhile: "Checks go on with the last policies and blocks known; nothing can be changed until it is back.",
			afterwards: "What was counted meanwhile is written now."},
	}
	return every(outageInterval, func(ctx context.Context) {
		for _, b := range all {
			a.tellOfOutage(ctx, b)
		}
	})
}

func (a *App) tellOfOutage(ctx context.Context, b *backend) {
	node, since := a.settings.NodeName, b.since()
	switch {
	case !since.IsZero() && !b.told && time.Since(since) >= outagePatience:
		b.told = true
		a.tell(ctx, notify.Notification{Kind: notify.Outage, Subject: b.name + " is unreachable from node " + node,
			Text: b.meanwhile, Facts: map[string]string{"node": node, "since": since.UTC().Format(time.RFC3339)}})
	case since.IsZero() && b.told:
		b.told = false
		a.tell(ctx, notify.Notification{Kind: notify.Recovery, Subject: b.name + " is back for node " + node,
			Text: b.afterwards, Facts: map[string]string{"node": node}})
	}
}
