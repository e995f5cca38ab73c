package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// planEvidence adds the charges for what the request of a prepared check shows. They are asked before
// everything else, so that the check that reaches a limit of points is refused itself. Peeks, and keys
// that are blocked or exempt, are charged nothing.
func (c *call) planEvidence(d *Decision, selector *rules.Selector, set *blocks.Set) {
	if !selector.HasEvidence() || d.Check.Request == nil || d.Check.Peek || d.Exemption != nil || d.Outcome == Blocked {
		return
	}
	who := profiles.Subject(d.Check.Key, memberOf(c.gate.view, d.Check.Key, selector))
	var room [8]rules.Charge
	for _, charge := range selector.AppendEvidence(room[:0], who, d.Check.Request) {
		value, said := charge.Item.ValueOf(d.Check.Key, d.Check.Request, nil)
		if !said {
			continue
		}
		c.charges.addCharge(d, charge, charge.Policy, value)
		for _, part := range selector.DerivedOf(charge.Policy) {
			key, found := part.Derived.KeyOf(d.Check.Key, d.Check.Request, nil)
			if found && set.Match(key, d.At).Exemption == nil {
				further := *d
				further.Derived = &key
				c.charges.addCharge(&further, charge, part, value)
			}
		}
	}
}

// addCharge adds the requests that charge the key of d, or its further key, under p, which is the
// policy of the charge or its part. The answers are of no use: the check asks the policy itself.
func (b *batch) addCharge(d *Decision, charge rules.Charge, p *rules.Policy, value string) {
	for _, tag := range charge.Tags(b.hashOf(value)) {
		unused := &Decision{IsAdditional: true}
		unused.begin(&d.Check, d.At)
		unused.Policy, unused.Derived = p, d.Derived
		unused.Check.Detail = false
		b.add(unused, p, false)
		chargeFor(b.last(), charge.Item, tag, d.Check.ID)
	}
}

// chargeFor makes r a charge for an item.
func chargeFor(r *timestamplog.Request, item *rules.Evidence, tag algorithms.Tag, id string) {
	r.Cost, r.Value = item.Amount(), uint64(tag)
	r.ChargeAlways, r.Uncharged, r.MaxWait = true, false, 0
	r.ID = chargeID(id, tag)
}

// hashOf returns the hash of a value, 0 for none.
func (b *batch) hashOf(value string) uint64 {
	if value == "" {
		return 0
	}
	return b.signer.valueOf(value)
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
	mu  sync.Mutex
	all map[timestamplog.LogID]sentence
}

type sentence struct {
	text  string
	until time.Time
}

const (
	maxSentence  = 300 // bytes, so that the record of a refusal has room for the agent and the path too
	maxSentences = 4096
	sentenceAge  = 2 * time.Second
)

func (s *sentences) find(id timestamplog.LogID, now time.Time) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.all[id]
	return known.text, now.Before(known.until)
}

func (s *sentences) keep(id timestamplog.LogID, text string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) >= maxSentences {
		s.all = map[timestamplog.LogID]sentence{}
	}
	s.all[id] = sentence{text, now.Add(sentenceAge)}
}

// EvidenceMeta is the name in Check.Meta of the sentence that says why a key has its points.
const EvidenceMeta = "evidence"

// sayEvidence adds to a refusal by a policy with evidence what the key was charged for.
func (g *Gate) sayEvidence(ctx context.Context, d *Decision) {
	rule, found := d.DecidingRule()
	if d.Outcome != Limited || !found || !d.Policy.HasEvidence() {
		return
	}
	id := timestamplog.LogIDOf(d.Policy, d.CountedKey().String())
	text, isKnown := g.sentences.find(id, d.At)
	if !isKnown {
		charges, now, err := g.logOf(d).Charges(ctx, id, rule.WindowMS())
		if err != nil {
			return
		}
		text = escape.Clip(d.Policy.ExplainPoints(rule, charges, now), maxSentence)
		g.sentences.keep(id, text, d.At)
	}
	meta := maps.Clone(d.Check.Meta)
	if meta == nil {
		meta = map[string]string{}
	}
	meta[EvidenceMeta] = text
	d.Check.Meta = meta
}

// logOf returns the log that has answered d.
func (g *Gate) logOf(d *Decision) timestamplog.Log {
	if d.Degraded != "" && g.local != nil {
		return g.local
	}
	return g.log
}
