package memlog

import (
	"encoding/binary"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// The kinds of records in a snapshot, as snapshot.go describes them.
const (
	logKind = iota
	counterKind
	idsKind
	distinctKind
)

// maxSavedIDs bounds the record of one log's IDs.
const maxSavedIDs = 100_000

func appendLogID(b []byte, kind uint64, id timestamplog.LogID) []byte {
	b = binary.AppendUvarint(b, kind)
	b = binary.AppendVarint(b, id.Policy)
	b = binary.AppendVarint(b, id.Generation)
	return appendText(b, id.Key)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func appendNumbers(b []byte, numbers []int64) []byte {
	b = binary.AppendUvarint(b, uint64(len(numbers)))
	for _, n := range numbers {
		b = binary.AppendVarint(b, n)
	}
	return b
}

func appendLog(b []byte, k *keyLog) []byte {
	b = appendLogID(b, logKind, idOf(k))
	b = binary.AppendVarint(b, k.newest)
	b = binary.AppendUvarint(b, uint64(k.window))
	b = binary.AppendUvarint(b, uint64(k.count))
	for i := 1; i < int(k.count); i++ {
		b = binary.AppendUvarint(b, uint64(k.stamp(i-1)-k.stamp(i)))
	}
	return binary.AppendUvarint(b, uint64(min(k.reserved, k.count)))
}

func appendCounter(b []byte, k *keyLog, state *algorithms.State) []byte {
	b = appendLogID(b, counterKind, idOf(k))
	b = binary.AppendVarint(b, k.expiresAt())
	b = appendNumbers(b, state.Numbers)
	reservations := state.Reservations
	if reservations == nil {
		return binary.AppendUvarint(b, 0)
	}
	b = binary.AppendUvarint(b, 1)
	b = binary.AppendVarint(b, reservations.Newest)
	b = appendText(b, reservations.ID)
	b = appendNumbers(b, reservations.Before)
	return binary.AppendVarint(b, reservations.NewestBefore)
}

func appendDistinct(b []byte, k *keyLog, values []valueTime) []byte {
	b = appendLogID(b, distinctKind, idOf(k))
	b = binary.AppendUvarint(b, uint64(k.window))
	b = binary.AppendUvarint(b, uint64(len(values)))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v.value)
		b = binary.AppendVarint(b, v.at)
	}
	return b
}

func appendIDs(b []byte, l *logIDs) []byte {
	var known []named
	for _, n := range l.order[max(0, len(l.order)-maxSavedIDs):] {
		if l.reservations[n.id] == n.charged {
			known = append(known, n)
		}
	}
	b = appendLogID(b, idsKind, l.log)
	b = binary.AppendUvarint(b, uint64(len(known)))
	for _, n := range known {
		b = appendText(b, n.id)
		b = binary.AppendVarint(b, n.reservation-l.shifted)
		b = binary.AppendUvarint(b, uint64(n.cost))
	}
	return b
}

// record is one part of a snapshot.
type record interface {
	id() timestamplog.LogID
	// addTo adds the record to its shard, which is locked, unless it has expired or the shard
	// already has such a record.
	addTo(s *shard, hash uint64, now int64)
}

type logRecord struct{ *keyLog }

func (r logRecord) id() timestamplog.LogID { return idOf(r.keyLog) }

func (r logRecord) addTo(s *shard, hash uint64, now int64) {
	if !r.expired(now) && s.logs.find(hash, r.id()) == nil {
		s.add(hash, r.keyLog, now)
	}
}

type counterRecord struct{ *keyLog }

func (r counterRecord) id() timestamplog.LogID { return idOf(r.keyLog) }

func (r counterRecord) addTo(s *shard, hash uint64, now int64) {
	hash = counterHash(hash)
	if !r.expired(now) && s.logs.find(hash, r.id()) == nil {
		s.add(hash, r.keyLog, now)
	}
}

type distinctRecord struct {
	*keyLog
	values []valueTime
}

func (r distinctRecord) id() timestamplog.LogID { return idOf(r.keyLog) }

func (r distinctRecord) addTo(s *shard, hash uint64, now int64) {
	hash = distinctHash(hash)
	if !r.expired(now) && s.logs.find(hash, r.id()) == nil {
		s.values[r.keyLog] = r.values
		s.add(hash, r.keyLog, now)
	}
}

type idsRecord struct {
	log   timestamplog.LogID
	known []named
}

func (r idsRecord) id() timestamplog.LogID { return r.log }

func (r idsRecord) addTo(s *shard, _ uint64, now int64) {
	for _, n := range r.known {
		if _, known := s.ids.reservationOf(r.log, n.id, now); !known && now < n.reservation+timestamplog.IDLifetime {
			s.ids.add(r.log, n.id, n.reservation, int(n.cost), now)
		}
	}
}

