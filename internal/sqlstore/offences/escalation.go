package offences

import (
	"cmp"
	"math"
	"slices"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const escalationColumns = `policy_id, key, level, block_id, ended_at, last_at, decayed_to, counts_from`

// The statements about many keys get them as their first parameter; see db/bulk.go. CROSS JOIN
// fixes the order in which SQLite reads the tables.
var (
	escalationKeyTypes = []string{db.IntColumn, db.TextColumn}
	knownEscalations   = db.Asked(escalationKeyTypes, "policy_id", "key") + `
SELECT l.policy_id, l.key FROM asked CROSS JOIN escalations l WHERE l.policy_id = asked.policy_id AND l.key = asked.key`

	newEscalationTypes = []string{db.IntColumn, db.TextColumn, db.Same("0"), db.Same("''"), db.Same("0"), db.Same("0"), db.Same("0"), db.Same("0"), db.Parameter(2, db.IntColumn)}
	escalationTypes    = []string{db.IntColumn, db.TextColumn, db.IntColumn, db.TextColumn, db.IntColumn, db.IntColumn, db.IntColumn, db.IntColumn, db.Parameter(2, db.IntColumn)}
	addEscalations     = `
INSERT INTO escalations (` + escalationColumns + `, touched) `
	// lockEscalations locks the rows until the transaction ends: if two nodes count for the
	// same key, the second sees the counts of the first.
	lockEscalations = addEscalations + db.BulkSelect(newEscalationTypes) + `
ON CONFLICT (policy_id, key) DO UPDATE SET touched = excluded.touched RETURNING ` + escalationColumns
	saveEscalations = `
ON CONFLICT (policy_id, key) DO UPDATE SET level = excluded.level, block_id = excluded.block_id,
    ended_at = excluded.ended_at, last_at = excluded.last_at, decayed_to = excluded.decayed_to, counts_from = excluded.counts_from`
	// findBlockEnds also finds from when offences count again: a block that challenges lets clients with a
	// pass through, and what they do counts.
	findBlockEnds = db.Asked([]string{db.TextColumn}, "id") + `
SELECT b.id, CASE WHEN b.ended_at > 0 THEN b.ended_at ELSE b.expires_at END,
    CASE WHEN b.action = '` + blocks.Challenge + `' THEN b.created_at WHEN b.ended_at > 0 THEN b.ended_at ELSE b.expires_at END
FROM asked CROSS JOIN entries b WHERE b.id = asked.id`

	countTypes            = []string{db.IntColumn, db.TextColumn, db.IntColumn, db.IntColumn}
	addEscalationCounts   = `INSERT INTO escalation_counts (policy_id, key, start, offences) `
	mergeEscalationCounts = ` ON CONFLICT (policy_id, key, start) DO UPDATE SET offences = escalation_counts.offences + excluded.offences`
	// deleteUsedCounts deletes counts that have led to a block. The state of a key excludes the
	// counts before that minute.
	deleteUsedCounts = db.Asked(escalationKeyTypes, "policy_id", "key") + `
DELETE FROM escalation_counts WHERE start >= $2 AND (policy_id, key) IN (SELECT policy_id, key FROM asked)`

	windowTypes = []string{db.IntColumn, db.TextColumn, db.IntColumn, db.IntColumn}
	// sumOffences adds up the counts of each key from the first to the last minute of a window.
	sumOffences = db.Asked(windowTypes, "policy_id", "key", "start", "last") + `
SELECT asked.policy_id, asked.key, CAST(sum(c.offences) AS BIGINT) FROM asked CROSS JOIN escalation_counts c
WHERE c.policy_id = asked.policy_id AND c.key = asked.key AND c.start >= asked.start AND c.start <= asked.last
GROUP BY asked.policy_id, asked.key`
)

// escalationID is one key in the escalation of one policy.
type escalationID struct {
	policy int64
	key    string
}

// candidate is a key in an escalation with its offences in a batch.
type candidate struct {
	escalationID
	escalation offences.EscalationPolicy
	parsed     keys.Key
	offences.Candidate
	counts  []*offences.Offence // the offences that escalate
	minutes map[int64]int64     // their counts since countsFrom, by minute
	// countsFrom is the time from which offences count: that of the last block or of its end.
	countsFrom int64
	// windowEnd is the time at which the window ends whose offences count, and lastMinute its last
	// minute, or math.MaxInt64 if no later offence is known.
	windowEnd, lastMinute int64
}

// since returns the candidate's count in the batch from a minute on.
func (c *candidate) since(from int64) (count int64) {
	for minute, n := range c.minutes {
		if minute >= from {
			count += n
		}
	}
	return count
}

// row returns the candidate's policy and key, and more columns, as a bulk row.
func (c *candidate) row(more ...any) []any { return append([]any{c.policy, c.key}, more...) }

// escalationRun evaluates the escalations for one batch in its transaction. The number of
// statements does not depend on the number of keys.
type escalationRun struct {
	*db.Tx
	evaluation offences.Evaluation
	// candidates are in the order in which every node locks them.
	candidates []*candidate
	byID       map[escalationID]*candidate
	events     []offences.EscalationEvent
}

func (r *escalationRun) evaluate(counted []offences.Offence) error {
	r.collect(counted)
	for _, phase := range []func() error{r.skipUntrackedKeys, r.lock, r.readBlockEnds, r.count, r.sum, r.escalate} {
		if len(r.candidates) == 0 {
			return nil
		}
		if err := phase(); err != nil {
			return err
		}
	}
	return nil
}

func (r *escalationRun) collect(counted []offences.Offence) {
	r.byID = map[escalationID]*candidate{}
	for i := range counted {
		o := &counted[i]
		escalation, has := r.evaluation.Escalations[o.Policy]
		counts := escalation.Counts(o.Kind)
		if !has || o.Key == "" || escalation.NeverBlocks(o.Key) || (!counts && o.Kind != offences.Blocked) {
			continue
		}
		id := escalationID{o.Policy, o.Key}
		c, known := r.byID[id]
		if !known {
			k, err := offences.ParseKey(o.Key)
			if err != nil || (r.evaluation.Exempt != nil && r.evaluation.Exempt(o.Key)) {
				continue // an invalid key cannot be blocked
			}
			c = &candidate{escalationID: id, escalation: escalation, parsed: k}
			c.First, c.Last = o.First.At, o.Last.At
			r.byID[id] = c
			r.candidates = append(r.candidates, c)
		}
		c.First, c.Last = min(c.First, o.First.At), max(c.Last, o.Last.At)
		if counts {
			c.counts = append(c.counts, o)
		}
	}
	slices.SortFunc(r.candidates, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.policy, b.policy), cmp.Compare(a.key, b.key))
	})
}

