package offences_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/storetest"
)

// TestEscalationMatchesModelForRandomHistories makes random offences, waits and ended blocks
// and compares the escalation with a plain model.
func TestEscalationMatchesModelForRandomHistories(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		for seed := range uint64(6) {
			escalateAtRandom(t, f, seed)
			f.Clock.Advance(24 * time.Hour)
		}
	})
}

func escalateAtRandom(t *testing.T, f *storetest.Fixture, seed uint64) {
	n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
	m := &escalationModel{Escalation: testEscalation, counts: map[time.Time]int{}}
	random := newRandom(seed)
	key := "k:random" + strconv.Itoa(int(seed))
	for step := range 60 {
		f.Clock.Advance([]time.Duration{time.Second, 30 * time.Second, time.Minute, 4 * time.Minute, 11 * time.Minute, 90 * time.Minute}[random.IntN(6)])
		now := f.Clock.Now()
		if now.Before(m.ends) {
			if random.IntN(4) == 0 {
				if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "", m.block); err != nil {
					t.Fatal(err)
				}
				m.ends = now
				f.Clock.Advance(time.Millisecond)
			} else {
				n.record(gate.Blocked, key, 3, &blocks.Entry{Kind: blocks.Block, ID: m.block})
				n.flush()
				m.decay(now)
				m.last = now
			}
			continue
		}
		times := 1 + random.IntN(7)
		n.limited(key, times)
		n.flush()
		length, escalates := m.offend(now, times)
		before := m.made
		all := ofKey(automaticBlocks(t, f.Store), key)
		if escalates {
			before++
		}
		if len(all) != before {
			t.Fatalf("seed %d, step %d: %d blocks, the model has %d", seed, step, len(all), before)
		}
		if escalates {
			if got := all[0].Expires.Sub(all[0].Created.Time()); got != length || all[0].Level != m.level {
				t.Fatalf("seed %d, step %d: a block of %s at level %d, the model has %s at level %d", seed, step, got, all[0].Level, length, m.level)
			}
			m.made, m.block, m.ends = before, all[0].ID, all[0].Expires
		}
	}
	if m.made == 0 {
		t.Errorf("seed %d never escalated", seed)
	}
}

func ofKey(all []*blocks.Entry, key string) (found []*blocks.Entry) {
	for _, b := range all {
		if b.Pattern.String() == key {
			found = append(found, b)
		}
	}
	return found
}

// escalationModel is an escalation as its documentation describes it.
type escalationModel struct {
	rules.Escalation
	counts      map[time.Time]int // by minute, since the last block
	level, made int
	block       string
	last, ends  time.Time
	decayed     time.Time
}

func (m *escalationModel) decay(now time.Time) {
	quiet := m.last
	for _, at := range []time.Time{m.ends, m.decayed} {
		if at.After(quiet) {
			quiet = at
		}
	}
	for m.level > 0 && !quiet.IsZero() && !now.Before(quiet.Add(m.DecayAfter)) {
		quiet = quiet.Add(m.DecayAfter)
		m.decayed = quiet
		m.level--
	}
}

func (m *escalationModel) offend(now time.Time, times int) (time.Duration, bool) {
	m.decay(now)
	m.last = now
	m.counts[now.Truncate(time.Minute)] += times
	sum := 0
	for minute, n := range m.counts {
		if !minute.Before(now.Truncate(time.Minute).Add(-m.Window)) {
			sum += n
		}
	}
	if sum < m.Threshold {
		return 0, false
	}
	length := m.Duration
	for range m.level {
		length = min(m.MaxDuration, time.Duration(float64(length)*m.Factor))
	}
	m.level++
	clear(m.counts)
	return length, true
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
