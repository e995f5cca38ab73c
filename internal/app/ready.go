package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/internal/wire"
)

// Ready says whether this node can answer, and which part cannot. Whoever
// reaches a listener may read it, so it names no servers.
func (a *App) Ready(context.Context) wire.Readiness {
	since, failing := a.catalog.Failing()
	database := wire.Part{Name: "database", OK: failing == nil, Since: wire.At(since)}
	if failing != nil {
		database.Detail = "unreachable; checks go on with the last policies and blocks known, changes are refused"
	}
	loaded := wire.Part{Name: "policies", OK: a.catalog.Loaded(), Detail: a.howOld()}
	if !loaded.OK {
		loaded.Detail = "not loaded yet"
	}
	listening := wire.Part{Name: "listeners", OK: !a.draining.Load()}
	if !listening.OK {
		listening.Detail = "draining"
	}
	log, given := a.logPart()
	r := wire.Readiness{Ready: loaded.OK && listening.OK && !given, Parts: []wire.Part{loaded, listening, database, log}}
	r.Changes = loaded.OK && listening.OK && database.OK
	if a.watch != nil {
		r.Parts = append(r.Parts, evictionPart(a.watch.state()))
	}
	return r
}

// logPart says how the log does, and whether it has been unreachable for so long
// that the operator wants this node to get no more checks.
func (a *App) logPart() (p wire.Part, givenUp bool) {
	outage := a.gate.Outage()
	p = wire.Part{Name: "log", OK: !outage.Open(), Since: wire.At(outage.Since)}
	if a.watch == nil {
		return p, false
	}
	state := a.watch.state()
	switch {
	case outage.Open():
		p.Detail = "Redis " + redislog.Cause(outage.Reason) + "; each policy does what its on_failure says"
	case state.Problem != "":
		p.OK, p.Since = false, wire.At(state.Since)
		p.Detail = "Redis is not set up as it must be; the log of this node says what to change"
	case !state.Passed:
		p.OK, p.Detail = false, "Redis has not been checked yet"
	}
	patience := a.settings.ReadyRedisTimeout
	if away := a.backends.redis.Unreachable(); patience > 0 && !away.IsZero() && time.Since(away) >= patience {
		p.Detail += fmt.Sprintf("; it has been so for longer than %s, so this node is not ready", patience)
		return p, true
	}
	return p, false
}

// evictionPart says whether Redis has deleted logs, or might unnoticed.
func evictionPart(s redisState) wire.Part {
	p := wire.Part{Name: "eviction", OK: !s.Evicting}
	var details []string
	if s.Evicting {
		p.Since = wire.At(s.Last)
		details = append(details, fmt.Sprintf("Redis has evicted %d keys since this node started, so limits may have been lifted", s.Evicted))
	} else if len(s.MayEvict) > 0 {
		details = append(details, "Redis may evict keys, and so lift limits, when its memory is full")
	}
	if len(s.Unread) > 0 {
		details = append(details, "Redis does not let INFO be read, so evictions would pass unnoticed")
	}
	p.Detail = strings.Join(details, "; ")
	return p
}
