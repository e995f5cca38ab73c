package adminui

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/profiles"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

const seenRange = time.Hour

// addRanges adds wider ranges to block, with the keys of each range seen in the last hour.
func (h *keyHandler) addRanges(ctx context.Context, page *keyPage, key keys.Key) (failed error) {
	now := h.Now()
	patterns := rangesOf(key)
	for i, p := range patterns {
		r := keyRange{Pattern: p.String(), Text: "1 key", First: i == 0}
		if h.detection != nil && failed == nil {
			seen, err := h.detection.Seen(ctx, p, now.Add(-seenRange), now)
			if failed = err; err != nil {
				r.Text = ""
			} else if i == 0 {
				page.Allowed = seen.Allowed
			} else {
				r.Text = phrase.Count(seen.Keys, "key") + " seen, " + phrase.Number(seen.Offenders) + " " + offend(seen.Offenders)
			}
		}
		page.Ranges = append(page.Ranges, r)
	}
	return failed
}

func offend(n int64) string {
	if n == 1 {
		return "offends"
	}
	return "offend"
}

// rangesOf returns the pattern of a key and the ranges around it that need no confirmation.
func rangesOf(key keys.Key) []keys.Pattern {
	all := []keys.Pattern{keys.PatternOf(key)}
	own, is := all[0].Network()
	if !is {
		return all
	}
	wider := []int{28, 24}
	if own.Addr().Is6() {
		wider = []int{56, 48}
	}
	for _, bits := range wider {
		if bits < own.Bits() {
			all = append(all, keys.NetworkPattern(netip.PrefixFrom(own.Addr(), bits)))
		}
	}
	return all
}

// minOffencesRange is the minimum range of the drawing, so that it shows a key that returned
// within a day.
const minOffencesRange = 24 * time.Hour

// addOffences draws the offences over time, and below them the blocks.
func (h *keyHandler) addOffences(ctx context.Context, page *keyPage, key keys.Key) error {
	if h.detection == nil {
		return nil
	}
	s := page.Range
	if s.Last != 0 && s.Length() < minOffencesRange {
		s = format.TimeRange{From: s.To.Add(-minOffencesRange), To: s.To, Last: minOffencesRange}
	}
	t, err := h.detection.Timeline(ctx, key, s.From, s.To, chart.BarCount)
	if err != nil {
		return err
	}
	found, err := h.blocks.Find(ctx, blocks.Filter{Kind: blocks.Block, Key: key, State: "all", Limit: 20, At: h.Now()})
	if err != nil {
		return err
	}
	page.Offences = chart.DrawBars(t, s, found.Items, h.Now())
	return nil
}

// recentRefusals is how many minutes with refusals are listed.
const recentRefusals = 5

// addRefusals finds the records of the last minutes with refusals of the key.
func (h *keyHandler) addRefusals(ctx context.Context, page *keyPage, key keys.Key) error {
	if h.detection == nil {
		return nil
	}
	to := h.Now().UTC().Truncate(time.Minute).Add(time.Minute)
	s := offences.Span{From: to.Add(-time.Hour), To: to}
	if page.Offences != nil && !page.Offences.Newest.IsZero() && page.Offences.Newest.Before(s.From) {
		s.From = page.Offences.Newest.Truncate(time.Minute)
		s.To = s.From.Add(page.Offences.Width + time.Minute)
	}
	recorded, err := h.detection.RecentRefusals(ctx, key.String(), s.From, s.To, recentRefusals)
	page.Requests = h.detection.MergeRequests(key.String(), recorded)
	for _, r := range recorded {
		page.Refusals = append(page.Refusals, refusalRow(r.ID.String(), r.Offence))
	}
	return err
}

func refusalRow(id string, o offences.Offence) keyRefusal {
	r := keyRefusal{Offence: o, ID: id, At: time.UnixMilli(o.Last.At).UTC(), Rule: "by " + format.RuleText(o.RefusedBy)}
	switch {
	case o.Kind == offences.Blocked:
		r.Rule = ""
	case o.IsByTrap():
		r.Rule = "by a trap"
	}
	if o.Last.RetryAt > 0 {
		r.Wait = time.Duration(o.Last.RetryAt-o.Last.At) * time.Millisecond
	}
	return r
}

// maxLevels bounds the drawn levels of an escalation.
const maxLevels = 8

func (h *keyHandler) addEscalations(ctx context.Context, page *keyPage, key keys.Key) error {
	if err := page.Explained.EscalationErr; err != nil {
		return err
	}
	statuses := []*offences.EscalationStatus{page.Explained.Escalation, page.Explained.ShadowEscalation}
	for _, px := range page.Explained.Conditional {
		statuses = append(statuses, page.Explained.EscalationUnder(px))
	}
	for _, s := range statuses {
		if s == nil || slices.ContainsFunc(page.Escalations, func(v *escalationView) bool { return v.Policy == s.Policy }) {
			continue
		}
		p, found := h.Catalog.Selector().ByName(s.Policy)
		if !found {
			continue
		}
		page.Escalations = append(page.Escalations, viewEscalation(s, p, page.Explained.Blocks))
	}
	return nil
}

