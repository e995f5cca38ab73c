package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/channels"
	"github.com/stint-dev/stint/internal/notify/egress"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/wire"
)

// outboxTimeout bounds writing notifications to the outbox.
const outboxTimeout = 10 * time.Second

// channelsRetryInterval is how often reading the channels is retried.
const channelsRetryInterval = time.Second

// notifier sends notifications of what the parts of a node report.
type notifier struct {
	dispatcher *notify.Dispatcher
	store      channelLoader
	builder    channels.Builder
	log        *slog.Logger
	node       string
	pages      string // the URL of the admin pages, "" if it is not known
	// outdated means that the channels changed after they were last read.
	outdated atomic.Bool
	wake     chan struct{} // makes run read them now
	loading  sync.Mutex    // so that an older result does not replace a newer one
	backlog  atomic.Pointer[backlog]
}

// maxBacklogAge is how long a message waits in the outbox until sending counts as failing.
const maxBacklogAge = 15 * time.Minute

// sends is the state of sending, as that of a save: it fails while a message waits for too long.
func (n *notifier) sends() saveState {
	b := n.backlog.Load()
	switch {
	case b == nil:
		return saveState{}
	case b.isOld:
		return saveState{good: b.good, err: errBacklog, since: b.oldest.Add(maxBacklogAge)}
	}
	return saveState{good: b.good}
}

var errBacklog = errors.New("messages wait in the outbox")

// backlog is what waits in the outbox.
type backlog struct {
	messages int
	oldest   time.Time // zero for none
	isOld    bool      // the oldest waits for longer than maxBacklogAge
	good     time.Time // when that was last not so, zero if that is not known
}

// measure reads the backlog for the metrics and the saves. On an error it keeps the last one, since the outage
// has an alert of its own.
func (n *notifier) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, outboxTimeout)
	defer cancel()
	messages, oldest, err := n.dispatcher.Backlog(ctx)
	if err != nil {
		return
	}
	now := &backlog{messages: messages, oldest: oldest, good: time.Now()}
	if now.isOld = !oldest.IsZero() && now.good.Sub(oldest) >= maxBacklogAge; now.isOld {
		now.good = time.Time{}
		if last := n.backlog.Load(); last != nil {
			now.good = last.good
		}
	}
	n.backlog.Store(now)
}

// readBacklog returns the last backlog.
func (n *notifier) readBacklog() (messages int, age time.Duration) {
	b := n.backlog.Load()
	if b == nil || b.oldest.IsZero() {
		return 0, 0
	}
	return b.messages, max(0, time.Since(b.oldest))
}

// channelLoader reads the channels that operators created, with their secrets.
type channelLoader interface {
	LoadChannels(ctx context.Context) ([]notify.Config, error)
	FindSilences(ctx context.Context) ([]notify.Silence, error)
}

func newNotifier(s Settings, store *sqlstore.Store, log *slog.Logger) (*notifier, error) {
	client := egress.New(egress.Options{AllowPrivate: s.Notify.AllowPrivate})
	preset, err := settingsChannels(s.Notify, client)
	if err != nil {
		return nil, err
	}
	return &notifier{wake: make(chan struct{}, 1), log: log, node: s.NodeName, pages: s.Notify.Pages, store: store.Channels, builder: channels.Builder{Client: client}, dispatcher: notify.New(notify.Options{
		Store: store.Outbox, Channels: preset, Node: s.NodeName, Pages: s.Notify.Pages, Log: log,
	})}, nil
}

