package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/nodes"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
)

// health describes the parts of the installation for the overview page.
func (s *status) health(ctx context.Context) []adminui.Part {
	const limit = 2 * time.Second
	// ctx may have ended because the database does not answer, which says nothing about the log.
	ofLog, cancelLog := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancelLog()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	parts := s.nodesHealth(ctx)
	parts = append(parts, s.logHealth(ofLog), s.databaseHealth())
	if p := s.memoryHealth(); p.Trouble != "" {
		parts = append(parts, p)
	}
	if p := s.saves.health(); p.Trouble != "" {
		parts = append(parts, p)
	}
	return append(parts, s.jobsHealth(ctx))
}

func (s *status) nodesHealth(ctx context.Context) []adminui.Part {
	all, err := s.backends.store.FindNodes(ctx, time.Now().Add(-nodes.Gone))
	if err != nil || len(all) == 0 {
		return []adminui.Part{{Name: "Node " + s.node, Text: "Answers checks."}}
	}
	var parts []adminui.Part
	for _, n := range all {
		p := adminui.Part{Name: "Node " + n.Name, Text: fmt.Sprintf("%.0f calls/s", n.PerSecond)}
		if n.P99 > 0 {
			p.Text += fmt.Sprintf(", 99%% under %.1f ms", float64(n.P99.Microseconds())/1000)
		}
		if m := n.Memory; m.MaxBytes > 0 {
			p.Text += fmt.Sprintf(", logs %d of %d MiB", m.Bytes>>20, m.MaxBytes>>20)
			if m.Forgotten > 0 {
				p.Text += fmt.Sprintf(", %d idle keys forgotten", m.Forgotten)
			}
		}
		switch {
		case time.Since(n.Seen) > 3*nodes.Beat:
			p.Trouble, p.Text = "silent", fmt.Sprintf("No heartbeat for %.0f s.", time.Since(n.Seen).Seconds())
		case n.Degraded:
			p.Trouble = "degraded"
		case n.Forgetting():
			p.Trouble = "forgets keys"
		}
		parts = append(parts, p)
	}
	return parts
}

func (s *status) logHealth(ctx context.Context) adminui.Part {
	if s.backends.redis == nil {
		return adminui.Part{Name: "Log", Text: fmt.Sprintf("%d keys in memory", s.backends.memory.Len())}
	}
	p := adminui.Part{Name: "Redis"}
	if outage := s.gate.Outage(); outage.Open() {
		var servers []string
		for _, o := range outage.Servers {
			servers = append(servers, fmt.Sprintf("%s %s since %s UTC", o.Server, redislog.Cause(outage.Reason), o.Since.UTC().Format("15:04:05")))
		}
		p.Trouble, p.Text = "unreachable", strings.Join(servers, ", ")+". Each policy acts as it is set for an outage. Blocks still apply."
		return p
	}
	state := s.watch.state()
	if state.Problem != "" {
		p.Trouble, p.Text = "misconfigured", state.Problem
		return p
	}
	began := time.Now()
	if _, err := s.backends.log.Now(ctx); err != nil {
		p.Trouble, p.Text = "slow", "It does not answer in time."
		return p
	}
	p.Text = fmt.Sprintf("answers in %.1f ms", float64(time.Since(began).Microseconds())/1000)
	if state.Evicting {
		p.Trouble = "evicts keys"
		p.Text = fmt.Sprintf("%d keys since this node started, the last at %s UTC. Limits may have been lifted.", state.Evicted, state.Last.UTC().Format("2006-01-02 15:04"))
	}
	return p
}

// memoryShown is how long health reports a shortage of memory.
const memoryShown = time.Hour

// memoryHealth reports whether the logs in memory recently reached their limit.
func (s *status) memoryHealth() adminui.Part {
	stats := s.backends.memory.Memory()
	p := adminui.Part{Name: "Memory", Text: fmt.Sprintf("The logs take %d of %d MiB.", stats.Used>>20, stats.Max>>20)}
	switch {
	case time.Since(stats.LastUnkept) < memoryShown:
		p.Trouble = "full"
		p.Text += fmt.Sprintf(" %d requests of new keys were allowed and not counted, because all that is kept are refused or blocked keys. Raise --max-memory.", stats.Unkept)
	case time.Since(stats.LastForgotten) < memoryShown:
		p.Trouble = "short"
		p.Text += fmt.Sprintf(" %d keys that were idle longest were forgotten, none that was refused or blocked. Raise --max-memory.", stats.Forgotten)
	}
	return p
}

// maxCountDelay is how late counts may be before health reports it.
const maxCountDelay = 5 * time.Second

func (s *status) databaseHealth() adminui.Part {
	p := adminui.Part{Name: "Postgres", Text: "Up to date"}
	if s.backends.dir != nil {
		p.Name = "Database"
	}
	since, failing := databaseOutage(s.catalog, s.backends)
	refusing, refused := s.writes.failing()
	stats := s.flusher.Stats()
	switch {
	case failing != nil:
		p.Trouble = "unreachable"
		p.Text = fmt.Sprintf("Since %s UTC. Checks continue with the last policies and blocks known.", since.UTC().Format("15:04"))
		if old := s.lastKnownAge(); old != "" {
			p.Text = "Since this node started. Checks continue with " + old + "; changes are refused."
		}
	case refused != nil:
		p.Trouble, p.Text = "no writes", fmt.Sprintf("Since %s UTC. Checks continue. Counts wait in memory. Nothing can be changed.", refusing.UTC().Format("15:04"))
	case stats.Failing != nil && time.Since(stats.Since) > maxCountDelay:
		p.Trouble, p.Text = "slow", fmt.Sprintf("Counts arrive %.0f s late. Checks continue as usual.", time.Since(stats.Since).Seconds())
	}
	return p
}

func (s *status) jobsHealth(ctx context.Context) adminui.Part {
	all, err := s.jobs.List(ctx)
	p := adminui.Part{Name: "Jobs"}
	if err != nil {
		p.Text = "Not known while the database is unreachable."
		return p
	}
	well := 0
	for _, j := range all {
		if j.Last == nil || j.Last.Error == "" {
			well++
		}
	}
	p.Text = fmt.Sprintf("%d of %d OK", well, len(all))
	if well < len(all) {
		p.Trouble = "failing"
	}
	return p
}
