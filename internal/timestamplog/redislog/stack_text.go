package redislog

import (
	"fmt"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// stackText returns the text of q's stack for the function library: the algorithm if it is not the
// timestamp log, the retention, in entries and milliseconds, and the limit and the window of each
// rule.
func stackText(q *timestamplog.Request) string {
	if q.IsDistinct() {
		return "distinct,0,0,0,0 " + writeStack(q.Rules, q.Retention)
	}
	return writeAlgorithm(q.Algorithm, q.Options, q.Rules.Unit() != "") + writeStack(q.Rules, q.Retention)
}

// writeAlgorithm returns the prefix of a stack that a counter counts, "" for the timestamp log.
func writeAlgorithm(a *algorithms.Algorithm, o algorithms.Options, amounts bool) string {
	if a == nil {
		return ""
	}
	bit := func(set bool) int {
		if set {
			return 1
		}
		return 0
	}
	unit := ""
	if amounts && a.NeedsUnit() {
		unit = "u"
	}
	return fmt.Sprintf("%s,%d,%d,%d,%d%s ", a.Name, o.Burst, bit(o.WindowStart == algorithms.WindowFirst), bit(o.Variant == algorithms.VariantQueue), bit(o.CountRefused), unit)
}

func writeStack(stack rules.Stack, keep rules.Retention) string {
	text := strconv.AppendInt(nil, int64(keep.Entries), 10)
	text = strconv.AppendInt(append(text, ' '), keep.Window.Milliseconds(), 10)
	for _, rule := range stack.Counted(algorithms.Options{}) {
		text = strconv.AppendInt(append(text, ' '), rule.Limit, 10)
		text = strconv.AppendInt(append(text, ' '), rule.Window, 10)
	}
	return string(text)
}

// stackOf returns the text of q's stack at present: that of a rule of the calendar also has when the
// periods around this node's time begin, because Redis knows no time zones.
func (l *Log) stackOf(q *timestamplog.Request) string {
	text := l.stacks.Of(q, stackText)
	if !q.Rules.HasCalendar() {
		return text
	}
	now := time.Now
	if l.clock != nil {
		now = l.clock
	}
	at := now().UnixMilli()
	for i, rule := range q.Rules.Counted(q.Options) {
		if rule.Calendar != nil {
			text += " @" + strconv.Itoa(i+1) + ":" + rule.Calendar.Starts(at)
		}
	}
	return text
}