// rows returns the non-nil bulk rows that of returns for the candidates.
func (r *escalationRun) rows(of func(*candidate) []any) (rows [][]any) {
	for _, c := range r.candidates {
		if row := of(c); row != nil {
			rows = append(rows, row)
		}
	}
	return rows
}

// skipUntrackedKeys drops the keys that were only blocked and have no escalation state: their
// offences do not delay decay.
func (r *escalationRun) skipUntrackedKeys() error {
	rows := r.rows(func(c *candidate) []any {
		if len(c.counts) > 0 {
			return nil
		}
		return c.row()
	})
	known, err := db.EachOf(r.Tx, func(row db.Row) (id escalationID, err error) {
		return id, row.Scan(&id.policy, &id.key)
	}, knownEscalations, rows)
	if err != nil {
		return err
	}
	tracked := map[escalationID]bool{}
	for _, id := range known {
		tracked[id] = true
	}
	r.candidates = slices.DeleteFunc(r.candidates, func(c *candidate) bool { return len(c.counts) == 0 && !tracked[c.escalationID] })
	return nil
}

// lock reads the states and locks their rows.
func (r *escalationRun) lock() error {
	states, err := db.EachOf(r.Tx, scanEscalation, lockEscalations, r.rows(func(c *candidate) []any { return c.row() }), db.ToMS(r.Now))
	for _, s := range states {
		c := r.byID[escalationID{s.Policy, s.Key}]
		c.State, c.countsFrom = s, s.Ended
	}
	return err
}

