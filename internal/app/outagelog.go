package app

import (
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
)

// redisOutage logs the beginning and the end of an outage of one server.
func (a *App) redisOutage(e timestamplog.OutageEvent) {
	if e.Ended.IsZero() {
		a.redisOutages.Add(1)
		a.log.Error("Redis "+redislog.Cause(e.Reason)+"; each policy does what its on_failure says", "server", e.Server, "error", e.Reason)
		return
	}
	a.log.Info("Redis decides again", "server", e.Server, "outage", e.Ended.Sub(e.Since).Round(time.Millisecond), "degraded", e.Requests, "error", e.Reason)
}

// databaseOutage logs the beginning and the end of an outage of the database.
func (a *App) databaseOutage(since, ended time.Time, err error) {
	if ended.IsZero() {
		a.answeredBefore.Store(a.answered.Load())
		a.log.Error("the database is unreachable; checks go on with the last policies and blocks known, and nothing can be changed", "error", oneLine(err))
		return
	}
	a.log.Info("the database answers again", "outage", ended.Sub(since).Round(time.Millisecond), "degraded", a.answered.Load()-a.answeredBefore.Load())
}
