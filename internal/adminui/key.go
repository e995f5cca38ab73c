package adminui

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/operations"
	use "github.com/stint-dev/stint/internal/admin/profiles"
	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/profiles"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// keyPage explains one key.
type keyPage struct {
	site.MonitorPage
	Key       string
	Explained *admin.KeyExplanation
	Origin    *keyOrigin  // nil if nothing is known
	Policies  []keyPolicy // the enforcing policy, then the shadow policy
	// Drawn is the timeline of the selected rule's window, nil for none.
	Drawn       *chart.Timeline
	OwnBlock    *blocks.Entry // the block of exactly this key
	Exemption   *blocks.Entry // the most specific one
	Ranges      []keyRange
	Choices     []form.Choice
	Own         bool  // the key is that of the caller's address
	Allowed     int64 // in the last hour
	Offences    *chart.Bars
	Requests    []offences.KeyRequest // the last ones, the newest first
	Refusals    []keyRefusal
	Escalations []*escalationView
	Earlier     []*blocks.Entry
	Notes       []wire.Note
	Kept        *profiles.Panel  // nil on a node that keeps no profiles
	HasNotes    bool             // the node stores notes
	NeverSeen   bool             // no check of the key is known
	Untracked   int64            // if NeverSeen, allowed checks of keys that are not known
	FromMemory  bool             // the database did not answer, and its part of the page is missing
	Ask         string           // the open question: "reset", "erase" or ""
	Erasure     *wire.KeyErasure // what would be erased, for the question
	ResetPolicy string           // what was typed as the policy to reset under
	FieldErrors form.FieldErrors

	hasPolicy func(name string) bool
}

// HasPolicy reports whether there is a policy of that name: a request may be older than its end.
func (p *keyPage) HasPolicy(name string) bool { return p.hasPolicy(name) }

// IsPass reports whether the key is that of a pass, which solving a challenge gives.
func (p *keyPage) IsPass() bool { return strings.HasPrefix(p.Key, keys.Pass+":") }

// keyPolicy is the part of one policy on the page.
type keyPolicy struct {
	*gate.PolicyExplanation
	Shadow bool
	Own    bool // a limit of the key's own replaces its rules
	Rules  []keyRule
	Counts string // how it counts, "" by default
	// Counter means that the policy keeps only counters, so that no request times are known.
	// Queue means that it allows requests one after the other.
	Counter bool
	Queue   bool
	Budget  *chart.Budget // nil unless amounts count now
}

// keyRule is one row of the rules.
type keyRule struct {
	gate.RuleExplanation
	Text    string
	Decides bool      // it refuses the requests of its policy now
	Mark    string    // the label for Decides: "limiting now"
	Cells   []keyCell // one for each request; none if there are more than maxCells
	Used    int
	Most    int             // maximum at once: the limit, or a bucket's burst
	Width   string          // used part of the bar, in percent
	Free    string          // "Free now", "In 12.4 s", "Never"
	More    format.Sentence // ", 14:03:27.0 UTC"
	Address string          // of the page that draws this rule
	Drawn   bool
}

type keyCell struct {
	X, Width string // percent
	Used     bool
}

// maxCells is the maximum number of requests that are drawn individually.
const maxCells = 24

// keyRange is one range that the form can block.
type keyRange struct {
	Pattern string
	Text    string // "1 key", "9 keys seen, 9 offend"
	First   bool
}

// keyRefusal is one minute of refusals by one rule or block.
type keyRefusal struct {
	offences.Offence
	ID   string
	At   time.Time
	Wait time.Duration // in the last response
	Rule string
}

type level struct {
	Length string
	State  string // done, current or later
}

// keyHandler serves the page of one key or one refusal.
type keyHandler struct {
	*site.Site
	keys      *admin.Keys
	detection *admin.Detection // nil if offences are not counted
	blocks    *admin.Entries
	profiles  *use.Profiles // nil on a node without profiles
	toasts    *toasts
	origins   *operations.Origins
}

func (h *keyHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get(site.KeyPath, identity.Read, h.showKey),
		h.Post(site.KeyPath+"/reset", identity.Operate, h.resetKey),
		h.Post(site.KeyPath+"/erase", identity.Admin, h.eraseKey),
		h.Post(site.KeyPath+"/note", identity.Operate, h.addNote),
		h.Post(site.KeyPath+"/note/delete", identity.Operate, h.deleteNote),
	}
}

