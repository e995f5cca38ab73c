package bench_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

var noProfiles = profiles.NewSet()

// view is what a gate decides by.
type view struct {
	selector *rules.Selector
	set      *blocks.Set
}

func (v *view) Loaded() bool               { return true }
func (v *view) Selector() *rules.Selector  { return v.selector }
func (v *view) Blocks() *blocks.Set        { return v.set }
func (v *view) Profiles() *profiles.Set    { return noProfiles }
func (v *view) Settings() catalog.Settings { return catalog.Settings{Secret: make([]byte, 32)} }

// byNumber measures how a check's cost grows with what a node holds.
func byNumber(b *testing.B, r *report) {
	r.begin("A check by what the node holds", "The gate over the log in memory, one goroutine, keys in random order, a log of one entry or more for each.")
	var fewest float64
	for _, n := range []int{1_000, 100_000, 1_000_000, 10_000_000} {
		cost := checkCost(b, n, 1, 0)
		if fewest == 0 {
			fewest = cost
		}
		what := fmt.Sprintf("%d keys", n)
		if n < 10_000_000 {
			r.add(what, fmt.Sprintf("%.0f ns", cost))
			continue
		}
		r.atMost(what+", times the cost with 1,000", cost/fewest, 3, "%.1f", fmt.Sprintf("(%.0f ns)", cost))
	}
	one := checkCost(b, 10_000, 1, 0)
	r.add("10,000 keys, 1 policy, no block", fmt.Sprintf("%.0f ns", one))
	policies := checkCost(b, 10_000, 1000, 0)
	r.atMost("1,000 policies, times the cost with 1", policies/one, 1.2, "%.2f", "")
	blocked := checkCost(b, 10_000, 1, 1_000_000)
	r.atMost("1,000,000 blocks, times the cost with none", blocked/one, 1.2, "%.2f", "")
}

// checkCost returns the nanoseconds of a check among so many keys, policies and
// blocks: the least of three rounds.
func checkCost(b *testing.B, number, policies, blocked int) (least float64) {
	b.Helper()
	stack, err := rules.ParseStack([]string{"10000/s", "100000/m", "100000/h", "100000/d"})
	if err != nil {
		b.Fatal(err)
	}
	v := &view{set: blocks.NewSet()}
	all := []*rules.Policy{{ID: 1, Name: "default", Match: []keys.Pattern{pattern(b, "*")}, Rules: stack, Mode: rules.Enforce}}
	for i := 1; i < policies; i++ {
		all = append(all, &rules.Policy{ID: int64(i + 1), Name: fmt.Sprint("p", i), Match: []keys.Pattern{pattern(b, fmt.Sprintf("token:%d_*", i))}, Rules: stack, Mode: rules.Enforce})
	}
	v.selector = rules.NewSelector(all)
	now := time.Now()
	for i := range blocked {
		v.set.Apply(&blocks.Entry{Kind: blocks.Block, ID: fmt.Sprint(i), Revision: int64(i), Pattern: pattern(b, fmt.Sprintf("ip:100.%d.%d.%d", i>>16, i>>8&255, i&255))}, now)
	}
	log := memlog.New(memlog.Options{})
	defer log.Close()
	g := gate.New(gate.Options{View: v, Log: log})
	// Their logs are far from each other but the checks are not: a caller has just read the
	// key that it asks about.
	asked := make([]keys.Key, number)
	for at, i := range rand.Perm(number) {
		k, err := keys.Parser{}.Key(fmt.Sprintf("ip:10.%d.%d.%d", i>>16, i>>8&255, i&255))
		if err != nil {
			b.Fatal(err)
		}
		asked[at] = k
	}
	checks, decisions, errs := make([]gate.Check, 1), make([]gate.Decision, 1), make([]error, 1)
	ask := func(i int) {
		checks[0] = gate.Check{Key: asked[i], Cost: 1}
		g.Decide(b.Context(), checks, decisions, errs)
		if errs[0] != nil {
			b.Fatal(errs[0])
		}
	}
	for _, i := range rand.Perm(number) { // so that logs do not lie in the order in which they are asked about
		ask(i)
	}
	for range 3 {
		const rounds = 1_000_000
		began := time.Now()
		for i := range rounds {
			ask(i % number)
		}
		if cost := float64(time.Since(began).Nanoseconds()) / rounds; least == 0 || cost < least {
			least = cost
		}
	}
	return least
}

func pattern(b *testing.B, text string) keys.Pattern {
	b.Helper()
	p, err := keys.Parser{}.Pattern(text)
	if err != nil {
		b.Fatal(err)
	}
	return p
}
