package recorder

import (
	"encoding/binary"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// keyRequests keeps the last requests of keys in memory: offences.MaxKeyRequests of a key, and max of
// all keys of a shard. It forgets the keys with a single request first, so that a flood of new keys
// does not displace those that come again, and then those whose last request is the oldest.
type keyRequests struct {
	max  int // requests of all keys, zero for none
	keys map[uint64]*requestsOfKey
	once requestList // the keys with one request
	more requestList // those with several
}

// requestsOfKey are the requests of one key, a ring whose oldest element is at next once it is full.
type requestsOfKey struct {
	hash       uint64
	key        string
	all        []keptRequest
	next       int
	prev, succ *requestsOfKey // in the list, whose first element has the newest request
}

// keptRequest is an offences.KeyRequest in memory that is reused.
type keptRequest struct {
	at       int64 // Unix milliseconds
	outcome  gate.Outcome
	shadow   gate.Outcome
	policy   string // shares the memory of the policy's name
	rule     rules.Rule
	block    string
	refusal  offences.RefusalID
	evidence []*rules.Evidence
	texts    []byte // of keptTexts, each preceded by its length
}

// Bounds of the kept texts, in bytes: method, path, agent, host, source, reported outcome, pass.
var keptTexts = [...]int{16, 256, 160, 100, 64, 64, 48}

// maxEvidence bounds the items of evidence of a request.
const maxEvidence = 4

// requestList is a list of keys, the newest request first.
type requestList struct {
	first, last *requestsOfKey
	requests    int
}

func (l *requestList) add(k *requestsOfKey) {
	k.prev, k.succ = nil, l.first
	if l.first != nil {
		l.first.prev = k
	} else {
		l.last = k
	}
	l.first = k
	l.requests += len(k.all)
}

func (l *requestList) remove(k *requestsOfKey) {
	if k.prev != nil {
		k.prev.succ = k.succ
	} else {
		l.first = k.succ
	}
	if k.succ != nil {
		k.succ.prev = k.prev
	} else {
		l.last = k.prev
	}
	l.requests -= len(k.all)
}

// listOf returns the list that has k.
func (r *keyRequests) listOf(k *requestsOfKey) *requestList {
	if len(k.all) == 1 {
		return &r.once
	}
	return &r.more
}

// slot returns an element for a further request of a key.
func (r *keyRequests) slot(hash uint64, key string) *keptRequest {
	k, isKnown := r.keys[hash]
	if !isKnown {
		k = r.newKey(hash, key)
		r.once.add(k)
		r.shrink(k)
		return &k.all[0]
	}
	r.listOf(k).remove(k)
	var s *keptRequest
	if len(k.all) < offences.MaxKeyRequests {
		k.all = append(k.all, keptRequest{})
		s = &k.all[len(k.all)-1]
	} else {
		s = &k.all[k.next]
		k.next = (k.next + 1) % len(k.all)
	}
	r.more.add(k)
	r.shrink(k)
	return s
}

// newKey returns a key with one empty request. It reuses the memory of the key that is displaced.
func (r *keyRequests) newKey(hash uint64, key string) *requestsOfKey {
	var k *requestsOfKey
	if old := r.once.last; old != nil && r.once.requests >= max(1, r.max/4) && r.isFull() {
		r.forget(old)
		k = old
		k.all[0] = keptRequest{texts: k.all[0].texts[:0]}
		k.next = 0
	} else {
		k = &requestsOfKey{all: make([]keptRequest, 1)}
	}
	k.hash, k.key = hash, key
	if r.keys == nil {
		r.keys = map[uint64]*requestsOfKey{}
	}
	r.keys[hash] = k
	return k
}

func (r *keyRequests) isFull() bool { return r.once.requests+r.more.requests >= r.max }

// shrink forgets keys other than keep until there is room.
func (r *keyRequests) shrink(keep *requestsOfKey) {
	for r.once.requests+r.more.requests > r.max {
		k := r.once.last
		if k == nil || k == keep || r.once.requests < r.max/4 && r.more.last != nil && r.more.last != keep {
			k = r.more.last
		}
		if k == nil || k == keep {
			return
		}
		r.forget(k)
	}
}

func (r *keyRequests) forget(k *requestsOfKey) {
	r.listOf(k).remove(k)
	delete(r.keys, k.hash)
}

// forgetBefore forgets the keys whose last request was before a time.
func (r *keyRequests) forgetBefore(at int64) {
	for _, l := range []*requestList{&r.once, &r.more} {
		for l.last != nil && l.last.newest() < at {
			r.forget(l.last)
		}
	}
}

func (k *requestsOfKey) newest() int64 {
	return k.all[(k.next+len(k.all)-1)%len(k.all)].at
}

// add keeps a decision about a check of a key. It may keep key.
func (r *keyRequests) add(hash uint64, key string, d *gate.Decision, omits omissions) {
	if r.max == 0 {
		return
	}
	s := r.slot(hash, key)
	*s = keptRequest{at: d.At.UnixMilli(), outcome: d.Outcome, refusal: d.ID, evidence: d.Evidence, texts: s.texts[:0]}
	if d.Policy != nil {
		s.policy = d.Policy.Name
	}
	s.rule, _ = d.DecidingRule()
	if d.Block != nil && d.Exemption == nil {
		s.block = d.Block.ID
	}
	if d.Shadow != nil && d.Shadow.Outcome != gate.Allowed {
		s.shadow = d.Shadow.Outcome
		if s.policy == "" || d.Outcome == gate.Allowed {
			s.policy = d.Shadow.Policy.Name
			s.rule, _ = d.Shadow.DecidingRule()
			s.refusal = d.Shadow.ID
		}
	}
	s.keepTexts(d.Check.Request, d.Check.Source, "", d.Check.Pass.String(), omits)
}

// addReport keeps a report about a request of a key. It may keep key.
func (r *keyRequests) addReport(hash uint64, key string, a *gate.Reported, full *gate.PolicyReport, omits omissions) {
	if r.max == 0 {
		return
	}
	s := r.slot(hash, key)
	*s = keptRequest{at: a.At.UnixMilli(), outcome: gate.Allowed, texts: s.texts[:0]}
	if full != nil {
		s.outcome, s.policy, s.refusal = gate.Limited, full.Policy.Name, full.ID
		if full.Rule >= 0 && full.Rule < len(full.Policy.Rules) {
			s.rule = full.Policy.Rules[full.Rule]
		}
	}
	for i := range a.Policies {
		if p := &a.Policies[i]; p.Item != nil && len(s.evidence) < maxEvidence {
			s.evidence = append(s.evidence, p.Item)
		}
	}
	s.keepTexts(a.Report.Request, a.Report.Source, a.Report.Outcome, "", omits)
}

func (s *keptRequest) keepTexts(request *conditions.Request, source, reported, pass string, omits omissions) {
	for i, text := range [len(keptTexts)]string{
		omits.valueOf(request, conditions.Method), omits.valueOf(request, conditions.Path), omits.valueOf(request, conditions.Agent), omits.valueOf(request, conditions.Host), source, reported, pass,
	} {
		text = text[:min(len(text), keptTexts[i])]
		s.texts = append(binary.AppendUvarint(s.texts, uint64(len(text))), text...)
	}
}

// request returns a copy that shares no memory with s.
func (s *keptRequest) request() offences.KeyRequest {
	q := offences.KeyRequest{At: time.UnixMilli(s.at).UTC(), Outcome: string(s.outcome), Shadow: string(s.shadow), Policy: s.policy, Block: s.block}
	if s.rule != (rules.Rule{}) {
		q.Rule = s.rule.String()
	}
	if !s.refusal.IsZero() {
		q.Refusal = s.refusal.String()
	}
	for _, e := range s.evidence[:min(len(s.evidence), maxEvidence)] {
		q.Evidence = append(q.Evidence, e.Label())
	}
	rest := s.texts
	for _, into := range [len(keptTexts)]*string{&q.Method, &q.Path, &q.Agent, &q.Host, &q.Source, &q.Reported, &q.Pass} {
		*into, rest = cutText(rest)
		*into = clean(*into)
	}
	return q
}

// of returns the requests of a key since a time, the newest first.
func (r *keyRequests) of(hash uint64, since int64) []offences.KeyRequest {
	k, isKnown := r.keys[hash]
	if !isKnown {
		return nil
	}
	var all []offences.KeyRequest
	for i := range k.all {
		if s := &k.all[(k.next+2*len(k.all)-1-i)%len(k.all)]; s.at >= since {
			all = append(all, s.request())
		}
	}
	return all
}

// KeyRequests returns the requests of a key that this node has kept since a time, the newest first.
func (r *Recorder) KeyRequests(key string, since time.Time) []offences.KeyRequest {
	hash := r.hash(key)
	s := r.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests.of(hash, since.UnixMilli())
}

// Forget forgets the kept requests of a key.
func (r *Recorder) Forget(key string) {
	hash := r.hash(key)
	s := r.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, isKnown := s.requests.keys[hash]; isKnown {
		s.requests.forget(k)
	}
}
