package backtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/proxies"
)

// Source yields recorded requests in the order of their times, io.EOF after
// the last: an access log that accesslog.Sort has sorted, or a trace.
type Source = accesslog.Source

// Options say what is tried. The zero value allows everything.
type Options struct {
	Plan Plan
	// Against is a second plan that the first is compared with, nil for none:
	// what Plan refuses and Against allows is newly refused.
	Against *Plan
	// Outcomes derives the outcomes of the requests, for policies with an outcome; nil means
	// answers.DefaultOutcomes.
	Outcomes answers.Outcomes
	// Scopes says which scopes the callers would have said, for policies with a scope; nil
	// for none, so that such policies refuse nothing.
	Scopes accesslog.Scopes
	// Truth, if not nil, says who is an attacker, so that the plans are scored.
	Truth *Truth
	// Estimate marks a source that holds only some of the requests.
	Estimate bool
	// Crawlers are the patterns of verified crawlers, to which policies with the outcome
	// conditions.NotFound do not apply.
	Crawlers []keys.Pattern
	// Plans, if not nil, returns the plan of a key, "" for none.
	Plans func(keys.Key) string
	// Values returns the values that the caller says of a record; nil for its account.
	Values func(accesslog.Record) map[string]string
	// Decided, if not nil, is called with each record and whether Plan refused it.
	Decided func(record accesslog.Record, isRefused bool)
	// Progress, if not nil, is called from time to time with the number of records done.
	Progress func(records int64)
}

// ErrUnsorted is matched by the error of Run when the records' times go back.
var ErrUnsorted = errors.New("the records are not in the order of time")

// reportEvery is the number of records between two calls of Progress and two checks of
// the context.
const reportEvery = 1 << 13

// Run replays source and returns the report, which is the same for the same
// records and options. Its memory grows with the number of distinct keys. It
// ends early with the context's error, with ErrUnsorted, or with the source's
// own error.
func Run(ctx context.Context, source Source, o Options) (*Report, error) {
	r := newRun(o)
	for {
		record, err := source.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = r.take(ctx, record)
		}
		if err != nil {
			return nil, err
		}
		if r.records%reportEvery == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			r.progress()
		}
	}
	r.progress()
	return r.report(), nil
}

// run is a backtest on its way.
type run struct {
	options     Options
	plan        *trial
	against     *trial // nil without a comparison
	keys        map[string]*history
	records     int64
	first, last int64
	timeline    timeline
	learns      bool // from the answers, for policies that count probes
	// score and scoreAgainst are nil without a truth.
	score, scoreAgainst *Scorer
}

// history is what happened to one key.
type history struct {
	key           string
	behind        string       // the proxy or network that the address belongs to, "" for that of a client
	triedPolicy   *triedPolicy // by which Plan limits the key, when policyKnown
	againstPolicy *triedPolicy
	policyKnown   bool
	requests      int64
	refused       int64
	firstRefusal  int64
	lastRefusal   int64
	firstRule     *RuleCount
	observed      *observed // nil until it is refused
	*difference             // nil without a comparison
}

// difference is how two plans differ about one key.
type difference struct {
	refusedAgainst                    int64
	newlyRefused, newlyAllowed        int64
	firstNewlyRefused, firstNewlyFree int64
}

func newRun(o Options) *run {
	if o.Outcomes == nil {
		site, err := answers.NewSite(nil)
		if err != nil {
			panic(err) // it has no pattern that could be wrong
		}
		o.Outcomes = answers.DefaultOutcomes(site)
	}
	r := &run{options: o, plan: newTrial(o.Plan, &o), keys: map[string]*history{}}
	r.learns = r.plan.learns()
	if o.Against != nil {
		r.against = newTrial(*o.Against, &o)
		r.learns = r.learns || r.against.learns()
	}
	if o.Truth != nil {
		r.score, r.scoreAgainst = NewScorer(o.Truth), NewScorer(o.Truth)
	}
	return r
}

func (r *run) progress() {
	if r.options.Progress != nil {
		r.options.Progress(r.records)
	}
}

