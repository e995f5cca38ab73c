package sqlstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offenders"
	"github.com/stint-dev/stint/internal/rules"
)

const (
	ladderColumns = `policy_id, key, step, block_id, ended_at, last_at, forgotten_at`
	// lockLadders holds the rows until the transaction ends, so that of two
	// nodes that count for one key the second sees what the first counted.
	lockLadders = `
INSERT INTO ladders (` + ladderColumns + `, touched) VALUES `
	lockLaddersEnd = `
ON CONFLICT (policy_id, key) DO UPDATE SET touched = excluded.touched RETURNING ` + ladderColumns
	saveLadders    = lockLadders
	saveLaddersEnd = `
ON CONFLICT (policy_id, key) DO UPDATE SET step = excluded.step, block_id = excluded.block_id,
    ended_at = excluded.ended_at, last_at = excluded.last_at, forgotten_at = excluded.forgotten_at`
	knownLadders = `SELECT policy_id, key FROM ladders WHERE (policy_id, key) IN (VALUES `

	addLadderCounts   = `INSERT INTO ladder_counts (policy_id, key, start, offences) VALUES `
	mergeLadderCounts = ` ON CONFLICT (policy_id, key, start) DO UPDATE SET offences = ladder_counts.offences + excluded.offences`
	// crossings asks of each key whether it has enough offences from a minute on.
	crossings = `
WITH asked (policy_id, key, start, enough) AS (VALUES {keys})
SELECT asked.policy_id, asked.key, CAST(sum(c.offences) AS BIGINT) FROM asked
JOIN ladder_counts c ON c.policy_id = asked.policy_id AND c.key = asked.key AND c.start >= asked.start
GROUP BY asked.policy_id, asked.key, asked.enough HAVING sum(c.offences) >= asked.enough
ORDER BY asked.policy_id, asked.key`
	countForLadder     = `SELECT COALESCE(CAST(sum(offences) AS BIGINT), 0) FROM ladder_counts WHERE policy_id = $1 AND key = $2 AND start >= $3`
	deleteLadderCounts = `DELETE FROM ladder_counts WHERE policy_id = $1 AND key = $2 AND start <= $3`
	findBlockEnds      = `SELECT id, expires_at, ended_at FROM blocks WHERE id IN `
	// newestEnd finds when the last block that selects a key ends or ended.
	newestEnd = `
SELECT COALESCE(max(CASE WHEN ended_at > 0 THEN ended_at ELSE expires_at END), 0) FROM blocks
WHERE (pattern IN {patterns} OR (low <= {low} AND high >= {high})) AND created_at <= {now}
AND (CASE WHEN ended_at > 0 THEN ended_at ELSE expires_at END) > {since}`

	readLadderStop  = `SELECT stopped_at, resumed_at FROM ladder_stops WHERE policy_id = $1`
	countClimbed    = `SELECT count(DISTINCT key) FROM ladder_events WHERE policy_id = $1 AND kind = $2 AND at >= $3`
	writeLadderStop = `
INSERT INTO ladder_stops (policy_id, policy, stopped_at, would_block, allowed, seen, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (policy_id) DO UPDATE SET policy = excluded.policy, stopped_at = excluded.stopped_at,
    would_block = excluded.would_block, allowed = excluded.allowed, seen = excluded.seen, detail = excluded.detail`
	addLadderEvent = `
INSERT INTO ladder_events (id, at, policy_id, policy, key, kind, step, offences, length, block_id, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`
	sketchesSince = `SELECT sketch FROM distinct_keys WHERE span = 1 AND start >= $1 AND policy_id = $2`
)

// ladderID is one key on one policy's ladder.
type ladderID struct {
	policy int64
	key    string
}

// climber is a key on a ladder with what a batch says of it.
type climber struct {
	ladder      offenders.Ladder
	key         keys.Key
	state       offenders.LadderState
	first, last int64
	counts      []*offenders.Offence // those that climb
	counted     bool                 // some of them count since the last block's end
}

// ladderRun evaluates the ladders for one batch in its transaction.
type ladderRun struct {
	*tx
	evaluation offenders.Evaluation
	climbers   map[ladderID]*climber
	events     []offenders.LadderEvent
}

