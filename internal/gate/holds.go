package gate

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// A hold is made under each policy of a check that takes holds. Its handle is read without a lookup, as
// that of a reservation is: the logs find the hold by the hash of its ID.

// Hold is what a check holds until it is settled.
type Hold struct {
	Handle  string    // settles it; "" if nothing is held
	Expires time.Time // when it expires, by the log's clock
}

// held is one hold of a handle. On the wire its policy, generation, part and flags are uvarints, followed
// by its key as in a handle of reservations.
type held struct {
	timestamplog.LogID
	part     int  // see rules.Policy.Part
	fixed    bool // it was not held for the cost of the check, and is settled as it was held
	releases bool // nothing stays charged if it expires
}

const holdVersion = 2

// holdFor returns for how long d holds under p, which is asked about it, 0 if it holds nothing.
func (d *Decision) holdFor(p *rules.Policy) time.Duration {
	if d.Check.ChargeAlways || d.Reported != "" || !p.TakesHolds() || p.IsReported() {
		return 0
	}
	return cmp.Or(p.HoldFor(d.Check.Hold), d.Check.HoldElse)
}

// eachPolicy calls do for each policy that d asks, with its answer.
func (d *Decision) eachPolicy(do func(p *rules.Policy, a *Answer)) {
	if limits(d.Policy) {
		do(d.Policy, &d.Answer)
	}
	if d.Shadow != nil {
		do(d.Shadow.Policy, &d.Shadow.Answer)
	}
	for i := range d.Additional {
		d.Additional[i].eachPolicy(do)
	}
}

// holds reports whether d holds something under one of its policies.
func (d *Decision) holds() bool {
	if d.Policy.TakesHolds() && d.holdFor(d.Policy) > 0 || d.Shadow != nil && d.holdFor(d.Shadow.Policy) > 0 {
		return true
	}
	for i := range d.Additional {
		if d.Additional[i].holds() {
			return true
		}
	}
	return false
}

// prepareHold gives the decisions about one request the ID of their hold, if they hold something. It
// returns an error if the request is to hold its cost and none of the policies that limit it takes holds.
func prepareHold(decisions []Decision) error {
	limiting := (*rules.Policy)(nil)
	for i := range decisions {
		d := &decisions[i]
		switch {
		case d.holds():
			id := decisions[0].Check.ID
			if id == "" && !d.Check.Peek {
				id = rand.Text()
			}
			for i := range decisions {
				decisions[i].setHoldID(id)
			}
			return nil
		case limits(d.Policy) && d.Outcome == Allowed:
			limiting = d.Policy
		}
	}
	if limiting != nil && decisions[0].Check.Hold+decisions[0].Check.HoldElse > 0 {
		return fault.Field("hold", "cannot be granted: the policy %s counts requests; give it a unit, as in \"1M tokens/1d\", or a rule such as \"16 concurrent\"", limiting.Name)
	}
	return nil
}

func (d *Decision) setHoldID(id string) {
	d.Check.holdID = id
	for i := range d.Additional {
		d.Additional[i].setHoldID(id)
	}
}

// tagOf returns the tag of the hold of an ID.
func (s *signer) tagOf(id string, releases bool) uint64 {
	return uint64(algorithms.HoldTag(s.valueOf(id), releases))
}

func releases(p *rules.Policy) bool { return p.Expiry() == rules.ExpiryReleases }

// hold makes r hold its cost for the time that d holds under p.
func (b *batch) hold(r *timestamplog.Request, d *Decision, p *rules.Policy) {
	if until := d.holdFor(p); until > 0 {
		r.Hold, r.Value = until.Milliseconds(), b.signer.tagOf(d.Check.holdID, releases(p))
		r.Source = d.Check.asker()
	}
}

// asker returns who asks: the caller, or else who the check says that it is.
func (c *Check) asker() string {
	name := cmp.Or(c.Caller, c.Source)
	return strings.ToValidUTF8(name[:min(len(name), timestamplog.MaxSource)], "")
}

// usualHandle is for how many bytes of a handle room is made at first.
const usualHandle = 160