func scanEscalation(r db.Row) (s offences.State, err error) {
	return s, r.Scan(&s.Policy, &s.Key, &s.Level, &s.BlockID, &s.Ended, &s.Last, &s.DecayedTo, &s.CountsFrom)
}

// readBlockEnds reads the ends of the blocks that escalations made: operators may have ended
// them, or changed their expiry.
func (r *escalationRun) readBlockEnds() error {
	byBlock := map[string]*candidate{}
	rows := r.rows(func(c *candidate) []any {
		if c.State.BlockID == "" {
			return nil
		}
		byBlock[c.State.BlockID] = c
		return []any{c.State.BlockID}
	})
	_, err := db.EachOf(r.Tx, func(row db.Row) (none struct{}, err error) {
		var id string
		var end, from int64
		if err := row.Scan(&id, &end, &from); err != nil {
			return none, err
		}
		byBlock[id].State.Ended, byBlock[id].countsFrom = end, from
		return none, nil
	}, findBlockEnds, rows)
	return err
}

// count collects the offences that count: those that came after the last block.
func (r *escalationRun) count() error {
	for _, c := range r.candidates {
		for _, o := range c.counts {
			if o.First.At >= c.countsFrom && o.Count > 0 {
				if c.minutes == nil {
					c.minutes = map[int64]int64{}
				}
				c.minutes[o.Minute] += o.Count
			}
		}
	}
	return nil
}

// sum adds up the offences that count for each key. Of a key with later offences than those of
// this batch, first the window of the batch counts, and then the newest one. Blocks of other
// origin only lower the count. So it looks for them only if a key reaches the threshold without
// them.
func (r *escalationRun) sum() error {
	var counted, late []*candidate
	for _, c := range r.candidates {
		if len(c.minutes) == 0 {
			continue
		}
		c.windowEnd, c.lastMinute = c.Last, math.MaxInt64
		if c.From = c.escalation.CountFrom(c.State, 0, c.Last); c.From < c.escalation.CountFrom(c.State, 0, c.Newest(db.ToMS(r.Now))) {
			c.lastMinute = minuteOf(c.Last)
			late = append(late, c)
		}
		counted = append(counted, c)
	}
	if err := r.sumFrom(counted); err != nil {
		return err
	}
	hasReached := func(c *candidate) bool { return c.Offences >= int64(c.escalation.Threshold) }
	late = slices.DeleteFunc(late, hasReached)
	for _, c := range late {
		c.windowEnd, c.lastMinute = c.Newest(db.ToMS(r.Now)), math.MaxInt64
		c.From = c.escalation.CountFrom(c.State, 0, c.windowEnd)
	}
	if err := r.sumFrom(late); err != nil {
		return err
	}
	reached := slices.DeleteFunc(counted, func(c *candidate) bool { return !hasReached(c) })
	ends, err := r.otherBlockEnds(reached)
	if err != nil {
		return err
	}
	var later []*candidate
	for _, c := range reached {
		if from := c.escalation.CountFrom(c.State, ends[c], c.windowEnd); from > c.From {
			c.From = from
			later = append(later, c)
		}
	}
	return r.sumFrom(later)
}

func (r *escalationRun) sumFrom(candidates []*candidate) error {
	rows := make([][]any, len(candidates))
	for i, c := range candidates {
		rows[i] = c.row(c.From, c.lastMinute)
		c.Offences = c.since(c.From)
	}
	_, err := db.EachOf(r.Tx, func(row db.Row) (none struct{}, err error) {
		var id escalationID
		var count int64
		if err := row.Scan(&id.policy, &id.key, &count); err != nil {
			return none, err
		}
		r.byID[id].Offences += count
		return none, nil
	}, sumOffences, rows)
	return err
}

// escalate lets each policy's escalation decide about its keys, and saves the decisions.
func (r *escalationRun) escalate() error {
	w := escalationWriter{escalationRun: r}
	for all := r.candidates; len(all) > 0; {
		n := 1
		for n < len(all) && all[n].policy == all[0].policy {
			n++
		}
		if err := w.decide(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return w.save()
}