func (h *keyHandler) showKey(c *httpserver.Call) error {
	w, err := h.NewMonitorPage(c, "Key", "/offenders", "key", "refusal", "rule", "ask", "done", "ids")
	if err != nil {
		return err
	}
	w.Path = site.KeyPath
	if id := w.Query.Get("refusal"); id != "" {
		return h.showRefusal(c, w, id)
	}
	page := &keyPage{MonitorPage: w, Ask: w.Query.Get("ask")}
	if err := h.fill(c, page); err != nil {
		return err
	}
	if page.Ask == "erase" && page.May("admin") && c.Get("HX-Target") != "live" { // the question stays as it is
		preview, err := h.keys.Erase(c.Context(), site.CallerOf(c), wire.EraseKeyRequest{Key: page.Key, Preview: true})
		if err != nil {
			return err
		}
		page.Erasure = &preview
	}
	return h.RenderLive(c, "keypage", page)
}

// fill reads everything about the key in the address of a page.
func (h *keyHandler) fill(c *httpserver.Call, page *keyPage) error {
	key, err := h.keys.Parse(c.Context(), page.Query.Get("key"))
	if err != nil {
		return err
	}
	page.Key, page.Choices = key.String(), lengthChoices
	page.hasPolicy = func(name string) bool {
		_, found := h.Catalog.Selector().ByName(name)
		return found
	}
	page.Query["key"] = []string{page.Key}
	page.Title = format.ClipLine(format.VisibleText(page.Key), 60)
	ctx := c.Context()
	page.Toast, err = h.toasts.find(ctx, &page.MonitorPage)
	if err = h.Tolerate(&page.Frame, err); err != nil {
		return err
	}
	if page.Explained, err = h.keys.Explain(ctx, key, ""); err != nil {
		return err
	}
	page.Own = h.Catalog.Parser().AddressKey(c.Address) == key
	page.explain()
	page.Origin = keyOriginOf(c, h.origins, page.Key)
	about := func(part func(context.Context, *keyPage, keys.Key) error) func(context.Context, *keyPage) error {
		return func(ctx context.Context, page *keyPage) error { return part(ctx, page, key) }
	}
	err = together(ctx, page, about(h.addRanges), about(h.addOffences), about(h.addEscalations), about(h.addEarlier), about(h.addNotes), about(h.addProfile))
	if err == nil {
		err = h.addRefusals(ctx, page, key)
	}
	if err == nil {
		err = h.addNeverSeen(ctx, page, key)
	}
	page.FromMemory = err != nil
	if page.FromMemory && page.Requests == nil && h.detection != nil {
		page.Requests = h.detection.MergeRequests(page.Key, nil)
	}
	if err = h.Tolerate(&page.Frame, err); err != nil {
		return err
	}
	page.draw()
	return nil
}

// explain converts the explanation to rows of rules.
func (p *keyPage) explain() {
	x := p.Explained
	for _, b := range x.Blocks {
		if b.Scope != "" { // it is listed, but other checks are not blocked
			continue
		}
		if b.Pattern.String() == site.PatternText(p.Key) {
			p.OwnBlock = b
		}
	}
	if len(x.Exemptions) > 0 {
		p.Exemption = x.Exemptions[0]
	}
	for _, px := range append([]*gate.PolicyExplanation{x.Enforcing, x.Shadow}, x.Conditional...) {
		if px == nil {
			continue
		}
		policy := newKeyPolicy(px, px.Policy.Mode == rules.Shadow)
		policy.Own = px == x.Enforcing && p.HasOwnRules()
		policy.Budget = chart.DrawBudget(px, x.At)
		for j, r := range px.Rules {
			policy.Rules = append(policy.Rules, p.ruleOf(px, j, r))
		}
		p.Policies = append(p.Policies, policy)
	}
}

func newKeyPolicy(px *gate.PolicyExplanation, shadow bool) keyPolicy {
	policy := keyPolicy{PolicyExplanation: px, Shadow: shadow, Queue: px.Policy.Options.Variant == algorithms.VariantQueue}
	if a := algorithms.ByName(px.Policy.Algorithm); a != nil {
		policy.Counter = !a.IsLog()
	}
	if px.Policy.Algorithm != algorithms.TimestampLog {
		policy.Counts = px.Policy.DescribeCounting()
	}
	return policy
}

// ruleRow is one row of the table of all rules.
type ruleRow struct {
	*keyRule
	Of *keyPolicy
}

// Table returns the rules of all policies: those that refuse now first, then the fullest, and those of
// policies in shadow mode after others that are as full.
func (p *keyPage) Table() []ruleRow {
	var all []ruleRow
	for i := range p.Policies {
		for j := range p.Policies[i].Rules {
			all = append(all, ruleRow{&p.Policies[i].Rules[j], &p.Policies[i]})
		}
	}
	first := func(is bool) int {
		if is {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b ruleRow) int {
		return cmp.Or(first(a.Decides && !a.Of.Shadow)-first(b.Decides && !b.Of.Shadow), cmp.Compare(b.fullness(), a.fullness()), first(b.Of.Shadow)-first(a.Of.Shadow))
	})
	return all
}

