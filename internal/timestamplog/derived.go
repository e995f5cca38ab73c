package timestamplog

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

// maxDerived bounds the cache of a Derived. It is cleared when full; what is in use is soon cached
// again.
const maxDerived = 4096

// Derived caches what a log derives from the Rules, Retention, Algorithm and Options of requests,
// under Policy and Version. The zero value is ready to use. It is safe for concurrent use.
type Derived[T any] struct {
	known sync.Map // of policyVersion to *derivation[T]
	count atomic.Int64
}

type policyVersion struct{ policy, version int64 }

type derivation[T any] struct {
	policyVersion
	rules     rules.Stack
	retention rules.Retention
	algorithm *algorithms.Algorithm
	options   algorithms.Options
	value     T
}

// is reports whether d was derived from what q says, apart from its Rules. A version may have several: its
// retention shrinks with time, and some keys have limits of their own.
func (d *derivation[T]) is(q *Request) bool {
	return d.retention == q.Retention && d.algorithm == q.Algorithm && d.options == q.Options
}

// Of returns what derive, which must depend on nothing else, returns for q. derive must not keep
// the Rules of q.
func (d *Derived[T]) Of(q *Request, derive func(*Request) T) T { return d.of(q, derive).value }

func (d *Derived[T]) of(q *Request, derive func(*Request) T) *derivation[T] {
	id := policyVersion{q.Policy, q.Version}
	if found, ok := d.known.Load(id); ok {
		if known := found.(*derivation[T]); known.is(q) && known.rules.Equal(q.Rules) {
			return known
		}
	}
	known := &derivation[T]{id, slices.Clone(q.Rules), q.Retention, q.Algorithm, q.Options, derive(q)}
	if d.count.Add(1) > maxDerived {
		d.known.Clear()
		d.count.Store(1)
	}
	d.known.Store(id, known)
	return known
}

// Recent is a Derived that looks first whether the same is asked for as last time, with the Rules in the same
// memory. It is not safe for concurrent use.
//
// Fast path. Plain version: the Derived alone. Benchmark: BenchmarkDecide/hot,_allowed,_amounts.
type Recent[T any] struct {
	*Derived[T]
	last  *derivation[T]
	rules rules.Stack // of the last request
}

// Of is that of the Derived. The Rules of q must never change.
func (r *Recent[T]) Of(q *Request, derive func(*Request) T) T {
	last := r.last
	if last == nil || last.policy != q.Policy || last.version != q.Version || !last.is(q) || len(r.rules) != len(q.Rules) || unsafe.SliceData(r.rules) != unsafe.SliceData(q.Rules) {
		last = r.of(q, derive)
		r.last, r.rules = last, q.Rules
	}
	return last.value
}
