package offences

import (
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/sqlstore/entries"
	"github.com/stint-dev/stint/internal/wire"
)

const (
	readEscalationPause  = `SELECT paused_at, resumed_at FROM escalation_pauses WHERE policy_id = $1`
	writeEscalationPause = `
INSERT INTO escalation_pauses (policy_id, policy, paused_at, would_block, allowed, seen, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (policy_id) DO UPDATE SET policy = excluded.policy, paused_at = excluded.paused_at,
    would_block = excluded.would_block, allowed = excluded.allowed, seen = excluded.seen, detail = excluded.detail`
	addEscalationEvents = `
INSERT INTO escalation_events (id, at, policy_id, policy, key, kind, level, offences, length, block_id, detail, counted_as) `
	// Nodes of the previous release do not write safety_units: their units count by key.
	unitsSince    = `SELECT sketch FROM safety_units WHERE start >= $1 AND policy_id = $2 UNION ALL ` + keysOnlySince + ` AND k.policy_id = $2`
	allUnitsSince = `SELECT sketch FROM safety_units WHERE start >= $1 UNION ALL ` + keysOnlySince
	keysOnlySince = `
SELECT k.sketch FROM distinct_keys k WHERE k.span = 1 AND k.start >= $1
AND NOT EXISTS (SELECT 1 FROM safety_units u WHERE u.start = k.start AND u.policy_id = k.policy_id AND u.node = k.node)`
)

// countEscalated counts the units that were blocked and, of the given units, those that were
// not. Nodes of the previous release leave counted_as empty.
var countEscalated = db.Asked([]string{db.TextColumn}, "unit") + `
SELECT COALESCE(CAST(sum(blocked) AS BIGINT), 0), COALESCE(CAST(sum(1 - blocked) AS BIGINT), 0) FROM (
    SELECT unit, max(blocked) AS blocked FROM (
        SELECT CASE WHEN counted_as = '' THEN key ELSE counted_as END AS unit, 1 AS blocked FROM escalation_events
        WHERE policy_id = $2 AND kind = $3 AND at >= $4
        UNION ALL SELECT unit, 0 FROM asked) AS all_units
    GROUP BY unit) AS units`

var eventTypes = []string{db.TextColumn, db.IntColumn, db.IntColumn, db.TextColumn, db.TextColumn, db.TextColumn, db.IntColumn, db.IntColumn, db.IntColumn, db.TextColumn, db.TextColumn, db.TextColumn}

// escalationWriter collects the decisions of the escalations of all policies, and saves them.
type escalationWriter struct {
	*escalationRun
	states  []offences.State // after the batch, in the order of the candidates
	blocks  []*blocks.Entry
	blockOf map[escalationID]*blocks.Entry
	stops   []*offences.EscalationPause
	events  []offences.EscalationEvent
}

// decide lets one policy's escalation decide about its keys.
func (w *escalationWriter) decide(group []*candidate) error {
	l := group[0].escalation
	candidates := make([]offences.Candidate, len(group))
	var reached [][]any
	for i, c := range group {
		candidates[i] = c.Candidate
		if c.Offences >= int64(l.Threshold) {
			reached = append(reached, []any{offences.SafetyUnit(c.parsed)})
		}
	}
	var limit offences.SafetyLimit
	if len(reached) > 0 {
		var err error
		if limit, err = w.safetyLimit(l, reached); err != nil {
			return err
		}
	}
	result := offences.Escalate(l, candidates, limit, w.Now)
	w.states = append(w.states, result.States...)
	w.events = append(w.events, result.Events...)
	if result.Paused != nil {
		w.stops = append(w.stops, result.Paused)
	}
	if w.blockOf == nil {
		w.blockOf = map[escalationID]*blocks.Entry{}
	}
	for _, b := range result.Blocks {
		id := escalationID{l.Policy, b.Key}
		i := &blocks.Entry{Kind: blocks.Block, Pattern: keys.PatternOf(w.byID[id].parsed), EntryTerms: wire.EntryTerms{Scope: l.Scope}, Reason: b.Reason, Source: blocks.Automatic,
			PolicyID: l.Policy, Level: b.Level, Expires: b.Until}
		if b.Challenges {
			i.Action = blocks.Challenge
		}
		w.blocks = append(w.blocks, i)
		w.blockOf[id] = i
	}
	return nil
}

// safetyLimit reads the limits of a policy's escalation and what it has done. reached are the
// units of the candidates that reach the threshold, as rows. Unless the escalation is paused, the
// transaction has the revision afterwards, so that no other node blocks keys until it ends.
func (w *escalationWriter) safetyLimit(l offences.EscalationPolicy, reached [][]any) (limit offences.SafetyLimit, err error) {
	resumedAt, err := w.readPause(l.Policy, &limit)
	if err != nil || limit.Paused {
		return limit, err
	}
	if w.Revision == 0 {
		if err = w.becomeChange(); err != nil {
			return limit, err
		}
		if resumedAt, err = w.readPause(l.Policy, &limit); err != nil || limit.Paused {
			return limit, err
		}
	}
	since := db.ToMS(w.Now.Add(-offences.SafetyLimitWindow))
	asked, err := db.BulkJSON(reached)
	if err != nil {
		return limit, err
	}
	if _, err = w.One(countEscalated, []any{asked, l.Policy, string(l.EventKind()), max(since, resumedAt)}, &limit.Blocked, &limit.New); err != nil {
		return limit, err
	}
	if l.IsTrap {
		limit.Seen, err = in(w.Tx).countSketches(allUnitsSince, since)
	} else {
		limit.Seen, err = in(w.Tx).countSketches(unitsSince, since, l.Policy)
	}
	limit.Allowed = offences.AllowedBlocks(w.evaluation.SafetyLimit, limit.Seen)
	return limit, err
}