func (r *ladderRun) evaluate(offences []offenders.Offence) error {
	r.collect(offences)
	for _, step := range []func() error{r.leaveStrangers, r.lock, r.readBlockEnds, r.count, r.climb, r.save} {
		if len(r.climbers) == 0 {
			return nil
		}
		if err := step(); err != nil {
			return err
		}
	}
	if r.revision != 0 && r.store.place.dialect.notify != "" {
		_, err := r.exec(r.store.place.dialect.notify, r.revision)
		return err
	}
	return nil
}

func (r *ladderRun) collect(offences []offenders.Offence) {
	r.climbers = map[ladderID]*climber{}
	for i := range offences {
		o := &offences[i]
		ladder, has := r.evaluation.Ladders[o.Policy]
		counts := ladder.Counts(o.Kind)
		if !has || o.Key == "" || (!counts && o.Kind != offenders.Blocked) {
			continue
		}
		id := ladderID{o.Policy, o.Key}
		c, known := r.climbers[id]
		if !known {
			k, err := offenders.ParseKey(o.Key)
			if err != nil || (r.evaluation.Exempt != nil && r.evaluation.Exempt(o.Key)) {
				continue // what is no key cannot be blocked
			}
			c = &climber{ladder: ladder, key: k, first: o.First.At, last: o.Last.At}
			r.climbers[id] = c
		}
		c.first, c.last = min(c.first, o.First.At), max(c.last, o.Last.At)
		if counts {
			c.counts = append(c.counts, o)
		}
	}
}

// ids returns the climbers that which selects, in the order in which every
// node locks them.
func (r *ladderRun) ids(which func(*climber) bool) []ladderID {
	var ids []ladderID
	for id, c := range r.climbers {
		if which(c) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b ladderID) int {
		return cmp.Or(cmp.Compare(a.policy, b.policy), cmp.Compare(a.key, b.key))
	})
	return ids
}

// leaveStrangers forgets the keys that were only blocked and stand on no
// ladder: their offences end no quiet spell.
func (r *ladderRun) leaveStrangers() error {
	strangers := map[ladderID]bool{}
	ids := r.ids(func(c *climber) bool { return len(c.counts) == 0 })
	for _, id := range ids {
		strangers[id] = true
	}
	err := inParts(r.tx, ids, func(part []ladderID) error {
		args := make([]any, 0, 2*len(part))
		for _, id := range part {
			args = append(args, id.policy, id.key)
		}
		known, err := each(r.tx, func(row row) (id ladderID, err error) {
			return id, row.Scan(&id.policy, &id.key)
		}, knownLadders+tuples(len(part), "BIGINT", "TEXT")+")", args...)
		for _, id := range known {
			delete(strangers, id)
		}
		return err
	})
	for id := range strangers {
		delete(r.climbers, id)
	}
	return err
}

// lock reads the states, and holds them.
func (r *ladderRun) lock() error {
	return inParts(r.tx, r.ids(func(*climber) bool { return true }), func(part []ladderID) error {
		args := make([]any, 0, 8*len(part))
		for _, id := range part {
			args = append(args, id.policy, id.key, 0, "", 0, 0, 0, toMS(r.now))
		}
		states, err := each(r.tx, scanLadder, lockLadders+tuples(len(part), make([]string, 8)...)+lockLaddersEnd, args...)
		for _, s := range states {
			r.climbers[ladderID{s.Policy, s.Key}].state = s
		}
		return err
	})
}

func scanLadder(r row) (s offenders.LadderState, err error) {
	return s, r.Scan(&s.Policy, &s.Key, &s.Step, &s.BlockID, &s.Ended, &s.Last, &s.Forgotten)
}

// readBlockEnds takes over what operators did to the blocks that ladders made:
// lifted them, or moved their end.
func (r *ladderRun) readBlockEnds() error {
	byBlock := map[string]*climber{}
	var ids []string
	for _, c := range r.climbers {
		if c.state.BlockID != "" {
			byBlock[c.state.BlockID] = c
			ids = append(ids, c.state.BlockID)
		}
	}
	return inParts(r.tx, ids, func(part []string) error {
		args := make([]any, len(part))
		for i, id := range part {
			args[i] = id
		}
		in := tuples(1, make([]string, len(part))...)
		return stream(r.tx, func(row row) (id string, err error) {
			var expires, ended int64
			if err := row.Scan(&id, &expires, &ended); err != nil {
				return id, err
			}
			if ended == 0 {
				ended = expires
			}
			byBlock[id].state.Ended = ended
			return id, nil
		}, findBlockEnds+in, args, func(string) error { return nil })
	})
}

