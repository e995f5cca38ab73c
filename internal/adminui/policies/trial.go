package policies

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/rules"
)

// Bounds of one trial, which runs on the node that also answers checks.
const (
	maxUpload  = 64 << 20
	maxRecords = 3_000_000
	tryTime    = 25 * time.Second
	sortMemory = 32 << 20
	mostKeys   = 10 // newly refused or allowed keys that are shown
)

// trial is what trying a draft found.
type trial struct {
	Problem string // why there is no report, "" where there is one
	Source  string // "access.log", "the last hour"
	Counted string // ", counted by gcra instead of timestamp log,", "" where both count alike
	Report  *backtest.Report
	Rules   []triedRule
	// Refused and Allowed are the keys that the draft treats differently, the
	// most changed first.
	Refused, Allowed []backtest.Change
}

// triedRule is one rule's refusals by the version that decides and by the
// draft.
type triedRule struct {
	Rule     string
	Was, Now int64
	In, Out  bool // it is only in the draft, or only in the version
	WasWidth int  // of its bar, of 100
	NowWidth int
}

// Change returns what the draft adds to a rule's refusals.
func (t triedRule) Change() string {
	if d := t.Now - t.Was; d > 0 {
		return "+" + format.Number(d)
	}
	return format.Number(t.Now - t.Was)
}

// spans are the lengths of recorded traffic that a draft can be tried on.
var spans = map[string]struct {
	length time.Duration
	words  string
}{"1h": {time.Hour, "the last hour"}, "24h": {24 * time.Hour, "the last 24 hours"}, "7d": {7 * 24 * time.Hour, "the last 7 days"}}

// tryDraft replays an access log or recorded traffic on the draft and on what
// decides now. Nobody is refused by it and nothing is saved.
func (h *Handler) tryDraft(c *httpserver.Call) error {
	p, d, err := h.draftFrom(c)
	if err != nil {
		return err
	}
	wanted := d.policy(h.Catalog.Parser(), p)
	if wanted == nil {
		c.Ctx.Context().SetConnectionClose() // the file is not read
		return h.renderPolicy(c, site.StatusInvalidForm, p, d, &trial{Problem: "Nothing was tried: the draft has a invalid."})
	}
	t, err := h.try(c, p, wanted)
	if err != nil {
		t = &trial{Problem: tryProblem(err)}
		if t.Problem == "" {
			return err
		}
	}
	status := http.StatusOK
	if t.Problem != "" {
		status = site.StatusInvalidForm
	}
	return h.renderPolicy(c, status, p, d, t)
}

func tryProblem(err error) string {
	var invalid *fault.Error
	switch {
	case errors.As(err, &invalid):
		return invalid.Message
	case errors.Is(err, context.DeadlineExceeded):
		return "Too large for this page: it took longer than " + format.Duration(tryTime) + ". The command line takes logs of any size: admin backtest."
	}
	return ""
}

func (h *Handler) try(c *httpserver.Call, before, wanted *rules.Policy) (*trial, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tryTime)
	defer cancel()
	t := &trial{}
	source, options, err := h.trySource(ctx, c, t)
	if err != nil {
		c.Ctx.Context().SetConnectionClose() // the rest of a file is not read
		return nil, err
	}
	if closer, ok := source.(io.Closer); ok {
		defer closer.Close()
	}
	plan, against := h.plans(wanted)
	options.Plan, options.Against = plan, &against
	if t.Report, err = backtest.Run(ctx, source, options); err != nil {
		return nil, err
	}
	t.Counted = countedOtherwise(before, wanted)
	t.fill(wanted.Name)
	return t, nil
}

// countedOtherwise says how a draft counts where the version that decides counts
// otherwise, or where there is none and it is not the default.
func countedOtherwise(before, wanted *rules.Policy) string {
	how := wanted.DescribeCounting()
	switch {
	case before == nil && wanted.Algorithm != algorithms.TimestampLog:
		return ", counted by " + how + ","
	case before != nil && before.DescribeCounting() != how:
		return ", counted by " + how + " instead of " + before.DescribeCounting() + ","
	}
	return ""
}

