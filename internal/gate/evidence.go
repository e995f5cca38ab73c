package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// planEvidence adds the charges for what the request of a prepared check shows. They are asked before
// everything else, so that the check that reaches a limit of points is refused itself. Peeks, and keys
// that are blocked or exempt, are charged nothing: then it returns false.
func (c *call) planEvidence(d *Decision, selector *rules.Selector, set *blocks.Set) bool {
	if d.Check.Request == nil || d.Check.Peek || d.Exemption != nil || d.Outcome == Blocked || d.Outcome == Challenged {
		return false
	}
	isSpoofed := d.Check.bot.Verified == conditions.Spoofed
	if !selector.HasEvidence() && !isSpoofed {
		return true
	}
	who := c.gate.subject(d.Check.Key, memberOf(c.gate.view, d.Check.Key, selector), d.At)
	var room [8]rules.Charge
	charges := selector.AppendEvidence(room[:0], who, d.Check.Request)
	if d.Check.bot.IsCrawler() {
		charges = rules.WithoutLinks(charges)
	}
	counted := botKeys(d.Check.Bot(), selector)
	for i := range counted {
		charges = selector.AppendEvidenceFor(charges, &counted[i], d.Check.Request, func(p *rules.Policy) bool { return isForBot(p, counted[i]) })
	}
	if isSpoofed {
		charges = c.planSpoofed(charges, d, selector, set, who)
	}
	selector.EachCharged(charges, d.Check.Key, d.Check.Request, nil, c.charges.signer.valueOf, func(charged rules.Charged) {
		if charged.Derived == nil || set.Match(*charged.Derived, d.At).Exemption == nil {
			c.charges.addCharge(d, charged)
			if charged.Item != nil && !slices.Contains(d.Evidence, charged.Item) {
				d.Evidence = append(d.Evidence, charged.Item)
			}
		}
	})
	return true
}

// planSpoofed adds the charges of policies that count the outcome conditions.BotSpoofed, and appends the
// items of evidence for it.
func (c *call) planSpoofed(charges []rules.Charge, d *Decision, selector *rules.Selector, set *blocks.Set, who rules.Subject) []rules.Charge {
	report := Report{Key: d.Check.Key, Outcome: conditions.BotSpoofed, Request: d.Check.Request}
	eachReported(&report, d.Check.Bot(), selector, who, func(p *rules.Policy, counted *keys.Key) {
		if p.HasEvidence() {
			charges = p.AppendReportedEvidence(charges, counted, report.Outcome, report.Request)
			return
		}
		report.eachCharged(p, counted, selector, set, d.At, func(p *rules.Policy, derived *keys.Key) {
			c.charges.addUncounted(d, p, derived)
			c.charges.chargeReport(p, &report, chargeID(d.Check.ID, 0))
		})
	})
	return charges
}

// addCharge adds a charge that the request of d is for. The answer is of no use: the check asks the
// policy itself.
func (b *batch) addCharge(d *Decision, charged rules.Charged) {
	b.addUncounted(d, charged.Policy, charged.Derived)
	chargeFor(b.last(), charged.Item, charged.Tag, d.Check.ID)
}

// addUncounted adds a request to a policy whose answer is of no use.
func (b *batch) addUncounted(d *Decision, p *rules.Policy, derived *keys.Key) {
	unused := new(Decision)
	unused.begin(&d.Check, d.At)
	unused.Policy, unused.Derived = p, derived
	unused.Check.Detail = false
	b.add(unused, p, false)
}

// chargeFor makes r a charge for an item.
func chargeFor(r *timestamplog.Request, item *rules.Evidence, tag algorithms.Tag, id string) {
	r.Cost, r.Value = item.Amount(), uint64(tag)
	r.ChargeAlways, r.Uncharged, r.MaxWait = true, false, 0
	r.ID = chargeID(id, tag)
}

// chargeID returns the ID of one of the charges of a request, "" if the request has none: an ID belongs
// to one request of a log.
func chargeID(id string, tag algorithms.Tag) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256(strconv.AppendUint([]byte(id), uint64(tag), 16))
	return hex.EncodeToString(sum[:16])
}

// sentences are what the evidence about keys was when they were last refused, so that a key that keeps
// asking costs no further reads of its log. The zero value is ready for use.
type sentences struct {
	mu    sync.Mutex
	began time.Time
	all   map[timestamplog.LogID]string
}

const (
	maxSentence  = 300 // bytes, so that the record of a refusal has room for the agent and the path too
	maxSentences = 4096
	sentenceAge  = 2 * time.Second
)

// find returns the sentence of a log. mayRead reports whether the log may be read where none is known:
// only so many are read in sentenceAge, so that a flood of keys does not cost a read for each check.
func (s *sentences) find(id timestamplog.LogID, now time.Time) (text string, mayRead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.began).Abs() >= sentenceAge {
		s.began, s.all = now, map[timestamplog.LogID]string{}
	}
	text, isKnown := s.all[id]
	if mayRead = !isKnown && len(s.all) < maxSentences; mayRead {
		s.all[id] = "" // until it is read
	}
	return text, mayRead
}

func (s *sentences) keep(id timestamplog.LogID, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[id] = text
}

// EvidenceSentence returns why the key has its points, "" unless a rule of points refused it.
func (d *Decision) EvidenceSentence() string {
	if d.Outcome != Limited || d.Policy == nil || !d.Policy.HasEvidence() {
		return ""
	}
	return d.Check.Meta[EvidenceMeta]
}

// EvidenceMeta is the name in Check.Meta of the sentence that says why a key has its points.
const EvidenceMeta = "evidence"

// sayEvidence adds to a refusal by a policy with evidence what the key was charged for, unless the log
// does not say so within the deadline of the call.
func (c *call) sayEvidence(ctx context.Context, d *Decision) {
	if d.Outcome != Limited && d.Outcome != Challenged {
		return
	}
	rule, found := d.DecidingRule()
	if !found || !d.Policy.HasEvidence() {
		return
	}
	id := timestamplog.LogIDOf(d.Policy, d.CountedKey().String())
	text, mayRead := c.gate.sentences.find(id, d.At)
	if mayRead {
		if text = c.explainPoints(ctx, d, rule, id); text != "" {
			c.gate.sentences.keep(id, text)
		}
	}
	if text == "" {
		return
	}
	meta := maps.Clone(d.Check.Meta)
	if meta == nil {
		meta = map[string]string{}
	}
	meta[EvidenceMeta] = text
	d.Check.Meta = meta
}

func (c *call) explainPoints(ctx context.Context, d *Decision, rule rules.Rule, id timestamplog.LogID) (text string) {
	read := func(ctx context.Context, log timestamplog.Log) {
		if charges, now, err := log.Charges(ctx, id, rule.WindowMS()); err == nil {
			text = escape.Clip(d.Policy.ExplainPoints(rule, charges, now), maxSentence)
		}
	}
	switch g := c.gate; {
	case g.local == nil:
		read(ctx, g.log)
	case d.Degraded != "":
		read(ctx, g.local)
	case !c.isLate():
		c.withDeadline(ctx, func(limited context.Context) { read(limited, g.log) })
	}
	return text
}