func (w *escalationWriter) readPause(policy int64, limit *offences.SafetyLimit) (resumedAt int64, err error) {
	var pausedAt int64
	_, err = w.One(readEscalationPause, []any{policy}, &pausedAt, &resumedAt)
	limit.Paused = pausedAt > resumedAt
	return resumedAt, err
}

// becomeChange takes the revision. Every candidate's row is locked by then: no transaction that
// holds the revision row may wait for a row of escalations.
func (w *escalationWriter) becomeChange() error {
	return w.BecomeChange(audit.SystemActor("escalation"))
}

// countSketches estimates the number of distinct units in the sketches that a query selects.
func (t tx) countSketches(query string, args ...any) (int64, error) {
	sketches, err := db.Each(t.Tx, func(r db.Row) (s []byte, err error) { return s, r.Scan(&s) }, query, args...)
	if err != nil {
		return 0, err
	}
	return offences.CountDistinct(sketches)
}

// save writes the decisions. If there are events, the transaction has the revision; see
// safetyLimit.
func (w *escalationWriter) save() error {
	acted := map[escalationID]bool{}
	for _, e := range w.events {
		acted[escalationID{e.Policy, e.Key}] = true
	}
	if err := w.saveCounts(func(id escalationID) bool { return !acted[id] }); err != nil {
		return err
	}
	if len(w.events) == 0 {
		return w.saveStates()
	}
	for _, phase := range []func() error{w.saveStops, w.saveBlocks, w.saveEvents, w.saveStates} {
		if err := phase(); err != nil {
			return err
		}
	}
	if len(w.events) == 0 { // others were first with all blocks
		return nil
	}
	return w.WakeNodes()
}

func (w *escalationWriter) saveStops() error {
	for _, s := range w.stops {
		if _, err := w.Exec(writeEscalationPause, s.Policy, s.Name, db.ToMS(w.Now), s.WouldBlock, s.Allowed, s.Seen, s.Detail); err != nil {
			return err
		}
		if err := w.Record("escalation.pause", "policy", s.Name, s.Detail, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// saveBlocks adds the blocks. A key that somebody else has just blocked keeps its level.
func (w *escalationWriter) saveBlocks() error {
	made, err := entries.In(w.Tx).AddBlocks(w.blocks)
	if err != nil {
		return err
	}
	for i := range w.states {
		s := &w.states[i]
		id := escalationID{s.Policy, s.Key}
		b, earned := w.blockOf[id]
		switch {
		case !earned:
		case made[b]:
			s.BlockID = b.ID
		default:
			c := w.byID[id].Candidate
			*s = c.State
			s.Offend(&w.byID[id].escalation, c.First, c.Last, db.ToMS(w.Now))
		}
	}
	kept := w.events[:0]
	refused := map[escalationID]bool{}
	for _, e := range w.events {
		id := escalationID{e.Policy, e.Key}
		b, earned := w.blockOf[id]
		if earned && !made[b] {
			refused[id] = true
			continue
		}
		if earned {
			e.BlockID = b.ID
		}
		kept = append(kept, e)
	}
	w.events = kept
	return w.saveCounts(func(id escalationID) bool { return refused[id] })
}

// saveCounts adds the counts of the batch for the wanted keys.
func (w *escalationWriter) saveCounts(wanted func(escalationID) bool) error {
	var rows [][]any
	for _, c := range w.candidates {
		if !wanted(c.escalationID) {
			continue
		}
		for minute, n := range c.minutes {
			rows = append(rows, c.row(minute, n))
		}
	}
	return w.Upsert(addEscalationCounts, mergeEscalationCounts, countTypes, rows)
}

// saveEvents stores the events. The offences that led to an event no longer count: the key's
// state excludes those of earlier minutes, and the counts of this minute and, if clocks differ,
// of later ones are deleted.
func (w *escalationWriter) saveEvents() error {
	var used [][]any
	for i := range w.events {
		e := &w.events[i]
		var err error
		if e.ID, err = db.NewID(); err != nil {
			return err
		}
		if e.Key != "" {
			used = append(used, []any{e.Policy, e.Key})
		}
	}
	if err := in(w.Tx).insertEvents(w.events...); err != nil {
		return err
	}
	w.escalationRun.events = w.events
	return w.ExecOf(deleteUsedCounts, used, minuteOf(db.ToMS(w.Now)))
}

func minuteOf(ms int64) int64 { return ms - ms%spanMS(minuteSpan) }

func (t tx) insertEvents(all ...offences.EscalationEvent) error {
	rows := make([][]any, len(all))
	for i, e := range all {
		unit := e.Key
		if k, err := offences.ParseKey(e.Key); err == nil {
			unit = offences.SafetyUnit(k)
		}
		rows[i] = []any{e.ID, db.ToMS(e.At), e.Policy, e.Name, e.Key, string(e.Kind), e.Level, e.Offences, e.Length.Milliseconds(), e.BlockID, e.Detail, unit}
	}
	return t.Upsert(addEscalationEvents, "", eventTypes, rows)
}

func (w *escalationWriter) saveStates() error {
	rows := make([][]any, len(w.states))
	for i, s := range w.states {
		rows[i] = []any{s.Policy, s.Key, s.Level, s.BlockID, s.Ended, s.Last, s.DecayedTo, s.CountsFrom}
	}
	return w.Upsert(addEscalations, saveEscalations, escalationTypes, rows, db.ToMS(w.Now))
}
