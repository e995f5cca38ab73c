package policies

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// trial shows the result of trying a draft.
type trial struct {
	Problem string // why the trial failed, "" if it did not
	Source  string // "access.log", "the last hour"
	Counted string // ", counted by gcra instead of timestamp log,", "" if both count alike
	*wire.PolicyTrial
	Selected *admin.Requested // by the page Traffic, all of which the draft refuses
	Wider    []string         // the dimensions of Selected of which its conditions select other values too
}

// RefusingPath returns the address of a new policy that refuses what the filters of the page Traffic
// select, which is shown as its trial.
func RefusingPath(texts conditions.Texts, filters breakdown.Filters, in format.TimeRange) string {
	path := NewPath(texts)
	if path == "" {
		return ""
	}
	is, not := filters.Texts()
	return path + "&" + strings.TrimPrefix(site.WithRange("", in, "refuse", "yes", "is", is, "not", not), "?")
}

// refuseSelected lets a new draft refuse what the page Traffic selects, and returns what that was.
func (h *Handler) refuseSelected(c *httpserver.Call, d *draft) (*trial, error) {
	in, err := site.RangeOf(c, h.Now())
	if err != nil {
		return nil, err
	}
	found, err := h.Detection.Requested(c.Context(), admin.RequestedQuery{From: in.From, To: in.To, Is: c.Query("is"), Not: c.Query("not")})
	if err != nil {
		return nil, err
	}
	d.Mode, d.Rows, d.Name = string(rules.Enforce), []ruleRow{{Limit: "0", Window: "1s"}}, "refuse"
	for _, f := range found.Filters {
		if word := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(f.Value), "-"), "-"); !f.Not && len(d.Name)+len(word) < maxSuggestedName {
			d.Name += "-" + word
		}
	}
	d.Ask = d.Name // as saving it does
	_, _, wider := found.Filters.Conditions()
	return &trial{Source: in.Name().String(), Selected: found, Wider: wider.Labels()}, nil
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// maxSuggestedName bounds the name that a draft begins with.
const maxSuggestedName = 40

// triedRule is one rule's refusals by the active version and by the draft.
type triedRule struct {
	Rule     string
	Was, Now int64
	In, Out  bool // only in the draft, or only in the active version
	WasWidth int  // width of its bar, of 100
	NowWidth int
}

// Change describes by how much the draft changes a rule's refusals.
func (t triedRule) Change() string {
	if d := t.Now - t.Was; d > 0 {
		return "+" + phrase.Number(d)
	}
	return phrase.Number(t.Now - t.Was)
}

// Bars returns the rules with their bars.
func (t *trial) Bars() []triedRule {
	all := make([]triedRule, len(t.Rules))
	largest := int64(1)
	for i, r := range t.Rules {
		row := triedRule{Rule: format.RuleText(r.Rule), In: r.Active == nil, Out: r.Draft == nil}
		if r.Active != nil {
			row.Was = *r.Active
		}
		if r.Draft != nil {
			row.Now = *r.Draft
		}
		largest = max(largest, row.Was, row.Now)
		all[i] = row
	}
	for i := range all {
		r := &all[i]
		r.WasWidth, r.NowWidth = int(100*r.Was/largest), int(100*r.Now/largest)
	}
	return all
}

// Preview returns what a trap would have caught, nil for other drafts and for access logs.
func (t *trial) Preview() *trapPreview {
	if t.Trap == nil {
		return nil
	}
	return &trapPreview{*t.Trap}
}

// spans are the time ranges of recorded traffic that the page offers.
var spans = map[string]struct {
	length time.Duration
	words  string
}{"1h": {time.Hour, "the last hour"}, "24h": {24 * time.Hour, "the last 24 hours"}, "7d": {7 * 24 * time.Hour, "the last 7 days"}}

// tryDraft replays recorded traffic, or an access log, through the draft and through the active
// policies.
func (h *Handler) tryDraft(c *httpserver.Call) error {
	p, d, err := h.draftFrom(c)
	if err != nil {
		return err
	}
	wanted := d.policy(h.Catalog.Parser(), p)
	if wanted == nil {
		c.Ctx.Context().SetConnectionClose() // the file will not be read
		return h.renderPolicy(c, site.StatusInvalidForm, p, d, &trial{Problem: "Nothing was tried: the draft is invalid."})
	}
	t, err := h.try(c, p, wanted)
	status := http.StatusOK
	if err != nil {
		c.Ctx.Context().SetConnectionClose() // the rest of the file will not be read
		var invalid *fault.Error
		if !errors.As(err, &invalid) {
			return err
		}
		t, status = &trial{Problem: invalid.Message}, site.StatusInvalidForm
	}
	return h.renderPolicy(c, status, p, d, t)
}

func (h *Handler) try(c *httpserver.Call, before, wanted *rules.Policy) (t *trial, err error) {
	t = &trial{Counted: countedOtherwise(before, wanted)}
	if span, named := spans[strings.TrimPrefix(form.Values(c).Get("do"), "try-")]; named {
		t.Source = span.words
		t.PolicyTrial, err = h.Policies.Try(c.Context(), wanted, span.length)
		return t, err
	}
	up := form.UploadOf(c)
	if up == nil {
		return nil, fault.New(fault.Invalid, "Nothing was tried: choose an access log first.")
	}
	t.Source = up.Name
	t.PolicyTrial, err = h.Policies.Backtest(c.Context(), wanted, up.Name, up)
	return t, err
}

// countedOtherwise describes how a draft counted, if the version that it was compared with
// counts differently.
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