// trySource returns what is to be replayed: a span of recorded traffic, or the
// uploaded log.
func (h *Handler) trySource(ctx context.Context, c *httpserver.Call, t *trial) (backtest.Source, backtest.Options, error) {
	values, err := form.Read(c)
	if err != nil {
		return nil, backtest.Options{}, err
	}
	if span, named := spans[strings.TrimPrefix(values.Get("do"), "try-")]; named {
		if h.Traffic == nil {
			return nil, backtest.Options{}, fault.New(fault.NotFound, "No traffic is recorded here; choose an access log.")
		}
		t.Source = span.words
		source, estimate, err := h.Traffic(ctx, h.Now().Add(-span.length), h.Now())
		return source, backtest.Options{Estimate: estimate}, err
	}
	up := form.UploadOf(c)
	if up == nil {
		return nil, backtest.Options{}, fault.New(fault.Invalid, "Nothing was tried: choose an access log first.")
	}
	t.Source = up.Name
	parser := h.Catalog.Parser()
	reader, err := accesslog.NewReader(&bounded{from: up, left: maxUpload}, t.Source, accesslog.Options{Keys: parser})
	if err != nil {
		return nil, backtest.Options{}, fault.New(fault.Invalid, "Nothing was tried: %s.", format.ClipLine(strings.TrimSuffix(err.Error(), "."), 500))
	}
	sorted, err := accesslog.Sort(ctx, &counted{from: reader}, accesslog.SortOptions{Memory: sortMemory, Keys: parser})
	if err != nil {
		return nil, backtest.Options{}, err
	}
	if sorted.Len() == 0 {
		return nil, backtest.Options{}, fault.New(fault.Invalid, "Nothing was tried: none of the %d lines holds a request that can be read.", reader.Counts().Lines)
	}
	return sorted, backtest.Options{}, nil
}

// plans returns all policies with the draft among them, and as they decide now.
// The draft is tried as if it were enforced.
func (h *Handler) plans(wanted *rules.Policy) (plan, against backtest.Plan) {
	now := h.Catalog.Selector().Policies()
	slices.SortFunc(now, func(a, b *rules.Policy) int { return strings.Compare(a.Name, b.Name) })
	tried := *wanted
	if tried.Mode == rules.Shadow {
		tried.Mode = rules.Enforce
	}
	with := []*rules.Policy{&tried} // first: it wins a pattern that another has
	for _, p := range now {
		if p.Name != wanted.Name {
			with = append(with, p)
		}
	}
	return backtest.PoliciesPlan(with), backtest.PoliciesPlan(now)
}

func (t *trial) fill(name string) {
	report := t.Report
	t.Refused, t.Allowed = report.Comparison.NewlyRefusedKeys, report.Comparison.NewlyAllowedKeys
	t.Refused, t.Allowed = t.Refused[:min(mostKeys, len(t.Refused))], t.Allowed[:min(mostKeys, len(t.Allowed))]
	at := map[string]int{}
	place := func(text string) *triedRule {
		if i, known := at[text]; known {
			return &t.Rules[i]
		}
		at[text] = len(t.Rules)
		t.Rules = append(t.Rules, triedRule{Rule: format.RuleText(text), In: true, Out: true})
		return &t.Rules[len(t.Rules)-1]
	}
	for _, r := range report.Rules {
		if r.Policy == name {
			row := place(r.Rule)
			row.Now, row.Out = r.Failed, false
		}
	}
	for _, r := range report.Comparison.Rules {
		if r.Policy == name {
			row := place(r.Rule)
			row.Was, row.In = r.Failed, false
		}
	}
	most := int64(1)
	for _, r := range t.Rules {
		most = max(most, r.Was, r.Now)
	}
	for i := range t.Rules {
		r := &t.Rules[i]
		r.WasWidth, r.NowWidth = int(100*r.Was/most), int(100*r.Now/most)
	}
}

// bounded ends an upload that is too long with an error.
type bounded struct {
	from io.Reader
	left int
}

// Read reads as long as something is left.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fault.New(fault.TooLarge, "Nothing was tried: the log has more than %d MB. The command line takes logs of any size: admin backtest.", maxUpload>>20)
	}
	n, err := b.from.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// counted ends a log of too many requests with an error: a small file may
// unpack to very many.
type counted struct {
	from backtest.Source
	read int
}

// Next returns the next request.
func (c *counted) Next() (accesslog.Record, error) {
	if c.read++; c.read > maxRecords {
		return accesslog.Record{}, fault.New(fault.TooLarge, "Nothing was tried: the log has more than %s requests. The command line takes logs of any size: admin backtest.", format.Number(maxRecords))
	}
	return c.from.Next()
}
