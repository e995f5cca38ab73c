package memlog

import (
	"context"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// settledHolds has the answers to the settlements of a shard within IDLifetime. The zero value is empty.
//
// Fast path. Plain version: a map of answers and a list of their IDs. Benchmark: BenchmarkSettle.
type settledHolds struct {
	numbers map[uint64]uint32 // that of the last answer to each holdID.sum
	answers []settledHold     // the oldest first, with numbers in a row
	first   uint32            // the number of the oldest
}

type settledHold struct {
	id     holdID
	answer timestamplog.Settled
}

// holdID is the hash of a log and the tag of a hold in it, itself a hash.
type holdID struct{ log, tag uint64 }

func (id holdID) sum() uint64 { return id.log ^ id.tag }

// settledBytes is about what one answer takes.
const settledBytes = 160

// add remembers an answer and drops those that are too old. It returns by how many bytes the memory grows.
func (h *settledHolds) add(id holdID, answer timestamplog.Settled) (bytes int) {
	if h.numbers == nil {
		h.numbers = map[uint64]uint32{}
	}
	if len(h.answers) == cap(h.answers) {
		h.answers = slices.Grow(h.answers, max(8, len(h.answers))) // to double it moves each answer about once
	}
	h.numbers[id.sum()] = h.first + uint32(len(h.answers)) //nolint:gosec // differences count
	h.answers = append(h.answers, settledHold{id, answer})
	for oldest := &h.answers[0]; oldest.answer.Now+timestamplog.IDLifetime <= answer.Now; oldest = &h.answers[0] {
		if h.numbers[oldest.id.sum()] == h.first {
			delete(h.numbers, oldest.id.sum())
		}
		h.answers, h.first, bytes = h.answers[1:], h.first+1, bytes-settledBytes
	}
	return bytes + settledBytes
}

// find returns the answer about a hold, nil if it is not known.
func (h *settledHolds) find(id holdID) *timestamplog.Settled {
	number, known := h.numbers[id.sum()]
	if !known {
		return nil
	}
	if kept := &h.answers[number-h.first]; kept.id == id {
		return &kept.answer
	}
	return nil
}

// Settle ends or renews a hold. It never fails.
func (l *Log) Settle(_ context.Context, m timestamplog.Settlement) (timestamplog.Settled, error) {
	hash := hashOf(l.seed, m.LogID)
	s := l.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.publish()
	return s.settle(hash, l.now().UnixMilli(), &m), nil
}

func (s *shard) settle(hash uint64, now int64, m *timestamplog.Settlement) timestamplog.Settled {
	id := holdID{hash, m.Value}
	k := s.logs.find(counterHash(hash), m.LogID)
	if k == nil || k.expired(now) {
		return s.settledBefore(id, now)
	}
	c := counting{stack: s.stacks.Of(&m.Request, newStack), log: k, state: algorithms.State{Numbers: append(s.scratch[:0], stateOf(k).Numbers...)}}
	r := c.stack.Settle(&c.state, algorithms.Settlement{Tag: algorithms.Tag(m.Value), Now: now, Cost: m.Used, Extend: m.Extend})
	if r.Changed {
		s.keep(&c, hash, now, &m.Request)
	}
	s.scratch = c.state.Numbers
	if r.State == algorithms.HoldUnknown {
		return s.settledBefore(id, now)
	}
	answer := timestamplog.Settled{Now: now, State: r.State, Held: r.Held, Used: r.Cost, Over: r.Over, Expires: r.Expires, Was: r.Was}
	if m.Extend == 0 {
		s.bytes += s.settled.add(id, answer)
	}
	return answer
}

// settledBefore returns the earlier answer about a hold that the log does not have.
func (s *shard) settledBefore(id holdID, now int64) timestamplog.Settled {
	kept := s.settled.find(id)
	if kept == nil || kept.Now+timestamplog.IDLifetime <= now {
		return timestamplog.Settled{Now: now}
	}
	answer := *kept
	answer.Now, answer.Repeated = now, true
	return answer
}

// sources has the names of those who hold, by their numbers, so that a hold takes no more for a long name. The
// zero value is empty.
type sources map[int64]string

// maxSources bounds the names that a shard knows. It forgets them when there are more; those that ask again are
// soon known again.
const maxSources = 256

// number returns the number of a source, 0 for none. It is the same after a restart: a snapshot has only numbers.
func (s *sources) number(name string) int64 {
	if name == "" {
		return 0
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name))
	number := int64(hash.Sum64() >> 12) //nolint:gosec // 52 bits
	if _, known := (*s)[number]; !known {
		if *s == nil || len(*s) >= maxSources {
			*s = sources{}
		}
		(*s)[number] = strings.Clone(name)
	}
	return number
}

// Holds returns the open holds in the log of id. It never fails.
func (l *Log) Holds(_ context.Context, id timestamplog.LogID) (open []timestamplog.Hold, now int64, err error) {
	numbers, now := l.numbersOf(id)
	s := l.shard(hashOf(l.seed, id))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range algorithms.Holds(numbers, now) {
		open = append(open, timestamplog.Hold{Taken: h.Taken, Expires: h.Expires, Amount: h.Amount, Source: s.sources[h.Source]})
	}
	return open, now, nil
}
