package offences

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	request "github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// The spans of the rows of counts.
const (
	minuteSpan = 1
	hourSpan   = 2
	daySpan    = 3
)

const (
	addOffences = `
INSERT INTO offences (span, start, policy_id, mac, kind, refused_by, source, key, place, offences, overcount,
    first_at, first_boundary, first_retry_at, first_meta,
    last_at, last_boundary, last_retry_at, last_meta) `
	mergeOffences = `
ON CONFLICT (span, start, policy_id, mac, kind, refused_by, source) DO UPDATE SET
    offences = offences.offences + excluded.offences,
    overcount = offences.overcount + excluded.overcount,
    first_boundary = CASE WHEN excluded.first_at < offences.first_at THEN excluded.first_boundary ELSE offences.first_boundary END,
    first_retry_at = CASE WHEN excluded.first_at < offences.first_at THEN excluded.first_retry_at ELSE offences.first_retry_at END,
    first_meta = CASE WHEN excluded.first_at < offences.first_at THEN excluded.first_meta ELSE offences.first_meta END,
    first_at = CASE WHEN excluded.first_at < offences.first_at THEN excluded.first_at ELSE offences.first_at END,
    last_boundary = CASE WHEN excluded.last_at >= offences.last_at THEN excluded.last_boundary ELSE offences.last_boundary END,
    last_retry_at = CASE WHEN excluded.last_at >= offences.last_at THEN excluded.last_retry_at ELSE offences.last_retry_at END,
    last_meta = CASE WHEN excluded.last_at >= offences.last_at THEN excluded.last_meta ELSE offences.last_meta END,
    last_at = CASE WHEN excluded.last_at >= offences.last_at THEN excluded.last_at ELSE offences.last_at END`

	addTraffic = `
INSERT INTO traffic (span, start, policy_id, allowed, limited, blocked, challenged, unavailable,
    shadow_allowed, shadow_limited, cost_allowed, untracked) `
	mergeTraffic = `
ON CONFLICT (span, start, policy_id) DO UPDATE SET
    allowed = traffic.allowed + excluded.allowed, limited = traffic.limited + excluded.limited,
    blocked = traffic.blocked + excluded.blocked, challenged = traffic.challenged + excluded.challenged,
    unavailable = traffic.unavailable + excluded.unavailable,
    shadow_allowed = traffic.shadow_allowed + excluded.shadow_allowed,
    shadow_limited = traffic.shadow_limited + excluded.shadow_limited,
    cost_allowed = traffic.cost_allowed + excluded.cost_allowed, untracked = traffic.untracked + excluded.untracked`

	addKeyTraffic = `
INSERT INTO key_traffic (span, start, policy_id, key, place, allowed, refused, cost, overcount) `
	mergeKeyTraffic = `
ON CONFLICT (span, start, policy_id, key) DO UPDATE SET
    allowed = key_traffic.allowed + excluded.allowed, refused = key_traffic.refused + excluded.refused,
    cost = key_traffic.cost + excluded.cost, overcount = key_traffic.overcount + excluded.overcount`

	addDistinct      = `INSERT INTO distinct_keys (span, start, policy_id, node, sketch) `
	mergeDistinct    = ` ON CONFLICT (span, start, policy_id, node) DO UPDATE SET sketch = excluded.sketch`
	addUnits         = `INSERT INTO safety_units (start, policy_id, node, sketch) `
	mergeUnits       = ` ON CONFLICT (start, policy_id, node) DO UPDATE SET sketch = excluded.sketch`
	addTraceChunk    = `INSERT INTO trace (start, node, id, level, points, paths, refused) `
	addMark          = `INSERT INTO count_marks (span, start, mark) `
	mergeMark        = ` ON CONFLICT (span, start) DO UPDATE SET mark = excluded.mark`
	addFlushedBatch  = `INSERT INTO flushed_batches (id, at, marked) VALUES ($1, $2, 1) ON CONFLICT (id) DO NOTHING`
	findFlushedBatch = `SELECT at FROM flushed_batches WHERE id = $1`
	readRollups      = `SELECT span, through, gone, part_through FROM rollups ORDER BY span`
	lockRollups      = `UPDATE rollups SET gone = gone WHERE span = 2`
	deleteBatchesOld = `DELETE FROM flushed_batches WHERE at < $1`
)