// passSeen is a pass that clients with the key had.
type passSeen struct {
	Key      string
	Requests int
	Last     time.Time
}

// Passes returns the passes among the last requests of the key, the newest first.
func (p *keyPage) Passes() (all []*passSeen) {
	seen := map[string]*passSeen{}
	for _, q := range p.Requests {
		if q.Pass == "" {
			continue
		}
		if seen[q.Pass] == nil {
			seen[q.Pass] = &passSeen{Key: q.Pass, Last: q.At}
			all = append(all, seen[q.Pass])
		}
		seen[q.Pass].Requests++
	}
	return all
}

// newestRequests is how many requests are shown at once.
const newestRequests = 8

// maxBlockedShown is how many requests that a block refused are shown before others.
const maxBlockedShown = 3

// SinceBlock returns the newest requests if blocks refused them and many: what the key asked for
// before is shown first.
func (p *keyPage) SinceBlock() []offences.KeyRequest {
	n := slices.IndexFunc(p.Requests, func(q offences.KeyRequest) bool { return q.Outcome != string(gate.Blocked) })
	if n <= maxBlockedShown {
		return nil
	}
	return p.Requests[:n]
}

// Newest returns the requests that are shown at once.
func (p *keyPage) Newest() []offences.KeyRequest {
	before := p.Requests[len(p.SinceBlock()):]
	return before[:min(newestRequests, len(before))]
}

// Older returns the requests before those of Newest.
func (p *keyPage) Older() []offences.KeyRequest {
	return p.Requests[len(p.SinceBlock())+len(p.Newest()):]
}

// By says which rule refused a request, "" for none.
func (*keyPage) By(q offences.KeyRequest) string {
	if q.Rule == "" {
		return ""
	}
	return "by " + format.RuleText(q.Rule)
}

// Verb returns a method as HTTP writes it.
func (*keyPage) Verb(method string) string { return strings.ToUpper(method) }

// Did says what the last requests of the key were. A report may be about one of them.
func (p *keyPage) Did() string {
	isReport := func(q offences.KeyRequest) bool { return q.Reported != "" }
	asked := p.Requests
	if slices.ContainsFunc(asked, func(q offences.KeyRequest) bool { return !isReport(q) }) {
		asked = slices.DeleteFunc(slices.Clone(asked), isReport)
	}
	var refused, most int
	var path string
	times := map[string]int{}
	for i := range asked {
		q := &asked[i]
		if q.Outcome != string(gate.Allowed) {
			refused++
		}
		if q.Path == "" {
			continue
		}
		if times[q.Path]++; times[q.Path] > most {
			most, path = times[q.Path], q.Path
		}
	}
	text := phrase.Number(int64(refused)) + " of its last " + phrase.Count(int64(len(asked)), "request") + " refused"
	if most > 1 {
		text += "; " + phrase.Number(int64(most)) + " asked for " + format.ClipLine(format.VisibleText(path), 60)
	}
	if reports := len(p.Requests) - len(asked); reports > 0 {
		text += "; " + phrase.Count(int64(reports), "report") + " beside them"
	}
	return text
}

func (p *keyPage) ruleOf(px *gate.PolicyExplanation, i int, r gate.RuleExplanation) keyRule {
	most := 0
	if r.Rule.Limit > 0 {
		most = int(px.Policy.Rules.Counted(px.Policy.Options)[i].Capacity())
	}
	row := keyRule{RuleExplanation: r, Text: format.Rule(r.Rule), Most: most, Used: min(r.Used, most)}
	row.Decides = p.Unchecked() == "" && px.Answer.Rule == i && !px.Allowed && !px.Policy.IsTrap() && !chart.OnlyReservations(px)
	switch {
	case !row.Decides:
	case px.Policy.Mode == rules.Shadow:
		row.Mark = "would refuse"
	case px.Policy.DependsOnRequest():
		row.Mark = "refuses them"
	default:
		row.Mark = "limiting now"
	}
	row.Address = p.With("rule", px.Policy.Name+" "+r.Rule.String()) + "#requests"
	if most > 0 && most <= maxCells {
		for k := range most {
			row.Cells = append(row.Cells, keyCell{X: chart.Percent(float64(k) / float64(most)), Width: chart.Percent(1 / float64(most)), Used: k < row.Used})
		}
	}
	row.Width = chart.Percent(float64(row.Used) / float64(max(1, most)))
	at := p.Explained.At
	switch {
	case r.Never:
		row.Free = "Never"
	case r.RetryAt.After(at):
		row.Free, row.More = "In "+phrase.Duration(r.RetryAt.Sub(at)), format.Sentence{format.Plain(", "), format.Instant(r.RetryAt, at).WithZone()}
	default:
		row.Free = "Free now"
		if !r.NextExpiry.IsZero() {
			row.More = format.Sentence{format.Plain(", 1 more at "), format.Instant(r.NextExpiry, at).WithZone()}
		} else if len(px.Timestamps) > 0 && r.Used == 0 && !px.Timestamps[0].After(at) {
			row.More = format.Sentence{format.Plain(", last request " + phrase.Duration(at.Sub(px.Timestamps[0])) + " ago")}
		}
	}
	return row
}

