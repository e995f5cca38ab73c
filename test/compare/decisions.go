package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stint-dev/stint/internal/rules"
)

var background = context.Background()

// morning is a midnight in UTC, at which every window up to a day begins.
const morning = 1_767_225_600_000 // 1 January 2026

// The rule against which bursts are searched: sub-windows of 5 ms, and as many
// requests as make a difference of one a hundredth.
const (
	limit  = 100
	window = 300
)

// decisions returns the table of what each algorithm decides amiss.
func decisions() table {
	t := table{name: "decisions", rows: [][]string{{
		"algorithm", "most in any window", "most in 1/60 of a window", "refused", "refused needlessly", "let in too many",
	}}}
	stream := makeStream()
	for _, c := range candidates() {
		whole, short := c.worstBursts()
		s := c.tried(stream)
		t.rows = append(t.rows, []string{
			c.name, times(whole), times(short), percent(s.refused, s.asked), percent(s.needless, s.asked), percent(s.tooMany, s.asked),
		})
	}
	return t
}

func times(n int) string { return fmt.Sprintf("%.2f N", float64(n)/limit) }

func percent(part, of int) string { return fmt.Sprintf("%.2f%%", 100*float64(part)/float64(of)) }

// sub is a sixtieth of the window.
const sub = window / 60

// worstBursts searches for the most that c lets into any window, and into any
// sixtieth of one, by an adversary who takes one request or all that he can get at
// one instant, keeps still, and then takes all he can get at every millisecond for
// a window. He begins at the beginning, the middle and the end of every twentieth
// sub-window and of the last, and tries pauses of each number of sub-windows and a
// millisecond.
func (c candidate) worstBursts() (whole, short int) {
	for first := int64(0); first < window; first++ {
		place, number := first%sub, first/sub
		if place != 0 && place != sub/2 && place != sub-1 || number%20 != 0 && number != 59 {
			continue
		}
		for pause := int64(1); pause <= window; pause += sub {
			for _, opening := range []int{1, 2 * limit} {
				let := c.greedy(opening, first, first+pause)
				whole, short = max(whole, maxIn(window, let)), max(short, maxIn(sub, let))
			}
		}
	}
	return whole, short
}

// greedy takes as much as opening at first, and all it can get at every
// millisecond of a window from again on. It returns how much that was by the
// milliseconds since first.
func (c candidate) greedy(opening int, first, again int64) []int {
	l := c.limiter(rules.Rule{Limit: limit, Window: window * time.Millisecond})
	let := make([]int, again-first+window)
	for let[0] < opening && l.allow(morning+first) {
		let[0]++
	}
	for at := again; at < again+window; at++ {
		for l.allow(morning + at) {
			let[at-first]++
		}
	}
	return let
}

// maxIn returns the maximum sum of stretch consecutive numbers.
func maxIn(stretch int, let []int) (most int) {
	within := 0
	for i, n := range let {
		within += n
		if i >= stretch {
			within -= let[i-stretch]
		}
		most = max(most, within)
	}
	return most
}

// The rule under which the stream is tried.
var streamRule = rules.Rule{Limit: 60, Window: time.Minute}

// makeStream returns the instants at which each of 120 clients asks for an hour,
// always the same: a third are people, who load some dozen things at once and
// then read; a third are programs that ask every second or so, a little less
// often than they may; a third are scrapers, who ask for twice what they may for
// some minutes, and rest.
func makeStream() [][]int64 {
	random := rand.New(rand.NewPCG(1, 2))
	stream := make([][]int64, 120)
	for client := range stream {
		at := random.Int64N(60_000)
		for at < 3_600_000 {
			stream[client] = append(stream[client], morning+at)
			switch client % 3 {
			case 0:
				at += random.Int64N(150)
				if random.IntN(16) == 0 {
					at += 1_000 + random.Int64N(30_000)
				}
			case 1:
				at += 950 + int64(client) + random.Int64N(200)
			default:
				at += 200 + random.Int64N(600)
				if random.IntN(400) == 0 {
					at += random.Int64N(300_000)
				}
			}
		}
	}
	return stream
}

// score is what an algorithm did with a stream.
type score struct{ asked, refused, needless, tooMany int }

// tried returns what c does with stream. A refusal is needless where fewer than N
// of what c itself let in lie within the last window, and a request that was let
// in is too many where N do.
func (c candidate) tried(stream [][]int64) (s score) {
	window := streamRule.WindowMS()
	for _, asked := range stream {
		l := c.limiter(streamRule)
		var let []int64 // within the last window
		for _, at := range asked {
			for len(let) > 0 && at-let[0] >= window {
				let = let[1:]
			}
			allowed, room := l.allow(at), len(let) < streamRule.Limit
			s.asked++
			switch {
			case !allowed:
				s.refused++
				if room {
					s.needless++
				}
			case !room:
				s.tooMany++
			}
			if allowed {
				let = append(let, at)
			}
		}
	}
	return s
}