// The types of the columns, in the order of the statements' columns.
var (
	offenceColumns = []string{db.IntColumn, db.IntColumn, db.IntColumn, db.BytesColumn, db.IntColumn, db.TextColumn, db.TextColumn, db.TextColumn, db.BytesColumn, db.IntColumn, db.IntColumn,
		db.IntColumn, db.IntColumn, db.IntColumn, db.TextColumn, db.IntColumn, db.IntColumn, db.IntColumn, db.TextColumn}
	trafficColumns    = slices.Repeat([]string{db.IntColumn}, 12)
	keyTrafficColumns = []string{db.IntColumn, db.IntColumn, db.IntColumn, db.TextColumn, db.BytesColumn, db.IntColumn, db.IntColumn, db.IntColumn, db.IntColumn}
	distinctColumns   = []string{db.IntColumn, db.IntColumn, db.IntColumn, db.TextColumn, db.BytesColumn}
	unitColumns       = []string{db.IntColumn, db.IntColumn, db.TextColumn, db.BytesColumn}
	markColumns       = []string{db.IntColumn, db.IntColumn, db.TextColumn}
	traceColumns      = []string{db.IntColumn, db.TextColumn, db.TextColumn, db.IntColumn, db.BytesColumn, db.BytesColumn, db.BytesColumn}
)

func offenceRow(span, start int64, o *offences.Offence) ([]any, error) {
	firstMeta, err := metaText(&o.First)
	if err != nil {
		return nil, err
	}
	lastMeta, err := metaText(&o.Last)
	if err != nil {
		return nil, err
	}
	return []any{span, start, o.Policy, o.MAC[:], int64(o.Kind), o.RefusedBy, o.Source, o.Key, placeOf(o.Key), o.Count, o.Overcount,
		o.First.At, o.First.Boundary, o.First.RetryAt, firstMeta,
		o.Last.At, o.Last.Boundary, o.Last.RetryAt, lastMeta}, nil
}

func trafficRow(span, start int64, t *offences.Totals) []any {
	return []any{span, start, t.Policy, t.Allowed, t.Limited, t.Blocked, t.Challenged, t.Unavailable,
		t.ShadowAllowed, t.ShadowLimited, t.CostAllowed, t.Untracked}
}

func keyTrafficRow(span, start int64, k *offences.KeyTraffic) []any {
	return []any{span, start, k.Policy, k.Key, placeOf(k.Key), k.Allowed, k.Refused, k.Cost, k.Overcount}
}

// placeOf returns the first address of the network of an "ip:" key as 16 bytes, so that a CIDR
// is a range; nil for other keys.
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

// metPrefix begins the names under which the conditions that a request met are stored beside its
// meta. No caller can send such a name.
const metPrefix = "\x1f"

// metaText returns how a refusal's Meta and Met are stored: as one object, which earlier versions
// read too.
func metaText(r *offences.Refusal) (string, error) {
	if len(r.Meta) == 0 && len(r.Met) == 0 {
		return "", nil
	}
	all := make(map[string]string, len(r.Meta)+len(r.Met))
	maps.Copy(all, r.Meta)
	for _, m := range r.Met {
		all[metPrefix+m.Attribute] = m.Pattern + metPrefix + m.Value
	}
	text, err := json.Marshal(all, json.Deterministic(true), jsontext.AllowInvalidUTF8(false))
	return string(text), err
}

// parseMeta reads what metaText returned into a refusal.
func parseMeta(text string, into *offences.Refusal) error {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &into.Meta); err != nil {
		return err
	}
	for _, attribute := range request.Names() {
		name := metPrefix + attribute
		if stored, is := into.Meta[name]; is {
			pattern, value, _ := strings.Cut(stored, metPrefix)
			into.Met = append(into.Met, request.Met{Attribute: attribute, Pattern: pattern, Value: value})
			delete(into.Meta, name)
		}
	}
	return nil
}
