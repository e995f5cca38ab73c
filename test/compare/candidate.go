package main

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

// candidate is an algorithm with options that are worth a row.
type candidate struct {
	*algorithms.Algorithm
	options algorithms.Options
	tenth   bool   // the burst is a tenth of the limit
	name    string // as the tables call it
}

// optionsUnder returns the options for rules of that limit.
func (c candidate) optionsUnder(limit int) algorithms.Options {
	options := c.options
	if c.tenth {
		options.Burst = limit / 10
	}
	return options
}

// candidates returns the rows: each algorithm as it comes, and with the options
// that change what it does.
func candidates() []candidate {
	var all []candidate
	for _, a := range algorithms.All() {
		all = append(all, candidate{Algorithm: a, name: "`" + a.Name + "`"})
		switch a.Name {
		case algorithms.FixedWindow:
			all = append(all, candidate{Algorithm: a, options: algorithms.Options{WindowStart: algorithms.WindowFirst}, name: fmt.Sprintf("`%s`, %s `%s`", a.Name, algorithms.OptionWindowStart, algorithms.WindowFirst)})
		case algorithms.GCRA:
			all = append(all, candidate{Algorithm: a, tenth: true, name: fmt.Sprintf("`%s`, %s a tenth of N", a.Name, algorithms.OptionBurst)})
		case algorithms.LeakyBucket:
			all = append(all, candidate{Algorithm: a, options: algorithms.Options{Variant: algorithms.VariantQueue}, name: fmt.Sprintf("`%s`, %s `%s`, nobody waiting", a.Name, algorithms.OptionVariant, algorithms.VariantQueue)})
		}
	}
	return all
}

// limiter decides about one key, at instants that never go back.
type limiter interface {
	// allow counts a request of cost 1, where it is allowed.
	allow(now int64) bool
}

// limiter returns one that counts as c does under rule.
func (c candidate) limiter(rule rules.Rule) limiter {
	if !c.IsLog() {
		return &counted{stack: algorithms.NewStack(c.Algorithm, rules.Stack{rule}.Counted(c.optionsUnder(rule.Limit)))}
	}
	l := &logged{results: make([]timestamplog.Result, 1)}
	l.log = memlog.New(memlog.Options{Now: func() time.Time { return time.UnixMilli(l.now) }})
	policy := rules.Policy{ID: 1, Version: 1, Rules: rules.Stack{rule}, Algorithm: c.Name, Options: c.optionsUnder(rule.Limit)}
	l.requests = []timestamplog.Request{timestamplog.RequestOf(&policy, "ip:192.0.2.1", 1)}
	return l
}

type counted struct {
	stack *algorithms.Stack
	state algorithms.State
}

func (l *counted) allow(now int64) bool {
	return l.stack.Decide(&l.state, algorithms.Query{Now: now, Cost: 1}, nil).Allowed
}

type logged struct {
	log      *memlog.Log
	requests []timestamplog.Request
	results  []timestamplog.Result
	now      int64
}

func (l *logged) allow(now int64) bool {
	l.now = now
	l.log.Decide(background, l.requests, l.results)
	return l.results[0].Allowed
}