// decoder reads records from a chunk. It keeps the first problem.
type decoder struct {
	rest    []byte
	problem string
}

func (d *decoder) record() record {
	kind := d.uvarint(distinctKind, "a kind of record")
	id := timestamplog.LogID{Policy: d.varint(), Generation: d.varint(), Key: d.text()}
	switch kind {
	case counterKind:
		return d.counter(id)
	case idsKind:
		return d.ids(id)
	case distinctKind:
		return d.distinct(id)
	}
	return d.keyLog(id)
}

func (d *decoder) keyLog(id timestamplog.LogID) record {
	newest, window := d.varint(), uint32(d.uvarint(maxWindow, "a window"))
	// Each entry except the newest takes at least one byte.
	count := d.number(1, "a number of entries")
	if d.problem == "" && count == 0 {
		d.problem = "a log without entries"
	}
	if d.problem != "" {
		return nil
	}
	k := newKeyLog(id, count)
	k.newest, k.window, k.count = newest, window, uint32(count)
	ring := ringOf(k)
	behind := uint64(0)
	for i := count - 2; i >= 0 && d.problem == ""; i-- {
		behind += d.uvarint(maxWindow, "an entry's age")
		if behind > maxWindow {
			d.problem = "entries further apart than any window"
		}
		ring[i] = uint32(-int64(behind))
	}
	k.reserved = uint32(d.uvarint(uint64(count), "a number of reservations"))
	return logRecord{k}
}

func (d *decoder) counter(id timestamplog.LogID) record {
	r := counterRecord{newCounter(id, 0, 0)}
	state := stateOf(r.keyLog)
	r.newest, r.window = d.varint(), 0
	state.Numbers = d.numbers()
	if d.uvarint(1, "a number of newest reservations") == 1 {
		state.Reservations = &algorithms.Reservations{Newest: d.varint(), ID: d.text(), Before: d.numbers(), NewestBefore: d.varint()}
	}
	return r
}

func (d *decoder) distinct(id timestamplog.LogID) record {
	k := newDistinct(id)
	k.window = uint32(d.uvarint(maxWindow, "a window"))
	n := d.number(0, "a number of values")
	if d.problem == "" && n == 0 {
		d.problem = "a distinct log without values"
	}
	if d.problem != "" {
		return nil
	}
	values := make([]valueTime, n)
	for i := range values {
		values[i] = valueTime{d.uint64(), d.varint()}
		if d.problem == "" && i > 0 && values[i].at < values[i-1].at {
			d.problem = "values that are not in the order of their times"
		}
	}
	k.newest = values[n-1].at
	return distinctRecord{k, values}
}

func (d *decoder) uint64() uint64 {
	if len(d.rest) < 8 {
		d.skip(0)
		return 0
	}
	v := binary.LittleEndian.Uint64(d.rest)
	d.skip(8)
	return v
}

func (d *decoder) ids(id timestamplog.LogID) record {
	r := idsRecord{log: id}
	for range d.number(0, "a number of IDs") {
		n := named{id: d.text(), charged: charged{reservation: d.varint(), cost: int32(d.uvarint(timestamplog.MaxCost, "a cost"))}}
		if d.problem != "" {
			return nil
		}
		r.known = append(r.known, n)
	}
	return r
}

func (d *decoder) numbers() []int64 {
	n := d.number(0, "a number of numbers")
	if n == 0 {
		return nil
	}
	numbers := make([]int64, n)
	for i := range numbers {
		numbers[i] = d.varint()
	}
	return numbers
}

// number reads how many elements follow. All but free of them take at least one byte, so a
// wrong number cannot cause a large allocation.
func (d *decoder) number(free int, what string) int {
	n := d.uvarint(uint64(len(d.rest)+free), what)
	if d.problem != "" {
		return 0
	}
	return int(n)
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.skip(n)
	return v
}

// uvarint reads a number of at most limit; what names it in a problem.
func (d *decoder) uvarint(limit uint64, what string) uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	if v > limit && d.problem == "" {
		d.problem = what + " that is too large"
	}
	return min(v, limit)
}

func (d *decoder) text() string {
	n := d.uvarint(maxKey, "a key or an ID")
	if n > uint64(len(d.rest)) {
		d.skip(0)
		return ""
	}
	text := string(d.rest[:n])
	d.rest = d.rest[n:]
	return text
}

// skip moves past a number of n bytes. If n is 0 or less, there was no valid number.
func (d *decoder) skip(n int) {
	if n <= 0 {
		d.rest = nil
		if d.problem == "" {
			d.problem = "a log that is cut off"
		}
		return
	}
	d.rest = d.rest[n:]
}