// viewEscalation returns the view of a key's state under a policy; active are the blocks of the
// key.
func viewEscalation(s *offences.EscalationStatus, p *rules.Policy, active []*blocks.Entry) *escalationView {
	v := &escalationView{EscalationStatus: s}
	for _, b := range active {
		if b.Source == blocks.Automatic && b.PolicyID == p.ID && (v.Block == nil || b.Outlasts(v.Block)) {
			v.Block = b
		}
	}
	l := offences.EscalationsOf([]*rules.Policy{p})[p.ID]
	for step := range min(s.Levels, maxLevels) {
		one := level{Length: levelLength(l.BlockAfter(step)), State: "later"}
		switch {
		case step < s.Level && (step < s.Levels-1 || s.Level > s.Levels):
			one.State = "done"
		case step == min(s.Level, s.Levels-1):
			one.State = "next"
		}
		v.Levels = append(v.Levels, one)
	}
	return v
}

// levelLength formats the length of a level's block, in one unit if possible, such as 32 h for
// 1 d 8 h: the levels are side by side, and a longer text would be cut.
func levelLength(d time.Duration) string {
	const day = 24 * time.Hour
	if d > day && d < 10*day && d%time.Hour == 0 && d%day != 0 {
		return strconv.Itoa(int(d/time.Hour)) + " h"
	}
	return phrase.Duration(d)
}

func (h *keyHandler) addEarlier(ctx context.Context, page *keyPage, key keys.Key) error {
	found, err := h.blocks.Find(ctx, blocks.Filter{Kind: blocks.Block, Key: key, State: "ended", Limit: 5, At: h.Now()})
	page.Earlier = found.Items
	return err
}

func (h *keyHandler) addNotes(ctx context.Context, page *keyPage, key keys.Key) (err error) {
	if page.HasNotes = h.keys.HasNotes(); !page.HasNotes {
		return nil
	}
	found, err := h.keys.FindNotes(ctx, admin.Caller{}, wire.NoteList{Key: key.String(), PageList: wire.PageList{Limit: 20}})
	page.Notes = found.Items
	return err
}

func (h *keyHandler) addProfile(ctx context.Context, page *keyPage, key keys.Key) error {
	if h.profiles == nil {
		return nil
	}
	p, err := h.profiles.Find(ctx, key.String())
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	page.Kept = profiles.NewPanel(p, lengthChoices, h.Now())
	return nil
}

// Lasted returns how long an ended block was active.
func (p *keyPage) Lasted(b *blocks.Entry) string {
	end := b.Expires
	if !b.Ended().IsZero() {
		end = b.Ended()
	}
	return phrase.Duration(end.Sub(b.Created.Time()).Round(time.Second))
}

// refusedTimes returns the refusals whose exact times are known: the first and last of each
// minute.
func (p *keyPage) refusedTimes() []time.Time {
	var all []time.Time
	for _, r := range p.Refusals {
		all = append(all, time.UnixMilli(r.First.At), time.UnixMilli(r.Last.At))
	}
	slices.SortFunc(all, time.Time.Compare)
	return slices.CompactFunc(all, time.Time.Equal)
}

// Unchecked says why no rule is checked for the key: an exemption or a block decides first. It
// is "" if rules decide.
func (p *keyPage) Unchecked() string {
	switch {
	case p.Exemption != nil:
		return "not checked while the key is exempt"
	case p.Block() != nil:
		return "not checked while the key is blocked; what is used expires"
	}
	return ""
}

// addNeverSeen finds out whether any check of the key is known.
func (h *keyHandler) addNeverSeen(ctx context.Context, page *keyPage, key keys.Key) error {
	if h.detection == nil || len(page.Earlier) > 0 || page.Block() != nil || page.Explained.Degraded != "" {
		return nil
	}
	for _, policy := range page.Policies {
		if len(policy.Rules) == 0 || policy.Counter || slices.ContainsFunc(policy.Rules, func(r keyRule) bool { return r.Used > 0 }) {
			return nil
		}
	}
	seen, err := h.detection.Seen(ctx, keys.PatternOf(key), h.Now().Add(-seenLately), h.Now())
	page.NeverSeen, page.Untracked = seen.Allowed+seen.Refused == 0, seen.Untracked
	return err
}

// Asked says what the last refused request was: its method, path and agent, "" if that was not sent.
func (r keyRefusal) Asked() string {
	meta := r.Last.Meta
	text := strings.TrimSpace(strings.ToUpper(meta[conditions.Method.String()]) + " " + meta[conditions.Path.String()])
	if agent := meta[conditions.Agent.String()]; agent != "" {
		text = strings.TrimSpace(text + " by " + agent)
	}
	return text
}

// KindName returns the name of the decision's kind.
func (r keyRefusal) KindName() string { return r.Offence.Kind.String() }

// escalationView is the state of the key in an escalation, with the levels.
type escalationView struct {
	*offences.EscalationStatus
	Block  *blocks.Entry // the active block of the escalation, nil for none
	Levels []level
}
