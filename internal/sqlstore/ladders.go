package sqlstore

import (
	"cmp"
	"slices"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offenders"
)

const ladderColumns = `policy_id, key, step, block_id, ended_at, last_at, forgotten_at, counts_from`

// The statements about many keys get them as their first parameter; see bulk.go.
// CROSS JOIN keeps the order in which the tables are read on SQLite.
var (
	ladderKeyTypes = []string{intColumn, textColumn}
	knownLadders   = asked(ladderKeyTypes, "policy_id", "key") + `
SELECT l.policy_id, l.key FROM asked CROSS JOIN ladders l WHERE l.policy_id = asked.policy_id AND l.key = asked.key`

	newLadderTypes = []string{intColumn, textColumn, same("0"), same("''"), same("0"), same("0"), same("0"), same("0"), parameter(2, intColumn)}
	ladderTypes    = []string{intColumn, textColumn, intColumn, textColumn, intColumn, intColumn, intColumn, intColumn, parameter(2, intColumn)}
	addLadders     = `
INSERT INTO ladders (` + ladderColumns + `, touched) `
	// lockLadders holds the rows until the transaction ends, so that of two
	// nodes that count for one key the second sees what the first counted.
	lockLadders = addLadders + bulkSelect(newLadderTypes) + `
ON CONFLICT (policy_id, key) DO UPDATE SET touched = excluded.touched RETURNING ` + ladderColumns
	saveLadders = `
ON CONFLICT (policy_id, key) DO UPDATE SET step = excluded.step, block_id = excluded.block_id,
    ended_at = excluded.ended_at, last_at = excluded.last_at, forgotten_at = excluded.forgotten_at, counts_from = excluded.counts_from`
	findBlockEnds = asked([]string{textColumn}, "id") + `
SELECT b.id, CASE WHEN b.ended_at > 0 THEN b.ended_at ELSE b.expires_at END
FROM asked CROSS JOIN blocks b WHERE b.id = asked.id`

	countTypes        = []string{intColumn, textColumn, intColumn, intColumn}
	addLadderCounts   = `INSERT INTO ladder_counts (policy_id, key, start, offences) `
	mergeLadderCounts = ` ON CONFLICT (policy_id, key, start) DO UPDATE SET offences = ladder_counts.offences + excluded.offences`
	// deleteUsedCounts forgets what has led to a block. What was counted before
	// that minute no longer counts by the state of its key.
	deleteUsedCounts = asked(ladderKeyTypes, "policy_id", "key") + `
DELETE FROM ladder_counts WHERE start >= $2 AND (policy_id, key) IN (SELECT policy_id, key FROM asked)`

	minuteTypes = []string{intColumn, textColumn, intColumn}
	// sumOffences adds up what counts for each key from a minute on.
	sumOffences = asked(minuteTypes, "policy_id", "key", "start") + `
SELECT asked.policy_id, asked.key, CAST(sum(c.offences) AS BIGINT) FROM asked CROSS JOIN ladder_counts c
WHERE c.policy_id = asked.policy_id AND c.key = asked.key AND c.start >= asked.start
GROUP BY asked.policy_id, asked.key`
)

// ladderID is one key on one policy's ladder.
type ladderID struct {
	policy int64
	key    string
}

// climber is a key on a ladder with what a batch says of it.
type climber struct {
	ladderID
	ladder offenders.Ladder
	parsed keys.Key
	offenders.Candidate
	counts  []*offenders.Offence // those that climb
	minutes map[int64]int64      // of those, what counts since the last block's end
}

// since returns what the batch brings from a minute on.
func (c *climber) since(from int64) (offences int64) {
	for minute, n := range c.minutes {
		if minute >= from {
			offences += n
		}
	}
	return offences
}

// row returns the climber's identity and more columns as a bulk row.
func (c *climber) row(more ...any) []any { return append([]any{c.policy, c.key}, more...) }

// ladderRun evaluates the ladders for one batch in its transaction, with a
// number of statements that does not depend on how many keys there are.
type ladderRun struct {
	*tx
	evaluation offenders.Evaluation
	// climbers are in the order in which every node locks them.
	climbers []*climber
	byID     map[ladderID]*climber
	events   []offenders.LadderEvent
}

