package offences

import (
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// segment is a part of a span that is read from rows of one length.
type segment struct{ span, from, to int64 }

// cover splits [from, to) into the fewest rows: whole days and hours that are already added up,
// minutes at the edges. If the minutes were deleted, it widens the span to whole hours, or
// days. It returns the resulting span. Rows are at most as long as longest, so that they can be
// grouped into parts of that length; 0 means no limit.
func cover(from, to time.Time, longest time.Duration, rollups map[int64]rollup) (offences.Span, []segment) {
	minute := spanMS(minuteSpan)
	low, high := from.UnixMilli(), to.UnixMilli()
	low -= low % minute
	high += (minute - high%minute) % minute
	for _, span := range []int64{minuteSpan, hourSpan} {
		gone, longer := rollups[span].gone, spanMS(span+1)
		if low < gone {
			low -= low % longer
		}
		if high < gone {
			high += (longer - high%longer) % longer
		}
	}
	read := offences.Span{From: time.UnixMilli(low).UTC(), To: time.UnixMilli(high).UTC()}
	span := int64(daySpan)
	for longest > 0 && span > minuteSpan && spanMS(span) > longest.Milliseconds() && low >= rollups[span-1].gone {
		span--
	}
	return read, split(span, low, high, rollups)
}

// split covers [low, high) with rows of a span and, at the edges, of shorter spans.
func split(span, low, high int64, rollups map[int64]rollup) []segment {
	if low >= high {
		return nil
	}
	if span == minuteSpan {
		return []segment{{span, low, high}}
	}
	length := spanMS(span)
	first := low + (length-low%length)%length
	last := min(high, rollups[span].through)
	last -= last % length
	if first >= last {
		return split(span-1, low, high, rollups)
	}
	parts := split(span-1, low, first, rollups)
	parts = append(parts, segment{span, first, last})
	return append(parts, split(span-1, last, high, rollups)...)
}

// longestRow returns the length of the longest rows of segments, 0 for none.
func longestRow(segments []segment) time.Duration {
	longest := int64(0)
	for _, s := range segments {
		longest = max(longest, spanMS(s.span))
	}
	return time.Duration(longest) * time.Millisecond
}

// union returns a query for the rows of all segments of a table, with the given columns and
// additional clauses. Each ? in more represents the next of args.
func union(q *db.Selection, columns, table string, segments []segment, more string, args ...any) string {
	text := ""
	for i, s := range segments {
		if i > 0 {
			text += " UNION ALL "
		}
		text += "SELECT " + columns + " FROM " + table + " WHERE " +
			q.Fill("span = ? AND start >= ? AND start < ?"+more, append([]any{s.span, s.from, s.to}, args...)...)
	}
	if text == "" { // an empty span
		return "SELECT " + columns + " FROM " + table + " WHERE 1 = 0"
	}
	return text
}

// conditions are the clauses after the span, with their arguments.
type conditions struct {
	text string
	args []any
}

func (c *conditions) and(clause string, args ...any) {
	c.text += " AND " + clause
	c.args = append(c.args, args...)
}

// selects restricts key and place to what p selects.
func (c *conditions) selects(p keys.Pattern) {
	switch p.Kind() {
	case keys.Exact:
		c.and("key = ?", p.Literal())
	case keys.Prefix:
		c.and("key >= ? AND key < ?", p.Literal(), db.AfterPrefix(p.Literal()))
	case keys.FromOrigin: // the caller filters by origin
		c.and("key >= ? AND key < ?", "ip:", db.AfterPrefix("ip:"))
	case keys.Network:
		low, high := db.NetworkBounds(p)
		c.and("place >= ? AND place <= ?", low, high)
		if network, _ := p.Network(); network.Addr().Is6() { // IPv4 is not part of IPv6
			c.and("NOT (place >= ? AND place <= ?)", db.MappedLow, db.MappedHigh)
		}
	}
}

func (c *conditions) keyIn(all []string) {
	args := make([]any, len(all))
	marks := ""
	for i, k := range all {
		args[i] = k
		marks += []string{"?", ", ?"}[min(i, 1)]
	}
	c.and("key IN ("+marks+")", args...)
}
