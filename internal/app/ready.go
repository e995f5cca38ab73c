package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/internal/wire"
)

// ready reports whether this node can answer, and which parts cannot. It names no servers,
// because anyone who can reach a listener may read it.
func (s *status) ready(context.Context) wire.Readiness {
	database := s.databasePart()
	loaded := wire.Part{Name: "policies", OK: s.catalog.Loaded(), Detail: s.lastKnownAge()}
	if !loaded.OK {
		loaded.Detail = "not loaded yet"
	}
	listening := wire.Part{Name: "listeners", OK: !s.draining.Load()}
	if !listening.OK {
		listening.Detail = "draining"
	}
	log, timedOut := s.logPart()
	r := wire.Readiness{Ready: loaded.OK && listening.OK && !timedOut, Parts: []wire.Part{loaded, listening, database, log}}
	r.Changes = loaded.OK && listening.OK && database.OK
	if p := s.memoryHealth(); p.Trouble != "" {
		r.Parts = append(r.Parts, wire.Part{Name: "memory", Detail: p.Text})
	}
	r.Parts = append(r.Parts, s.saves.part())
	if part, has := s.geoPart(); has {
		r.Parts = append(r.Parts, part)
	}
	if s.watch != nil {
		r.Parts = append(r.Parts, evictionPart(s.watch.state()))
	}
	return r
}

// databasePart describes the database, which may refuse writes while it can be read.
func (s *status) databasePart() wire.Part {
	since, failing := databaseOutage(s.catalog, s.backends)
	detail := "unreachable; checks go on with the last policies and blocks known, changes are refused"
	if failing == nil {
		since, failing = s.writes.failing()
		detail = "accepts no writes; checks go on, counts wait in memory, changes are refused"
	}
	if failing == nil {
		detail = ""
	}
	return wire.Part{Name: "database", OK: failing == nil, Since: wire.At(since), Detail: detail}
}

// geoPart describes the files with the origins of addresses. has is false on nodes that neither
// have nor need them.
func (s *status) geoPart() (p wire.Part, has bool) {
	problem := s.geo.Problem()
	p = wire.Part{Name: "geoip", OK: problem == "" && !s.geo.Failed()}
	switch {
	case problem != "":
		p.Detail = "patterns of asn: or country: are active, but " + problem
	case s.geo.Failed():
		p.Detail = "the files could not be read again, the earlier ones stay in effect; the log of this node says why"
	}
	return p, s.geo.Database != nil || problem != ""
}

// logPart describes the log. timedOut reports whether Redis has been unreachable for so long
// that this node must not receive checks.
func (s *status) logPart() (p wire.Part, timedOut bool) {
	outage := s.gate.Outage()
	p = wire.Part{Name: "log", OK: !outage.Open(), Since: wire.At(outage.Since)}
	if s.watch == nil {
		return p, false
	}
	state := s.watch.state()
	switch {
	case outage.Open():
		p.Detail = "Redis " + redislog.Cause(outage.Reason) + "; each policy does what its on_failure says"
	case state.Problem != "":
		p.OK, p.Since = false, wire.At(state.Since)
		p.Detail = "Redis is not set up as it must be; the log of this node says what to change"
	case !state.Passed:
		p.OK, p.Detail = false, "Redis has not been checked yet"
	}
	if since := s.backends.redis.Unreachable(); s.redisTimeout > 0 && !since.IsZero() && time.Since(since) >= s.redisTimeout {
		p.Detail += fmt.Sprintf("; it has been so for longer than %s, so this node is not ready", s.redisTimeout)
		return p, true
	}
	return p, false
}

// evictionPart reports whether Redis has deleted logs, or could do so unnoticed.
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