func (r *ladderRun) evaluate(offences []offenders.Offence) error {
	r.collect(offences)
	for _, step := range []func() error{r.leaveStrangers, r.lock, r.readBlockEnds, r.count, r.sum, r.escalate} {
		if len(r.climbers) == 0 {
			return nil
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (r *ladderRun) collect(offences []offenders.Offence) {
	r.byID = map[ladderID]*climber{}
	for i := range offences {
		o := &offences[i]
		ladder, has := r.evaluation.Ladders[o.Policy]
		counts := ladder.Counts(o.Kind)
		if !has || o.Key == "" || (!counts && o.Kind != offenders.Blocked) {
			continue
		}
		id := ladderID{o.Policy, o.Key}
		c, known := r.byID[id]
		if !known {
			k, err := offenders.ParseKey(o.Key)
			if err != nil || (r.evaluation.Exempt != nil && r.evaluation.Exempt(o.Key)) {
				continue // what is no key cannot be blocked
			}
			c = &climber{ladderID: id, ladder: ladder, parsed: k}
			c.First, c.Last = o.First.At, o.Last.At
			r.byID[id] = c
			r.climbers = append(r.climbers, c)
		}
		c.First, c.Last = min(c.First, o.First.At), max(c.Last, o.Last.At)
		if counts {
			c.counts = append(c.counts, o)
		}
	}
	slices.SortFunc(r.climbers, func(a, b *climber) int {
		return cmp.Or(cmp.Compare(a.policy, b.policy), cmp.Compare(a.key, b.key))
	})
}

// rows returns a bulk row of each climber for which it is not nil.
func (r *ladderRun) rows(of func(*climber) []any) (rows [][]any) {
	for _, c := range r.climbers {
		if row := of(c); row != nil {
			rows = append(rows, row)
		}
	}
	return rows
}

// leaveStrangers forgets the keys that were only blocked and stand on no
// ladder: their offences end no quiet spell.
func (r *ladderRun) leaveStrangers() error {
	rows := r.rows(func(c *climber) []any {
		if len(c.counts) > 0 {
			return nil
		}
		return c.row()
	})
	known, err := eachOf(r.tx, func(row row) (id ladderID, err error) {
		return id, row.Scan(&id.policy, &id.key)
	}, knownLadders, rows)
	if err != nil {
		return err
	}
	stands := map[ladderID]bool{}
	for _, id := range known {
		stands[id] = true
	}
	r.climbers = slices.DeleteFunc(r.climbers, func(c *climber) bool { return len(c.counts) == 0 && !stands[c.ladderID] })
	return nil
}

// lock reads the states, and holds them.
func (r *ladderRun) lock() error {
	states, err := eachOf(r.tx, scanLadder, lockLadders, r.rows(func(c *climber) []any { return c.row() }), toMS(r.now))
	for _, s := range states {
		r.byID[ladderID{s.Policy, s.Key}].State = s
	}
	return err
}

func scanLadder(r row) (s offenders.LadderState, err error) {
	return s, r.Scan(&s.Policy, &s.Key, &s.Step, &s.BlockID, &s.Ended, &s.Last, &s.Forgotten, &s.CountsFrom)
}

// readBlockEnds takes over what operators did to the blocks that ladders made:
// lifted them, or moved their end.
func (r *ladderRun) readBlockEnds() error {
	byBlock := map[string]*climber{}
	rows := r.rows(func(c *climber) []any {
		if c.State.BlockID == "" {
			return nil
		}
		byBlock[c.State.BlockID] = c
		return []any{c.State.BlockID}
	})
	_, err := eachOf(r.tx, func(row row) (none struct{}, err error) {
		var id string
		var end int64
		if err := row.Scan(&id, &end); err != nil {
			return none, err
		}
		byBlock[id].State.Ended = end
		return none, nil
	}, findBlockEnds, rows)
	return err
}

// count notes what counts: the offences that all came after the last block.
func (r *ladderRun) count() error {
	for _, c := range r.climbers {
		for _, o := range c.counts {
			if o.First.At >= c.State.Ended && o.Count > 0 {
				if c.minutes == nil {
					c.minutes = map[int64]int64{}
				}
				c.minutes[o.Minute] += o.Count
			}
		}
	}
	return nil
}

// sum adds up the offences that count for each key. Only a key that has enough
// without a look at the blocks of others can have enough with one.
func (r *ladderRun) sum() error {
	var counted []*climber
	for _, c := range r.climbers {
		if len(c.minutes) > 0 {
			c.From = c.ladder.CountFrom(c.State, 0, c.Last)
			counted = append(counted, c)
		}
	}
	if err := r.sumFrom(counted); err != nil {
		return err
	}
	reached := slices.DeleteFunc(counted, func(c *climber) bool { return c.Offences < int64(c.ladder.Offences) })
	ends, err := r.otherBlockEnds(reached)
	if err != nil {
		return err
	}
	var later []*climber
	for _, c := range reached {
		if from := c.ladder.CountFrom(c.State, ends[c], c.Last); from > c.From {
			c.From = from
			later = append(later, c)
		}
	}
	return r.sumFrom(later)
}

func (r *ladderRun) sumFrom(climbers []*climber) error {
	rows := make([][]any, len(climbers))
	for i, c := range climbers {
		rows[i] = c.row(c.From)
		c.Offences = c.since(c.From)
	}
	_, err := eachOf(r.tx, func(row row) (none struct{}, err error) {
		var id ladderID
		var offences int64
		if err := row.Scan(&id.policy, &id.key, &offences); err != nil {
			return none, err
		}
		r.byID[id].Offences += offences
		return none, nil
	}, sumOffences, rows)
	return err
}

// escalate has each policy's ladder decide about its keys, and saves what it
// decided.
func (r *ladderRun) escalate() error {
	w := ladderWriter{ladderRun: r}
	for all := r.climbers; len(all) > 0; {
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

// becomeChange takes the next revision, since blocks are about to be made. No
// transaction that holds it waits for a row of ladders.
func (r *ladderRun) becomeChange() error {
	r.by = audit.Stint("ladder")
	_, err := r.one(takeRevision, nil, &r.revision)
	return err
}
