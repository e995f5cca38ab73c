package forwardauth

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"
)

// queries keeps queries that were parsed: operators write few, and gateways send them with
// each request. It never holds more than its slots. It is safe for concurrent use.
type queries struct {
	seed  maphash.Seed
	slots [querySlots]atomic.Pointer[knownQuery]
}

const (
	querySlots    = 64
	maxKnownQuery = 512 // bytes; a longer one is parsed each time
)

// knownQuery is a query as it was sent, without a target, and what it says.
type knownQuery struct {
	raw   string
	query Query
}

// parse reads the query of a request, still encoded. An error is a *fault.Error that
// names the parameter. By must not be changed.
func (q *queries) parse(raw []byte) (Query, error) {
	raw, target := cutTarget(raw)
	query, err := q.parseParameters(raw)
	if err == nil {
		query.Target = string(target)
	}
	return query, err
}

// cutTarget returns what is before the parameter path, and the value of that: all behind it.
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
	slot := &q.slots[maphash.Bytes(q.seed, raw)%querySlots]
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