// changed makes run read the channels and silences. It does not read them itself, since a
// refresh of the catalog calls it and must not wait for a slow database.
func (n *notifier) changed(what catalog.Changed) {
	if !what.Channels {
		return
	}
	n.outdated.Store(true)
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// load gives the dispatcher the current channels and silences. If it fails, run tries again.
func (n *notifier) load(ctx context.Context) {
	n.loading.Lock()
	defer n.loading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, outboxTimeout)
	defer cancel()
	n.outdated.Store(false) // a later change may be missed by the queries below
	stored, err := n.store.LoadChannels(ctx)
	var silences []notify.Silence
	if err == nil {
		silences, err = n.store.FindSilences(ctx)
	}
	if err != nil {
		n.outdated.Store(true)
		n.log.Warn("the notification channels could not be read; it is tried again", "error", err)
		return
	}
	var all []notify.Outlet
	for _, c := range stored {
		if c.Disabled {
			continue
		}
		made, _, err := n.builder.Build(c)
		if c.Broken != "" {
			err = errors.New(c.Broken)
		}
		if err != nil {
			n.log.Error("a notification channel cannot be used; set its URL again", "channel", c.Name, "error", err)
			continue
		}
		all = append(all, notify.Outlet{Channel: made, Kinds: c.Kinds, UrgentOnly: c.UrgentOnly})
	}
	n.dispatcher.Configure(all, silences)
}

// run sends notifications until ctx ends.
func (n *notifier) run(ctx context.Context) {
	if n.outdated.Load() {
		n.load(ctx) // the dispatcher must know the channels of the notifications in the outbox
	}
	var retrying sync.WaitGroup
	defer retrying.Wait()
	retrying.Go(func() {
		supervise.Run(ctx, "notification channels", n.follow)
	})
	n.dispatcher.Run(ctx)
}

// follow reads the channels whenever they are outdated, until ctx ends.
func (n *notifier) follow(ctx context.Context) {
	retry := time.NewTicker(channelsRetryInterval)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		case <-retry.C:
		}
		if n.outdated.Load() {
			n.load(ctx)
		}
	}
}

// notifyOfBacklog notifies people of the outbox, which is the same for all nodes: the first node
// that sees a change says it. If that is not known, each does.
func (n *notifier) notifyOfBacklog(ctx context.Context, all ...notify.Notification) {
	limited, cancel := context.WithTimeout(ctx, outboxTimeout)
	defer cancel()
	if leads, err := n.dispatcher.Leads(limited, "outbox", maxBacklogAge); err == nil && !leads {
		return
	}
	n.notify(ctx, all...)
}

// notify puts notifications of one kind into the outbox. If the outbox is
// unreachable, it sends them at once; if that fails too, it logs the loss.
func (n *notifier) notify(ctx context.Context, all ...notify.Notification) {
	if len(all) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, outboxTimeout)
	defer cancel()
	err := n.dispatcher.Notify(limited, all...)
	if err == nil {
		return
	}
	if late := n.dispatcher.SendNow(ctx, all...); late != nil {
		n.log.Warn("a notification is lost", "kind", all[0].Kind, "subject", all[0].Subject, "error", errors.Join(err, late))
	}
}

// escalations sends notifications of what escalations did with one batch: one for each of the
// first blocks, and one with the number of the others. Events of shadow policies are only in
// the report.
func (n *notifier) escalations(all []offences.EscalationEvent) {
	var blocked, paused []notify.Notification
	more := 0
	for _, e := range all {
		switch e.Kind {
		case offences.EscalationPaused:
			n.log.Error("an escalation is paused until an operator resumes it", "policy", e.Name, "why", e.Detail)
			paused = append(paused, ofEscalation(notify.EscalationPaused, "The automatic blocks of policy "+e.Name+" have stopped", &e))
		case offences.EscalationBlocked:
			if len(blocked) == notify.MaxItems {
				more++
				continue
			}
			blocked = append(blocked, ofEscalation(notify.AutomaticBlock, e.Key+" is blocked for "+phrase.Duration(e.Length), &e))
		}
	}
	if more > 0 {
		blocked = append(blocked, notify.Notification{Kind: notify.AutomaticBlock, At: all[0].At, Happenings: more,
			Subject: phrase.Number(more) + " more keys are blocked automatically",
			Text:    "They were blocked within the same second. The list of blocks shows them all.",
			Facts:   map[string]string{"more": fmt.Sprint(more)}})
	}
	n.notify(context.Background(), paused...) // the urgent ones first
	n.notify(context.Background(), blocked...)
}

func ofEscalation(kind notify.Kind, subject string, e *offences.EscalationEvent) notify.Notification {
	return notify.Notification{Kind: kind, At: e.At, Subject: subject, Text: e.Detail, Facts: map[string]string{
		"key": e.Key, "policy": e.Name, "level": fmt.Sprint(e.Level), "offences": fmt.Sprint(e.Offences),
		"length": rules.FormatDuration(e.Length), "block": e.BlockID,
	}}
}