func (r *run) take(ctx context.Context, record accesslog.Record) error {
	switch {
	case r.records == 0:
		r.first = record.Time
	case record.Time < r.last:
		return fmt.Errorf("record %d is of %s, before %s: %w", r.records+1, stamp(record.Time), stamp(r.last), ErrUnsorted)
	}
	r.last = record.Time
	r.records++
	h := r.historyOf(record.Key)
	h.requests++
	if r.learns {
		record.Learn(r.options.Outcomes)
	}
	by, err := r.plan.decide(ctx, h.triedPolicy, h.key, record)
	if err != nil {
		return err
	}
	if by != nil {
		by.Decided++
		h.refuse(record.Time, by)
	}
	if h.observed != nil {
		h.observed.add(&record)
	}
	if r.options.Decided != nil {
		r.options.Decided(record, by != nil)
	}
	if r.score != nil {
		r.score.countTried(r.plan, h.key, record.Time, by != nil)
	}
	if r.against == nil {
		r.timeline.count(record.Time, by != nil, false)
		return nil
	}
	other, err := r.against.decide(ctx, h.againstPolicy, h.key, record)
	if err != nil {
		return err
	}
	h.compare(record.Time, by != nil, other != nil)
	r.timeline.count(record.Time, by != nil, other != nil)
	if r.scoreAgainst != nil {
		r.scoreAgainst.countTried(r.against, h.key, record.Time, other != nil)
	}
	return nil
}

// countTried counts the record that a plan has just decided.
func (s *Scorer) countTried(t *trial, key string, at int64, isRefused bool) {
	when := timeOf(at)
	s.countOffending(t.networks, when)
	s.Count(key, when, isRefused)
	if t.isReportFull {
		s.countReport(key, when)
	}
}

// historyOf returns the history of k with the policies that limit it now. Only an
// IPv6 client is looked up each time: one key counts a whole network, but
// policies match the address.
func (r *run) historyOf(k keys.Key) *history {
	h, known := r.keys[k.String()]
	if !known {
		h = &history{key: k.String(), behind: sharedBy(k)}
		if r.against != nil {
			h.difference = new(difference)
		}
		r.keys[h.key] = h
	}
	if !h.policyKnown {
		network, isAddress := k.Network()
		h.policyKnown = !isAddress || network.Addr().Is4()
		h.triedPolicy = r.plan.triedPolicyOf(k)
		if r.against != nil {
			h.againstPolicy = r.against.triedPolicyOf(k)
		}
	}
	return h
}

// privateAddresses is what sharedBy returns for the addresses of internal networks.
const privateAddresses = "private addresses"

// sharedBy returns whose address a key is, "" for a client's own.
func sharedBy(k keys.Key) string {
	network, isAddress := k.Network()
	switch {
	case !isAddress:
		return ""
	case proxies.CDN(network.Addr()) != "":
		return "edges of " + proxies.CDN(network.Addr())
	case keys.IsInternal(network.Addr()):
		return privateAddresses
	}
	return ""
}

// sharedWarnings names the requests for which the log has the address of a proxy instead of the client's.
func (r *run) sharedWarnings() (warnings []string) {
	by := map[string]int64{}
	for _, h := range r.keys {
		if h.behind != "" {
			by[h.behind] += h.requests
		}
	}
	for _, who := range slices.Sorted(maps.Keys(by)) {
		if who == privateAddresses && 2*by[who] <= r.records || 100*by[who] < r.records {
			continue
		}
		spared := "the network's edges"
		if who == privateAddresses {
			spared = "those that show several browsers"
		}
		warnings = append(warnings, fmt.Sprintf("%s of %s requests come from %s, which stand for many people: name your proxies with --trusted-proxies where the log has X-Forwarded-For, or log the visitor's address and name its field with --key-column; until then %s get no points of evidence and no automatic blocks.",
			humanize.Comma(by[who]), humanize.Comma(r.records), who, spared))
	}
	return warnings
}

func (h *history) refuse(at int64, by *RuleCount) {
	if h.refused == 0 {
		h.firstRefusal, h.firstRule, h.observed = at, by, &observed{}
	}
	h.refused++
	h.lastRefusal = at
}

func (d *difference) compare(at int64, refused, refusedAgainst bool) {
	if refusedAgainst {
		d.refusedAgainst++
	}
	switch {
	case refused && !refusedAgainst:
		if d.newlyRefused == 0 {
			d.firstNewlyRefused = at
		}
		d.newlyRefused++
	case !refused && refusedAgainst:
		if d.newlyAllowed == 0 {
			d.firstNewlyFree = at
		}
		d.newlyAllowed++
	}
}

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
