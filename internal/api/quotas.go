package api

import (
	"sync"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/rules"
)

// quotas keep the header RateLimit-Policy of each policy, which is written out
// once for each version. They are forgotten with the selector that holds the
// policies, so that they are never more than its policies and those of checks
// that are under way. The zero value is ready for use.
type quotas struct{ last atomic.Pointer[quotasUnder] }

type quotasUnder struct {
	selector *rules.Selector
	byPolicy sync.Map // of []byte, by *rules.Policy
}

// of returns the header of p, empty where there is nothing to say. It must not
// be changed.
func (q *quotas) of(p *rules.Policy, selector *rules.Selector) []byte {
	last := q.last.Load()
	if last == nil || last.selector != selector {
		last = &quotasUnder{selector: selector}
		q.last.Store(last)
	}
	if known, found := last.byPolicy.Load(p); found {
		return known.([]byte)
	}
	list := appendQuotas(nil, p.Rules)
	last.byPolicy.Store(p, list)
	return list
}
