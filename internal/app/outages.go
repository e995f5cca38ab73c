package app

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
)

// outageLog logs the beginning and the end of each outage of Redis and of the
// database, and counts what it affected.
type outageLog struct {
	log            *slog.Logger
	redisOutages   atomic.Int64 // outages that have begun
	answered       func() int64 // how many checks the doors have answered
	answeredBefore atomic.Int64 // checks before the current outage of the database
	revision       atomic.Int64 // the last revision that changed was called with
	requestLogged  atomic.Int64 // the Unix minute in which request last logged
}

// redis is called when an outage of one server begins and when it ends.
func (o *outageLog) redis(e timestamplog.OutageEvent) {
	if e.Ended.IsZero() {
		o.redisOutages.Add(1)
		o.log.Error("Redis "+redislog.Cause(e.Reason)+"; each policy does what its on_failure says", "server", e.Server, "error", e.Reason)
		return
	}
	o.log.Info("Redis is reachable again", "server", e.Server, "outage", e.Ended.Sub(e.Since).Round(time.Millisecond), "degraded", e.Requests, "error", e.Reason)
}

// request is called with the error of each request that Redis answered without a decision. It
// logs one of them a minute.
func (o *outageLog) request(err error) {
	minute := time.Now().Unix() / 60
	if last := o.requestLogged.Load(); last != minute && o.requestLogged.CompareAndSwap(last, minute) {
		o.log.Error("Redis answered a request without a decision; its policy does what its on_failure says. Others of this minute are not logged.", "error", redislog.Describe(err))
	}
}

// database is called when an outage of the database begins and when it ends.
func (o *outageLog) database(since, ended time.Time, err error) {
	if ended.IsZero() {
		o.answeredBefore.Store(o.answered())
		o.log.Error("the database is unreachable; checks go on with the last policies and blocks known, and nothing can be changed", "error", oneLine(err), "cause", oneLine(causeOf(err)))
		return
	}
	o.log.Info("the database answers again", "outage", ended.Sub(since).Round(time.Millisecond), "degraded", o.answered()-o.answeredBefore.Load())
}

// changed is called after each read of the database that found changes. It logs that the database
// lacks changes that this node knew, since nothing else shows that acknowledged changes were lost.
func (o *outageLog) changed(what catalog.Changed) {
	if known := o.revision.Swap(what.Revision); what.Revision < known {
		o.log.Warn("the database went back to an earlier state, as after a failover to a replica that lacked the last changes, or a restore; policies, blocks, users and tokens are those of the database now",
			"known_revision", known, "revision", what.Revision)
	}
}

const (
	// outageInterval is how often a node checks for outages.
	outageInterval = 5 * time.Second
	// minOutage is how long an outage must last before people are notified.
	minOutage = 10 * time.Second
)

// outageAlert notifies people when a trouble of one server begins, and when it has ended.
type outageAlert struct {
	server, node string
	trouble      string           // what the subjects say of the server, as "is unreachable"
	recovery     string           // and when it has ended, as "is back"
	since        func() time.Time // when the outage began, zero if there is none
	during       string           // what still works during the outage
	after        string           // what works again after it
	notify       func(context.Context, ...notify.Notification)
	notified     bool // people were notified of the current outage
}

func (o *outageAlert) check(ctx context.Context) {
	since := o.since()
	switch {
	case !since.IsZero() && !o.notified && time.Since(since) >= minOutage:
		o.notified = true
		o.notify(ctx, notify.Notification{Kind: notify.Outage, Subject: o.server + " " + o.trouble + " from node " + o.node,
			Text: o.during, Facts: map[string]string{"node": o.node, "since": since.UTC().Format(time.RFC3339)}})
	case since.IsZero() && o.notified:
		o.notified = false
		o.notify(ctx, notify.Notification{Kind: notify.Recovery, Subject: o.server + " " + o.recovery + " for node " + o.node,
			Text: o.after, Facts: map[string]string{"node": o.node}})
	}
}

// watchOutages watches Redis and the database.
func watchOutages(node string, g *gate.Gate, c *catalog.Catalog, w *writeHealth, n *notifier) func(context.Context) {
	redis := &outageAlert{
		server: "Redis", node: node, trouble: "is unreachable", recovery: "is back", notify: n.notify,
		since: func() time.Time {
			if outage := g.Outage(); outage.Open() {
				return outage.Since
			}
			return time.Time{}
		},
		during: "Each policy does what its on_failure says until it is back. Blocks go on refusing.",
		after:  "Limits are exact again.",
	}
	database := &outageAlert{
		server: "The database", node: node, trouble: "is unreachable", recovery: "is back", notify: n.notify,
		since: func() time.Time {
			since, _ := c.Failing()
			return since
		},
		during: "Checks go on with the last policies and blocks known; nothing can be changed until it is back.",
		after:  "What was counted during the outage is written now.",
	}
	writes := newWritesAlert(node, w, n.notify)
	return every(outageInterval, func(ctx context.Context) {
		redis.check(ctx)
		database.check(ctx)
		writes.check(ctx)
	})
}

// newWritesAlert returns the alert for a database that accepts no writes.
func newWritesAlert(node string, w *writeHealth, send func(context.Context, ...notify.Notification)) *outageAlert {
	return &outageAlert{
		server: "The database", node: node, trouble: "accepts no writes", recovery: "accepts writes again", notify: send,
		since: func() time.Time {
			since, _ := w.failing()
			return since
		},
		during: "It is read-only, its disk is full, or a right or a table is missing; the log of the node says which. Checks go on; nothing can be changed, nobody is blocked automatically, and counts wait in memory.",
		after:  "What was counted in the meantime is written now.",
	}
}