// attackKinds are the kinds of the notifications about attacks.
var attackKinds = map[offences.News]notify.Kind{
	offences.AttackBegan: notify.AttackBegan, offences.SourceChanged: notify.AttackSource, offences.AttackEnded: notify.AttackEnded,
}

// attack notifies people of what happened to an attack. Unless its newest source is blocked or
// exempt already, the notification has a link to the form that blocks it, or the command.
func (n *notifier) attack(ctx context.Context, news admin.AttackNews) {
	c := news.Attack
	message := notify.Notification{Kind: attackKinds[news.What], Subject: news.Subject, Text: news.Text, Facts: map[string]string{
		"attack": c.ID, "began_at": c.Began.UTC().Format(time.RFC3339), "normal": fmt.Sprintf("%.1f", c.Normal), "peak": fmt.Sprintf("%.1f", c.Peak), "refused": fmt.Sprint(c.Refused),
	}}
	if news.What != offences.AttackEnded && len(c.Sources) > 0 {
		s := c.Sources[len(c.Sources)-1]
		message.Facts["source"], message.Facts["policy"], message.Facts["rule"] = s.Pattern, s.Policy, s.Rule
		switch {
		case s.IsBlocked || s.IsExempt:
		case n.pages != "":
			message.Facts["block"] = n.pages + "/blocks/new?" + url.Values{"pattern": {s.Pattern}, "reason": {"attack since " + c.Began.UTC().Format("2 Jan, 15:04 UTC")}}.Encode()
			message.Text += "\nBlock it: " + message.Facts["block"]
		default:
			message.Text += "\nBlock it: stint-admin block add '" + s.Pattern + "' --for 24h --reason attack"
		}
	}
	n.notify(ctx, message)
}

func (n *notifier) proposal(ctx context.Context, p offences.Proposal) {
	e := p.Evidence
	n.notify(ctx, notify.Notification{
		Kind: notify.Proposal, At: p.Created, Subject: "Block " + p.Pattern.String() + "?",
		Text:  fmt.Sprintf("%s; %s were seen and did not. It waits for a decision.", e.String(), phrase.Number(e.SeenCount)),
		Facts: map[string]string{"proposal": p.ID, "pattern": p.Pattern.String(), "offended": fmt.Sprint(e.OffendedCount)},
	})
}

// report sends a report as a page.
func (n *notifier) report(ctx context.Context, d *reports.Document) {
	var page bytes.Buffer
	if err := reports.WriteHTML(&page, d); err != nil {
		n.log.Error("the report could not be made into a page", "report", d.ID, "error", err)
		return
	}
	text := strings.Join(d.Attention, "\n")
	if text == "" {
		text = "Nothing needs attention."
	}
	n.notify(ctx, notify.Notification{
		Kind: notify.Report, At: d.Created, Subject: fmt.Sprintf("The %s report of %s", d.Kind, d.From.Format(time.DateOnly)),
		Text: text, Page: page.Bytes(), Facts: map[string]string{
			"report": d.ID, "allowed": fmt.Sprint(d.Totals.Allowed), "refused": fmt.Sprint(d.Totals.Refused()), "offenders": fmt.Sprint(d.Totals.Offenders),
		},
	})
}

// geo sends a notification when the files with the origins of addresses have a problem, and
// when it has ended.
func (n *notifier) geo(ctx context.Context, trouble bool, subject, text string) {
	kind := notify.Recovery
	if trouble {
		kind = notify.Outage
	}
	n.notify(ctx, notify.Notification{Kind: kind, Subject: subject + " on node " + n.node, Text: text, Facts: map[string]string{"node": n.node}})
}

func (n *notifier) failedJob(ctx context.Context, r wire.JobRun) {
	n.notify(ctx, notify.Notification{Kind: notify.JobFailed, At: r.FinishedAt.Time, Subject: "The job " + r.Job + " failed",
		Text: string(r.Error), Facts: map[string]string{"job": r.Job, "node": r.Node}})
}
