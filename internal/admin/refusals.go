package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/profiles"
)

// RecordStatus is the state of the record that a refusal's id names.
type RecordStatus string

// The states of a record.
const (
	RecordFound      RecordStatus = "recorded"
	RecordAggregated RecordStatus = "aggregated" // counted in Other, without its key
	RecordNone       RecordStatus = "none"       // nothing was refused in that minute, or it is not flushed yet
	RecordExpired    RecordStatus = "expired"    // past the retention
	RecordPending    RecordStatus = "pending"    // the minute is not over, or in the future
)

// RefusalExplanation is what is recorded for the id of a refusal.
type RefusalExplanation struct {
	ID       string
	Minute   time.Time
	Found    RecordStatus
	Text     string // the explanation, safe to print
	Why      string // the part of Text that says what about the requests was refused, "" if the rule says it all
	Key      string // "" if it is unknown
	Policy   string // name, "" for none or deleted
	Offences []offences.Offence
	// OwnLimit is the key's own limit if that refused; nil if it did not, or has ended or been
	// replaced since.
	OwnLimit *profiles.Limit
	// Escalation is the present state of the key under the policy that refused; nil if no
	// policy that counts the key has an escalation.
	Escalation *offences.EscalationStatus
	// Other are the offences of any key that were aggregated in that minute.
	Other []offences.Offence
}

// ExplainRefusal explains a refusal by its id. The error is an Invalid fault if text is not an
// id.
func (d *Detection) ExplainRefusal(ctx context.Context, text string) (*RefusalExplanation, error) {
	id, err := offences.ParseRefusalID(text)
	if err != nil {
		return nil, fault.Field("id", "%s", err)
	}
	e := &RefusalExplanation{ID: id.String(), Minute: id.Minute}
	if e.Offences, err = d.Store.FindOffences(ctx, id); err != nil {
		return nil, err
	}
	if len(e.Offences) > 0 {
		return e, d.describe(ctx, e)
	}
	from, aggregated, err := d.Store.Kept(ctx, id.Minute)
	if err != nil {
		return nil, err
	}
	e.Other = aggregated
	at := phrase.At(id.Minute)
	switch {
	case id.Minute.Before(from):
		e.Found = RecordExpired
		e.Text = fmt.Sprintf("The record of %s is past its retention: minutes are kept from %s on.", at, phrase.At(from))
	case len(aggregated) > 0:
		e.Found = RecordAggregated
		e.Text = fmt.Sprintf("In the minute of %s so many keys were refused that %s were counted together without their keys; this one may be among them.", at, phrase.Count(total(aggregated), "offence"))
	case !id.Minute.Add(time.Minute + 5*time.Second).Before(d.now()):
		e.Found = RecordPending
		e.Text = fmt.Sprintf("Nothing is recorded under this id yet; the minute of %s is not over, and counts take up to two seconds to arrive.", at)
	default:
		e.Found = RecordNone
		e.Text = fmt.Sprintf("Nothing was refused under this id in the minute of %s. Check the id; older or unsaved refusals are not kept.", at)
	}
	return e, nil
}

// RecordedRefusal is one row of the record of refusals with its id.
type RecordedRefusal struct {
	offences.Offence
	ID offences.RefusalID
}

// RecentRefusals returns the recorded refusals of a key, including those in shadow mode, in its
// newest minutes between from and to. minutes bounds the number of minutes; if blocks refused in all of
// them, the last is the newest minute with a refusal of a policy. The newest refusal comes first.
func (d *Detection) RecentRefusals(ctx context.Context, key string, from, to time.Time, minutes int) ([]RecordedRefusal, error) {
	type at struct {
		minute time.Time
		policy int64
	}
	var found []at
	var byPolicy at // the newest minute with a refusal of a policy
	points := max(1, int(to.Sub(from)/time.Minute))
	for _, shadow := range []bool{false, true} {
		details, reading, err := d.Store.Details(ctx, offences.Query{Shadow: shadow}, []string{key}, offences.Span{From: from, To: to}, points)
		if err != nil {
			return nil, err
		}
		for _, one := range details {
			m := at{reading.From.Add(time.Duration(one.Point) * reading.Part(points)), one.Policy}
			if !slices.Contains(found, m) {
				found = append(found, m)
			}
			if one.Kind != offences.Blocked && m.minute.After(byPolicy.minute) {
				byPolicy = m
			}
		}
	}
	slices.SortFunc(found, func(a, b at) int { return b.minute.Compare(a.minute) })
	if len(found) > minutes {
		found = found[:minutes]
		if oldest := &found[minutes-1]; !byPolicy.minute.IsZero() && oldest.minute.After(byPolicy.minute) {
			*oldest = byPolicy
		}
	}
	var secret []byte
	if d.Secret != nil {
		secret = d.Secret()
	}
	maker := offences.NewRefusalIDMaker(secret)
	var all []RecordedRefusal
	for _, m := range found {
		id := maker.ID(m.policy, key, m.minute)
		rows, err := d.Store.FindOffences(ctx, id)
		if err != nil {
			return nil, err
		}
		for _, o := range rows {
			all = append(all, RecordedRefusal{o, id})
		}
	}
	slices.SortStableFunc(all, func(a, b RecordedRefusal) int { return cmp.Compare(b.Last.At, a.Last.At) })
	return all, nil
}

