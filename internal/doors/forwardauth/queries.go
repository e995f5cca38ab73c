package forwardauth

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"
)

// queries caches parsed queries: operators write few, and gateways send them with each request.
// It never holds more than its slots. It is safe for concurrent use.
type queries struct {
	seed  maphash.Seed
	slots [querySlots]atomic.Pointer[knownQuery]
}

const (
	querySlots    = 64
	maxKnownQuery = 512 // in bytes; a longer query is parsed each time
)

// knownQuery is a query as it was sent, without a target, and its parsed form.
type knownQuery struct {
	raw   string
	query Query
	// isOfOperator reports that the query came with a request of a client that did not have it.
	isOfOperator atomic.Bool
}

// isOfOperator reports whether the query of a request, without a target, is known to be the
// operator's.
func (q *queries) isOfOperator(raw []byte) bool {
	known := q.slotOf(raw).Load()
	return known != nil && known.raw == string(raw) && known.isOfOperator.Load()
}

// setOfOperator records that a known query is the operator's.
func (q *queries) setOfOperator(raw []byte) {
	known := q.slotOf(raw).Load()
	if known != nil && known.raw == string(raw) && !known.isOfOperator.Load() {
		known.isOfOperator.Store(true)
	}
}

func (q *queries) slotOf(raw []byte) *atomic.Pointer[knownQuery] {
	return &q.slots[maphash.Bytes(q.seed, raw)%querySlots]
}

// parse parses the encoded query of a request. An error is a *fault.Error that names the
// parameter. The By of the result must not be changed.
func (q *queries) parse(raw []byte) (Query, error) {
	raw, target := cutTarget(raw)
	query, err := q.parseParameters(raw)
	if err == nil {
		query.Target = string(target)
	}
	return query, err
}

// cutTarget splits a query at the parameter path. target is its value: everything after it.
func cutTarget(raw []byte) (parameters, target []byte) {
	const first, later = paramPath + "=", "&" + paramPath + "="
	if bytes.HasPrefix(raw, []byte(first)) {
		return nil, raw[len(first):]
	}
	parameters, target, _ = bytes.Cut(raw, []byte(later))
	return parameters, target
}

func (q *queries) parseParameters(raw []byte) (Query, error) {
	if len(raw) == 0 {
		return Query{}, nil
	}
	slot := q.slotOf(raw)
	if known := slot.Load(); known != nil && known.raw == string(raw) {
		return known.query, nil
	}
	known := &knownQuery{raw: string(raw)}
	if err := known.query.parse(known.raw); err != nil {
		return Query{}, err
	}
	if len(raw) <= maxKnownQuery {
		slot.Store(known)
	}
	return known.query, nil
}
