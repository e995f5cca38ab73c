package offences

import (
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// maxSpellings and maxSpellingBytes bound the spellings that one statement looks up: a key of n
// bytes is selected by up to n patterns.
const (
	maxSpellings     = 100_000
	maxSpellingBytes = 8 << 20
)

// newestEnds finds when the last block of each pattern in a scope ends or ended, by what it does and who
// made it; see suspends. Without the plus sign SQLite, which does not know the number of entries, would
// read all blocks created before now for each pattern.
var newestEnds = db.Asked([]string{db.TextColumn, db.TextColumn}, "pattern", "scope") + `
SELECT b.pattern, b.scope, b.action, b.source, b.policy_id, max(CASE WHEN b.ended_at > 0 THEN b.ended_at ELSE b.expires_at END) FROM asked
CROSS JOIN entries b WHERE b.pattern = asked.pattern AND b.kind = 'block' AND b.scope = asked.scope AND +b.created_at <= $2
AND CASE WHEN b.ended_at > 0 THEN b.ended_at ELSE b.expires_at END > $3 GROUP BY b.pattern, b.scope, b.action, b.source, b.policy_id`

// spelling is the stored pattern and scope of a block.
type spelling struct{ pattern, scope string }

// spellings returns those of all blocks that select c's key, of every check or in the scope of
// its escalation.
func (c *candidate) spellings() (all []spelling) {
	for _, pattern := range keys.Selecting(c.parsed) {
		if all = append(all, spelling{pattern, ""}); c.escalation.Scope != "" {
			all = append(all, spelling{pattern, c.escalation.Scope})
		}
	}
	return all
}

// suspends reports whether offences under a block with these spelling, action and author do not count for
// c: that block refuses, or it is a challenge in the place of that of c, which is not replaced. Under any
// other challenge clients with a pass go on offending.
func (c *candidate) suspends(of spelling, action blocks.Action, source blocks.Source, policy int64) bool {
	isOwn := source == blocks.Automatic && policy == c.policy
	return action == blocks.Refuse || !isOwn && of == spelling{keys.PatternOf(c.parsed).String(), c.escalation.Scope}
}

// otherBlockEnds returns when the newest block that suspends the escalation of each key ends or ended, of
// every check or in the escalation's scope and by any author, if that is within the window that counts.
func (r *escalationRun) otherBlockEnds(candidates []*candidate) (map[*candidate]int64, error) {
	ends := map[*candidate]int64{}
	for len(candidates) > 0 {
		// Many keys are selected by the same networks and prefixes.
		spellings := map[spelling][]*candidate{}
		size, n := 0, 0
		since := candidates[0].From
		for n < len(candidates) && len(spellings) < maxSpellings && size < maxSpellingBytes {
			c := candidates[n]
			for _, s := range c.spellings() {
				if len(spellings[s]) == 0 {
					size += len(s.pattern) + len(s.scope)
				}
				spellings[s] = append(spellings[s], c)
			}
			since = min(since, c.From)
			n++
		}
		rows := make([][]any, 0, len(spellings))
		for s := range spellings {
			rows = append(rows, []any{s.pattern, s.scope})
		}
		text, err := db.BulkJSON(rows)
		if err != nil {
			return nil, err
		}
		_, err = db.Each(r.Tx, func(row db.Row) (none struct{}, err error) {
			var of spelling
			var action blocks.Action
			var source blocks.Source
			var policy, end int64
			if err := row.Scan(&of.pattern, &of.scope, &action, &source, &policy, &end); err != nil {
				return none, err
			}
			for _, c := range spellings[of] {
				if c.suspends(of, action, source, policy) {
					ends[c] = max(ends[c], end)
				}
			}
			return none, nil
		}, newestEnds, text, db.ToMS(r.Now), since)
		if err != nil {
			return nil, err
		}
		candidates = candidates[n:]
	}
	return ends, nil
}