// holdOf returns what d holds, which must be settled.
func (s *signer) holdOf(decisions []Decision) (h Hold) {
	var raw []byte
	before := ""
	for i := range decisions {
		d := &decisions[i]
		d.eachPolicy(func(p *rules.Policy, a *Answer) {
			if a.HeldUntil.IsZero() {
				return
			}
			if id := d.Check.holdID; raw == nil {
				raw = append(append(make([]byte, 0, usualHandle), holdVersion, byte(len(id))), id...)
				h.Expires = a.HeldUntil
			}
			if a.HeldUntil.Before(h.Expires) {
				h.Expires = a.HeldUntil
			}
			log := timestamplog.LogIDOf(p, a.countedKey(&d.Check).String())
			flags := uint64(p.Part) << 2 //nolint:gosec // at most rules.MaxAlso
			if d.Check.costUnsaid && p.Rules.Unit() == "" {
				flags |= 1
			}
			if releases(p) {
				flags |= 2
			}
			raw = binary.AppendUvarint(raw, uint64(log.Policy)) //nolint:gosec // never negative
			raw = binary.AppendUvarint(raw, uint64(log.Generation))
			raw = binary.AppendUvarint(raw, flags)
			key := log.Key
			if key == before {
				key = ""
			}
			before = log.Key
			raw = append(binary.AppendUvarint(raw, uint64(len(key))), key...)
		})
	}
	if raw != nil {
		h.Handle = handleText.EncodeToString(s.sealed(raw))
	}
	return h
}

// readHold returns the ID and the holds of a handle, false if it was not made under this secret.
func (s *signer) readHold(handle string) (id string, all []held, known bool) {
	body, known := s.unsealed(handle, holdVersion)
	if !known {
		return "", nil, false
	}
	from := handleReader{rest: body, sound: true}
	id = string(from.bytes(uint64(from.byte())))
	for key := ""; from.sound && len(from.rest) > 0; {
		var one held
		one.Policy, one.Generation = int64(from.number()), int64(from.number()) //nolint:gosec // as they were written
		flags := from.number()
		one.part, one.fixed, one.releases = int(flags>>2), flags&1 != 0, flags&2 != 0 //nolint:gosec // as it was written
		if given := string(from.bytes(from.number())); given != "" {
			key = given
		}
		one.Key = key
		all = append(all, one)
	}
	return id, all, from.sound && len(all) > 0
}

// Settled says what became of a hold.
type Settled struct {
	At   time.Time // by the log's clock
	Held int       // what was held
	Cost int       // what was used
	Over int       // how much of Cost is beyond a limit
	// Expires is when the hold expires, after it was extended.
	Expires time.Time
}

// AsHeld is the cost of a settlement that charges what was held.
const AsHeld = algorithms.AsHeld

// HoldEnd is what became of a hold under one policy.
type HoldEnd struct {
	Policy *rules.Policy
	Key    string
	Result string // "settled", "released" (settled with 0), "extended", or "expired" if it was too late for these
	Held   int64  // the cost that it held
	Used   int64  // the cost that was used
	Over   int64  // how much of Used is beyond a limit
	// Expires is when the hold expires, or would have expired; Was is the same before it was extended.
	Expires, Was time.Time
}

// HoldRecorder is a Recorder that also counts what becomes of holds.
type HoldRecorder interface {
	// RecordHold is called once for each end and each renewal of a hold under a policy.
	RecordHold(e *HoldEnd)
}

// RecordHold passes on what became of a hold to those that count it.
func (r Recorders) RecordHold(e *HoldEnd) {
	for _, one := range r {
		if counts, is := one.(HoldRecorder); is {
			counts.RecordHold(e)
		}
	}
}

// Settle ends a hold: it charges what was used, AsHeld for what was held, and returns the rest. The
// error is a *fault.Error: fault.NotFound if handle is not that of a hold of this installation,
// fault.Settled if the hold was settled with another cost, fault.Expired if it has expired, and
// fault.Unavailable if the log is unreachable. Settle may be repeated then.
func (g *Gate) Settle(ctx context.Context, handle string, cost int64) (Settled, error) {
	result := "settled"
	if cost == 0 {
		result = "released"
	}
	return g.settle(ctx, handle, result, cost, 0)
}

// Extend makes a hold expire after length from now, in whole milliseconds. It never shortens a hold. The
// errors are those of Settle.
func (g *Gate) Extend(ctx context.Context, handle string, length time.Duration) (Settled, error) {
	return g.settle(ctx, handle, "extended", 0, length.Milliseconds())
}