func total(all []offences.Offence) (n int64) {
	for _, o := range all {
		n += o.Count
	}
	return n
}

// describe writes the explanation of the recorded offences, and adds the escalation.
func (d *Detection) describe(ctx context.Context, e *RefusalExplanation) error {
	e.Found = RecordFound
	sum := offences.Offence{First: e.Offences[0].First, Last: e.Offences[0].Last, Key: e.Offences[0].Key, Policy: e.Offences[0].Policy}
	var by []string
	shadow := true
	for i := range e.Offences {
		o := &e.Offences[i]
		sum.Merge(o)
		shadow = shadow && o.Kind == offences.Shadow
		refusedBy := what(o)
		if limit := ownLimitOf(d.View.Profiles(), o); limit != nil {
			e.OwnLimit = limit
			refusedBy += " of a limit of the key's own"
		}
		by = append(by, phrase.Number(o.Count)+" by the "+refusedBy)
	}
	e.Key = sum.Key
	under := "no policy"
	if p, known := d.View.Selector().ByID(sum.Policy); known {
		e.Policy, under = p.Name, "the policy "+p.Name
	} else if sum.Policy != 0 {
		under = fmt.Sprintf("a policy that is deleted (%d)", sum.Policy)
	}
	verb := "was refused"
	if shadow {
		verb = "would have been refused, and was not,"
	}
	e.Text = fmt.Sprintf("%q %s %s on %s between %s and %s UTC under %s: %s.", sum.Key, verb, phrase.Times(sum.Count),
		e.Minute.Format("2006-01-02"), clock(sum.First.At), clock(sum.Last.At), under, strings.Join(by, ", "))
	if e.Why = d.why(e.Offences); e.Why != "" {
		e.Text += " " + e.Why
	}
	if sum.Last.RetryAt > 0 {
		e.Text += fmt.Sprintf(" The last answer said to ask again at %s.", time.UnixMilli(sum.Last.RetryAt).UTC().Format("2006-01-02 15:04:05.000 UTC"))
	}
	statuses, err := d.mainStatuses(ctx, []string{e.Key}, shadow, func(string) int64 {
		if e.Offences[0].Kind == offences.Blocked { // blocked: the policy does not matter
			return 0
		}
		return sum.Policy
	})
	e.Escalation = statuses[e.Key]
	return err
}

// why says which conditions the refused requests met, and what the policies that refused do.
func (d *Detection) why(all []offences.Offence) string {
	var said []string
	say := func(sentence string) {
		if sentence != "" && !slices.Contains(said, sentence) {
			said = append(said, sentence)
		}
	}
	for i := range all {
		o := &all[i]
		if o.Kind == offences.Blocked {
			continue
		}
		p, known := d.View.Selector().ByID(o.Policy)
		if o.IsByTrap() {
			trap := "The policy"
			if known {
				trap = "Policy " + p.Name
			}
			say(trap + " is a trap: it refuses every request that meets its conditions, and waiting does not help.")
		}
		say(describeMet(o))
		if points := o.First.Meta[gate.EvidenceMeta]; points != "" && known && p.HasEvidence() {
			say("It had " + points)
		}
		switch {
		case known && p.HasEvidence():
			say("Policy " + p.Name + " refuses a key while its points reach a limit.")
		case known && p.IsReported():
			say(p.DescribeApplies())
		case known && len(o.First.Met) == 0:
			if when := p.When.Describe(); when != "" {
				say("Policy " + p.Name + " applies " + when + ".")
			}
		}
	}
	return strings.Join(said, " ")
}

// describeMet says which conditions of its policy the first of the refused requests met, "" if
// that is not known.
func describeMet(o *offences.Offence) string {
	parts := make([]string, len(o.First.Met))
	for i, m := range o.First.Met {
		parts[i] = m.Describe()
	}
	if len(parts) == 0 {
		return ""
	}
	return "In the request of " + clock(o.First.At) + " UTC the " + strings.Join(parts, " and the ") + "."
}

// ownLimitOf returns the key's own limit if it caused the offence: it has the rule and was
// active throughout. It returns nil if something else caused it or the limit has been replaced
// since.
func ownLimitOf(kept *profiles.Set, o *offences.Offence) *profiles.Limit {
	k, err := offences.ParseKey(o.Key)
	if err != nil || o.Kind != offences.Limited {
		return nil
	}
	limit := kept.Find(k).LimitAt(time.UnixMilli(o.Last.At))
	if limit == nil || limit.Created.After(time.UnixMilli(o.Last.At)) || !slices.Contains(limit.Rules.Strings(), o.RefusedBy) {
		return nil
	}
	return limit
}

func what(o *offences.Offence) string {
	switch {
	case o.Kind == offences.Blocked:
		return "block " + o.RefusedBy
	case o.IsByTrap():
		return "trap (" + o.RefusedBy + ")"
	}
	return "rule " + o.RefusedBy
}

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("15:04:05.000") }
