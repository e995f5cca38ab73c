package sqlstore

import (
	"database/sql"
	"net/netip"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/offenders"
)

// The spans of time that counts are kept by.
const (
	minuteSpan = 1
	hourSpan   = 2
	daySpan    = 3
)

// inParts hands rows to do, as many at a time as one statement takes. What is
// left goes in statements of smaller powers of two, so that only a handful of
// texts is ever prepared.
func inParts[T any](t *tx, rows []T, do func([]T) error) error {
	for len(rows) > 0 {
		n := t.store.place.dialect.statementRows
		for n > len(rows) {
			n /= 2
		}
		if err := do(rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// tuples writes ($1,$2),($3,$4)... for rows of as many columns as types, with
// the parameters cast where the type is not "".
func tuples(rows int, types ...string) string {
	var b strings.Builder
	n := 0
	for row := range rows {
		for column, name := range types {
			b.WriteString([]string{"(", ","}[min(column, 1)])
			n++
			if name != "" {
				b.WriteString("CAST($" + strconv.Itoa(n) + " AS " + name + ")")
			} else {
				b.WriteString("$" + strconv.Itoa(n))
			}
		}
		b.WriteString(")")
		if row < rows-1 {
			b.WriteString(",")
		}
	}
	return b.String()
}

// upsert writes rows of columns with head and tail around them. Parts of the
// full size share one prepared statement.
func (t *tx) upsert(head, tail string, columns int, rows [][]any) error {
	types := make([]string, columns)
	var full *sql.Stmt // it ends with the transaction
	return inParts(t, rows, func(part [][]any) (err error) {
		args := make([]any, 0, len(part)*columns)
		for _, r := range part {
			args = append(args, r...)
		}
		if len(part) < t.store.place.dialect.statementRows {
			_, err = t.exec(head+tuples(len(part), types...)+tail, args...)
			return err
		}
		if full == nil {
			if full, err = t.sql.PrepareContext(t.ctx, head+tuples(len(part), types...)+tail); err != nil { //nolint:sqlclosecheck // it ends with the transaction
				return err
			}
		}
		_, err = full.ExecContext(t.ctx, args...)
		return err
	})
}

const (
	addOffences = `
INSERT INTO offences (span, start, policy_id, mac, kind, decider, source, key, place, offences, over,
    first_at, first_boundary, first_retry_at, first_meta,
    last_at, last_boundary, last_retry_at, last_meta) VALUES `
	mergeOffences = `
ON CONFLICT (span, start, policy_id, mac, kind, decider, source) DO UPDATE SET
    offences = offences.offences + excluded.offences,
    over = offences.over + excluded.over,
    first_boundary = CASE WHEN excluded.first_at < offences.first_at THEN excluded.first_boundary ELSE offences.first_boundary END,
    first_retry_at = CASE WHEN excluded.first_at < offences.first_at THEN excluded.first_retry_at ELSE offences.first_retry_at END,
    first_meta = CASE WHEN excluded.first_at < offences.first_at THEN excluded.first_meta ELSE offences.first_meta END,
    first_at = CASE WHEN excluded.first_at < offences.first_at THEN excluded.first_at ELSE offences.first_at END,
    last_boundary = CASE WHEN excluded.last_at >= offences.last_at THEN excluded.last_boundary ELSE offences.last_boundary END,
    last_retry_at = CASE WHEN excluded.last_at >= offences.last_at THEN excluded.last_retry_at ELSE offences.last_retry_at END,
    last_meta = CASE WHEN excluded.last_at >= offences.last_at THEN excluded.last_meta ELSE offences.last_meta END,
    last_at = CASE WHEN excluded.last_at >= offences.last_at THEN excluded.last_at ELSE offences.last_at END`
	offenceColumns = 19

	addTraffic = `
INSERT INTO traffic (span, start, policy_id, allowed, limited, blocked, unavailable,
    shadow_allowed, shadow_limited, cost_allowed, untracked) VALUES `
	mergeTraffic = `
ON CONFLICT (span, start, policy_id) DO UPDATE SET
    allowed = traffic.allowed + excluded.allowed, limited = traffic.limited + excluded.limited,
    blocked = traffic.blocked + excluded.blocked, unavailable = traffic.unavailable + excluded.unavailable,
    shadow_allowed = traffic.shadow_allowed + excluded.shadow_allowed,
    shadow_limited = traffic.shadow_limited + excluded.shadow_limited,
    cost_allowed = traffic.cost_allowed + excluded.cost_allowed, untracked = traffic.untracked + excluded.untracked`
	trafficColumns = 11

	addKeyTraffic = `
INSERT INTO key_traffic (span, start, policy_id, key, place, allowed, refused, cost, over) VALUES `
	mergeKeyTraffic = `
ON CONFLICT (span, start, policy_id, key) DO UPDATE SET
    allowed = key_traffic.allowed + excluded.allowed, refused = key_traffic.refused + excluded.refused,
    cost = key_traffic.cost + excluded.cost, over = key_traffic.over + excluded.over`
	keyTrafficColumns = 9

	addDistinct      = `INSERT INTO distinct_keys (span, start, policy_id, node, sketch) VALUES `
	mergeDistinct    = ` ON CONFLICT (span, start, policy_id, node) DO UPDATE SET sketch = excluded.sketch`
	addTraceChunk    = `INSERT INTO trace (start, node, id, level, points) VALUES ($1, $2, $3, $4, $5)`
	addFlushedBatch  = `INSERT INTO flushed_batches (id, at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`
	readRollups      = `SELECT span, through, gone FROM rollups ORDER BY span`
	lockRollups      = `UPDATE rollups SET gone = gone WHERE span = 2`
	deleteBatchesOld = `DELETE FROM flushed_batches WHERE at < $1`
)

func offenceRow(span, start int64, o *offenders.Offence) ([]any, error) {
	firstMeta, err := metaText(o.First.Meta)
	if err != nil {
		return nil, err
	}
	lastMeta, err := metaText(o.Last.Meta)
	if err != nil {
		return nil, err
	}
	return []any{span, start, o.Policy, o.MAC[:], int64(o.Kind), o.Decider, o.Source, o.Key, placeOf(o.Key), o.Count, o.Over,
		o.First.At, o.First.Boundary, o.First.RetryAt, firstMeta,
		o.Last.At, o.Last.Boundary, o.Last.RetryAt, lastMeta}, nil
}

func trafficRow(span, start int64, t *offenders.Totals) []any {
	return []any{span, start, t.Policy, t.Allowed, t.Limited, t.Blocked, t.Unavailable,
		t.ShadowAllowed, t.ShadowLimited, t.CostAllowed, t.Untracked}
}

func keyTrafficRow(span, start int64, k *offenders.KeyTraffic) []any {
	return []any{span, start, k.Policy, k.Key, placeOf(k.Key), k.Allowed, k.Refused, k.Cost, k.Over}
}

// placeOf returns where the network of an "ip:" key begins, as 16 bytes, so
// that a CIDR is a range; nil for other keys.
func placeOf(key string) []byte {
	text, is := strings.CutPrefix(key, "ip:")
	if !is {
		return nil
	}
	text, _, _ = strings.Cut(text, "/")
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return nil
	}
	first := addr.As16()
	return first[:]
}

func metaText(meta map[string]string) (string, error) {
	if len(meta) == 0 {
		return "", nil
	}
	text, err := json.Marshal(meta, json.Deterministic(true), jsontext.AllowInvalidUTF8(false))
	return string(text), err
}

func parseMeta(text string) (meta map[string]string, err error) {
	if text == "" {
		return nil, nil
	}
	return meta, json.Unmarshal([]byte(text), &meta)
}