func (g *Gate) settle(ctx context.Context, handle, result string, cost, extend int64) (s Settled, err error) {
	if !g.view.Loaded() {
		return s, fault.New(fault.Unavailable, "This node has not loaded its settings yet; try again in a moment.")
	}
	signer := presentSigner(g)
	id, all, known := signer.readHold(handle)
	if !known {
		return s, fault.New(fault.NotFound, "This is not the handle of a hold of this installation; send it exactly as it was received.")
	}
	limited := &lazyDeadline{Context: ctx, until: time.Now().Add(10 * g.deadline), timers: &g.timers}
	defer limited.release()
	isKnown, isExpired, isOther := false, false, false
	for _, one := range all {
		p := g.policyOf(one)
		if p == nil { // the log is no longer read
			continue
		}
		m := timestamplog.Settlement{Request: timestamplog.RequestOf(p, one.Key, 1), Used: cost, Extend: extend}
		m.LogID, m.Value = one.LogID, signer.tagOf(id, one.releases)
		if one.fixed && cost > 0 {
			m.Used = algorithms.AsHeld
		}
		answer, err := g.log.Settle(limited, m)
		if err != nil {
			return s, &fault.Error{Code: fault.Unavailable, Message: unreachable + " The hold may be settled already; repeat this.", Err: err}
		}
		if answer.State == algorithms.HoldUnknown {
			continue
		}
		// One that has expired is not ended by trying to renew it: a late settlement ends it, and is counted.
		if isKnown = true; !answer.Repeated && (extend == 0 || answer.State != algorithms.HoldExpired) {
			g.recordHold(p, one.Key, result, &answer)
		}
		used := m.Used
		if used < 0 {
			used = answer.Held
		}
		isExpired = isExpired || answer.State == algorithms.HoldExpired
		isOther = isOther || answer.State == algorithms.HoldSettled && (extend > 0 || answer.Used != used)
		s.include(&answer, one.fixed)
	}
	switch {
	case isOther:
		return s, &fault.Error{Code: fault.Settled, Message: "The hold is settled already, with another cost; this changes nothing.",
			Detail: map[string]any{"settled_cost": s.Cost, "held": s.Held, "over": s.Over}}
	case isExpired:
		return s, &fault.Error{Code: fault.Expired, Message: "The hold has expired. What its policy keeps, and what was used beyond it, is charged.",
			Detail: map[string]any{"held": s.Held, "over": s.Over}}
	case !isKnown:
		return s, fault.New(fault.Expired, "The hold is no longer known: it expired, or was settled more than a minute ago.")
	}
	return s, nil
}

// include adds the answer of one log.
func (s *Settled) include(answer *timestamplog.Settled, fixed bool) {
	s.At, s.Over = time.UnixMilli(answer.Now), max(s.Over, int(answer.Over))
	if !fixed || s.Held == 0 {
		s.Held, s.Cost = int(answer.Held), int(answer.Used)
	}
	if expires := time.UnixMilli(answer.Expires); s.Expires.IsZero() || expires.Before(s.Expires) {
		s.Expires = expires
	}
}

func (g *Gate) recordHold(p *rules.Policy, key, result string, s *timestamplog.Settled) {
	counts, is := g.recorder.(HoldRecorder)
	if !is {
		return
	}
	if s.State == algorithms.HoldExpired {
		result = "expired"
	}
	counts.RecordHold(&HoldEnd{
		Policy: p, Key: key, Result: result, Held: s.Held, Used: s.Used, Over: s.Over, Expires: time.UnixMilli(s.Expires), Was: time.UnixMilli(s.Was),
	})
}

// policyOf returns the policy whose log has a hold, with its present rules, nil if that log is no longer
// read.
func (g *Gate) policyOf(one held) *rules.Policy {
	selector := g.view.Selector()
	p, _ := selector.ByID(one.Policy)
	if one.part > 0 {
		for _, part := range selector.DerivedOf(p) {
			if part.Part == one.part && timestamplog.LogIDOf(part, one.Key) == one.LogID {
				return part
			}
		}
		return nil
	}
	candidates := []*rules.Policy{p}
	if k, err := offences.ParseKey(one.Key); err == nil {
		if limit := memberOf(g.view, k, selector).LimitAt(g.now()); limit != nil {
			candidates = []*rules.Policy{limit.Apply(p), p}
		}
	}
	for _, p := range candidates {
		if p.TakesHolds() && timestamplog.LogIDOf(p, one.Key) == one.LogID {
			return p
		}
	}
	return nil
}