// Instant formats a time on this page.
func (p *keyPage) Instant(t time.Time) format.Moment { return format.Instant(t, p.Explained.At) }

// Until formats the duration until a time.
func (p *keyPage) Until(t time.Time) string { return phrase.Duration(t.Sub(p.Explained.At)) }

// Block returns the block that refuses the key, or would without an exemption; nil for none.
func (p *keyPage) Block() *blocks.Entry { return p.Explained.Block }

// BlockReason returns the reason of Block without its final dot, "" for none.
func (p *keyPage) BlockReason() string { return strings.TrimSuffix(p.Block().Reason, ".") }

// Outcome returns the kind of the present decision.
func (p *keyPage) Outcome() string {
	if p.Exemption != nil {
		return "exempt"
	}
	return string(p.Explained.Outcome)
}

// DecidingRule returns the rule that limits the key. It is "" if only reservations in the
// future use up the policy's limit.
func (p *keyPage) DecidingRule() string {
	rule, decides := p.Explained.Limiting.DecidingRule()
	if !decides || chart.OnlyReservations(p.Explained.Limiting) {
		return ""
	}
	return format.Rule(rule)
}

// HasOwnRules reports whether an own limit of the key replaces the rules of its policy.
func (p *keyPage) HasOwnRules() bool {
	return p.Explained.OwnLimit != nil && p.Explained.Enforcing != nil
}

// IsLimitedByOwn reports whether the key's own limit is what limits it.
func (p *keyPage) IsLimitedByOwn() bool {
	return p.HasOwnRules() && p.Explained.Limiting == p.Explained.Enforcing
}

// Reservations returns the future reservations under the policy that limits the key, nil for
// none.
func (p *keyPage) Reservations() *chart.Reservations {
	return chart.ReservationsAhead(p.Explained.Limiting)
}

// InQueue reports whether the enforcing policy allows requests one after the other.
func (p *keyPage) InQueue() bool {
	x := p.Explained.Enforcing
	return x != nil && x.Policy.Options.Variant == algorithms.VariantQueue
}

// Counted returns the policies that keep no times, so that there is no timeline.
func (p *keyPage) Counted() []keyPolicy {
	return slices.DeleteFunc(slices.Clone(p.Policies), func(policy keyPolicy) bool {
		return !policy.Counter || len(policy.Rules) == 0 || policy.Policy.HasEvidence()
	})
}

// ResetLink returns the address that asks whether to reset the counts.
func (p *keyPage) ResetLink() string { return p.With("ask", "reset") + "#reset" }

// EraseLink asks whether to erase the key.
func (p *keyPage) EraseLink() string { return p.With("ask", "erase") + "#erase" }

// CloseLink returns the address of the page without a question.
func (p *keyPage) CloseLink() string { return p.With("ask", "") }

// draw draws the window of the rule in the address. By default that is the rule that limits the
// key, or the fullest one.
func (p *keyPage) draw() {
	wanted := p.Query.Get("rule")
	var chosen *keyRule
	var of *keyPolicy
	for i := range p.Policies {
		policy := &p.Policies[i]
		for j := range policy.Rules {
			r := &policy.Rules[j]
			switch {
			case r.Rule.Limit == 0 || policy.Counter:
			case chosen == nil, policy.Policy.Name+" "+r.Rule.String() == wanted:
				chosen, of = r, policy
			case p.isWanted(chosen, of) || policy.Shadow:
			case r.Decides && (!chosen.Decides || policy.PolicyExplanation == p.Explained.Limiting), !chosen.Decides && r.fullness() > chosen.fullness():
				chosen, of = r, policy
			}
		}
	}
	if chosen == nil {
		return
	}
	chosen.Drawn = true
	p.Drawn = chart.DrawTimeline(of.PolicyExplanation, chosen.Rule, chosen.Used, chosen.Decides, p.Explained.At, p.refusedTimes())
}

func (p *keyPage) isWanted(r *keyRule, of *keyPolicy) bool {
	return of.Policy.Name+" "+r.Rule.String() == p.Query.Get("rule")
}

func (r *keyRule) fullness() float64 { return float64(r.Used) / float64(max(1, r.Most)) }