// count adds what counts: the offences that all came after the last block.
func (r *ladderRun) count() error {
	var rows [][]any
	for _, id := range r.ids(func(*climber) bool { return true }) {
		c := r.climbers[id]
		c.state.Offend(&c.ladder, c.first, c.last)
		minutes := map[int64]int64{}
		for _, o := range c.counts {
			if o.First.At >= c.state.Ended && o.Count > 0 {
				minutes[o.Minute] += o.Count
			}
		}
		c.counted = len(minutes) > 0
		for minute, n := range minutes {
			rows = append(rows, []any{id.policy, id.key, minute, n})
		}
	}
	return r.upsert(addLadderCounts, mergeLadderCounts, 4, rows)
}

// crossing is a key that has enough offences for the next step.
type crossing struct {
	ladderID
	offences int64
}

func (r *ladderRun) climb() error {
	var all []crossing
	err := inParts(r.tx, r.ids(func(c *climber) bool { return c.counted }), func(part []ladderID) error {
		args := make([]any, 0, 4*len(part))
		for _, id := range part {
			c := r.climbers[id]
			args = append(args, id.policy, id.key, c.ladder.WindowStart(c.last), c.ladder.Offences)
		}
		found, err := each(r.tx, func(row row) (c crossing, err error) {
			return c, row.Scan(&c.policy, &c.key, &c.offences)
		}, strings.Replace(crossings, "{keys}", tuples(len(part), "BIGINT", "TEXT", "BIGINT", "BIGINT"), 1), args...)
		all = append(all, found...)
		return err
	})
	if err != nil || len(all) == 0 {
		return err
	}
	if err := r.becomeChange(); err != nil {
		return err
	}
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].policy == all[0].policy {
			n++
		}
		if err := r.climbOne(r.evaluation.Ladders[all[0].policy], all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// becomeChange takes the next revision, since blocks are about to be made. No
// transaction that holds it waits for a row of ladders.
func (r *ladderRun) becomeChange() error {
	r.by = audit.Stint("ladder")
	_, err := r.one(takeRevision, nil, &r.revision)
	return err
}

// climbOne takes those who crossed one ladder a step up, unless the ladder has
// stopped or has to.
func (r *ladderRun) climbOne(l offenders.Ladder, all []crossing) error {
	var ready []crossing
	for _, c := range all {
		free, err := r.afterOtherBlocks(l, &c)
		if err != nil {
			return err
		}
		if free {
			ready = append(ready, c)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	if stopped, err := r.guard(l, int64(len(ready))); stopped || err != nil {
		return err
	}
	for _, c := range ready {
		if err := r.step(l, c); err != nil {
			return err
		}
	}
	return nil
}

// afterOtherBlocks looks for any block, whoever made it, that selects the key
// and ends in the window and after the ladder's own. What was counted in the
// minutes up to its end is dropped, and what is left must still be enough.
func (r *ladderRun) afterOtherBlocks(l offenders.Ladder, c *crossing) (enough bool, err error) {
	at := r.climbers[c.ladderID]
	since := l.WindowStart(at.last)
	end, err := r.newestEnd(at.key, max(since, at.state.Ended))
	if err != nil || end == 0 {
		return err == nil, err
	}
	if _, err := r.exec(deleteLadderCounts, c.policy, c.key, end); err != nil {
		return false, err
	}
	_, err = r.one(countForLadder, []any{c.policy, c.key, since}, &c.offences)
	return c.offences >= int64(l.Offences), err
}

func (r *ladderRun) newestEnd(k keys.Key, since int64) (end int64, err error) {
	spellings := keys.Selecting(k)
	args := make([]any, 0, len(spellings)+4)
	for _, s := range spellings {
		args = append(args, s)
	}
	var low, high []byte
	if network, is := k.Network(); is {
		low, high = bounds(keys.NetworkPattern(network))
	}
	args = append(args, low, high, toMS(r.now), since)
	n := len(spellings)
	query := strings.NewReplacer("{patterns}", tuples(1, make([]string, n)...), "{low}", fmt.Sprintf("$%d", n+1), "{high}", fmt.Sprintf("$%d", n+2),
		"{now}", fmt.Sprintf("$%d", n+3), "{since}", fmt.Sprintf("$%d", n+4)).Replace(newestEnd)
	_, err = r.one(query, args, &end)
	return end, err
}

// guard reports whether the ladder stands still, and stops it where so many
// more would be too many.
func (r *ladderRun) guard(l offenders.Ladder, more int64) (stopped bool, err error) {
	var stoppedAt, resumedAt int64
	if _, err := r.one(readLadderStop, []any{l.Policy}, &stoppedAt, &resumedAt); err != nil {
		return false, err
	}
	if stoppedAt > resumedAt {
		return true, nil
	}
	since := max(toMS(r.now.Add(-offenders.GuardSpan)), resumedAt)
	var climbed int64
	if _, err := r.one(countClimbed, []any{l.Policy, string(eventKind(l)), since}, &climbed); err != nil {
		return false, err
	}
	seen, err := r.keysSeen(l.Policy, toMS(r.now.Add(-offenders.GuardSpan)))
	if err != nil {
		return false, err
	}
	allowed := r.evaluation.Guard.Allows(seen)
	if climbed+more <= allowed {
		return false, nil
	}
	detail := fmt.Sprintf("The ladder of policy %s has stopped: within an hour it would block %d of about %d keys, and %d are allowed; it waits for a person to resume it.",
		l.Name, climbed+more, seen, allowed)
	if _, err := r.exec(writeLadderStop, l.Policy, l.Name, toMS(r.now), climbed+more, allowed, seen, detail); err != nil {
		return false, err
	}
	if err := r.record("ladder.stop", "policy", l.Name, detail, nil, nil); err != nil {
		return false, err
	}
	return true, r.addEvent(offenders.LadderEvent{Policy: l.Policy, Name: l.Name, Kind: offenders.LadderStopped, Detail: detail})
}

func (t *tx) keysSeen(policy, since int64) (int64, error) {
	sketches, err := each(t, func(r row) (s []byte, err error) { return s, r.Scan(&s) }, sketchesSince, since, policy)
	if err != nil {
		return 0, err
	}
	return offenders.CountDistinct(sketches)
}

func eventKind(l offenders.Ladder) offenders.LadderEventKind {
	if l.Shadow {
		return offenders.LadderWouldBlock
	}
	return offenders.LadderBlocked
}

// step blocks one key.
func (r *ladderRun) step(l offenders.Ladder, c crossing) error {
	state := &r.climbers[c.ladderID].state
	length := l.BlockAfter(state.Step)
	until := time.UnixMilli(state.Climb(&l, toMS(r.now))).UTC()
	e := offenders.LadderEvent{Policy: l.Policy, Name: l.Name, Key: c.key, Kind: eventKind(l), Step: state.Step,
		Offences: c.offences, Length: length}
	e.Detail = fmt.Sprintf("%d offences within %s under policy %s: step %d, %s.", c.offences, rules.FormatWindow(l.Within), l.Name, state.Step, rules.FormatWindow(length))
	if !l.Shadow {
		added, err := r.addItem(blockShelf, item{Pattern: keys.PatternOf(r.climbers[c.ladderID].key), Reason: e.Detail, Source: string(blocks.Automatic),
			Policy: l.Policy, Step: state.Step, Expires: until}, blocks.Fail)
		if fault.Is(err, fault.Conflict) {
			return nil // it is blocked already
		}
		if err != nil {
			return err
		}
		state.BlockID, e.BlockID = added.Item.ID, added.Item.ID
	}
	if _, err := r.exec(deleteLadderCounts, c.policy, c.key, forever); err != nil {
		return err
	}
	return r.addEvent(e)
}

func (r *ladderRun) addEvent(e offenders.LadderEvent) (err error) {
	if e.ID, err = newID(); err != nil {
		return err
	}
	e.At = r.now
	r.events = append(r.events, e)
	return r.insertEvent(e)
}

func (t *tx) insertEvent(e offenders.LadderEvent) error {
	_, err := t.exec(addLadderEvent, e.ID, toMS(e.At), e.Policy, e.Name, e.Key, string(e.Kind), e.Step, e.Offences,
		e.Length.Milliseconds(), e.BlockID, e.Detail)
	return err
}

func (r *ladderRun) save() error {
	var rows [][]any
	for _, id := range r.ids(func(*climber) bool { return true }) {
		s := r.climbers[id].state
		rows = append(rows, []any{s.Policy, s.Key, s.Step, s.BlockID, s.Ended, s.Last, s.Forgotten, toMS(r.now)})
	}
	return r.upsert(saveLadders, saveLaddersEnd, 8, rows)
}
