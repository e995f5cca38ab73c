package redislog

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// stackTexts caches the text of stacks for the function library. The zero value is ready to
// use. It is safe for concurrent use.
type stackTexts struct {
	last  atomic.Pointer[stackText] // the last one requested; the next request usually needs the same
	known sync.Map                  // of policyVersion to *stackText
	count atomic.Int64
}

type policyVersion struct{ policy, version int64 }

type stackText struct {
	policyVersion
	rules     rules.Stack
	retention rules.Retention
	algorithm *algorithms.Algorithm
	options   algorithms.Options
	text      string
}

// is reports whether s is the text of q's stack.
func (s *stackText) is(q *timestamplog.Request) bool {
	return s.policy == q.Policy && s.version == q.Version && s.retention == q.Retention && s.algorithm == q.Algorithm && s.options == q.Options && s.rules.Equal(q.Rules)
}

// maxStacks bounds the cache. It is cleared when full; stacks in use are soon cached again.
const maxStacks = 4096

// text returns the text of q's stack: the retention, in entries and milliseconds, and the limit
// and the window of each rule.
func (s *stackTexts) text(q *timestamplog.Request) string {
	if last := s.last.Load(); last != nil && last.is(q) {
		return last.text
	}
	id := policyVersion{q.Policy, q.Version}
	if found, ok := s.known.Load(id); ok {
		// The retention shrinks with time although the version stays the same.
		if known := found.(*stackText); known.is(q) {
			s.last.Store(known)
			return known.text
		}
	}
	known := &stackText{
		policyVersion: id,
		rules:         slices.Clone(q.Rules), retention: q.Retention, algorithm: q.Algorithm, options: q.Options,
		text: writeAlgorithm(q.Algorithm, q.Options) + writeStack(q.Rules, q.Retention),
	}
	if q.IsDistinct() {
		known.text = "distinct,0,0,0,0 " + writeStack(q.Rules, q.Retention)
	}
	if s.count.Add(1) > maxStacks {
		s.known.Clear()
		s.count.Store(1)
	}
	s.known.Store(id, known)
	s.last.Store(known)
	return known.text
}

// writeAlgorithm returns the prefix of a stack that a counter counts, "" for the timestamp log.
func writeAlgorithm(a *algorithms.Algorithm, o algorithms.Options) string {
	if a == nil {
		return ""
	}
	bit := func(set bool) int {
		if set {
			return 1
		}
		return 0
	}
	return fmt.Sprintf("%s,%d,%d,%d,%d ", a.Name, o.Burst, bit(o.WindowStart == algorithms.WindowFirst), bit(o.Variant == algorithms.VariantQueue), bit(o.CountRefused))
}

func writeStack(stack rules.Stack, keep rules.Retention) string {
	text := strconv.AppendInt(nil, int64(keep.Entries), 10)
	text = strconv.AppendInt(append(text, ' '), keep.Window.Milliseconds(), 10)
	for _, rule := range stack {
		text = strconv.AppendInt(append(text, ' '), int64(rule.Limit), 10)
		text = strconv.AppendInt(append(text, ' '), rule.WindowMS(), 10)
	}
	return string(text)
}
