package recorder

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// keyRequests keeps the last requests of keys in memory: offences.MaxKeyRequests of a key, and max of
// all keys of a shard. It forgets the keys with a single request first, so that a flood of new keys
// does not displace those that come again, and then those that have not come for long, as the CLOCK of
// operating systems does: a further request sets a bit of its key instead of moving the key in a list.
// Requests that a block refuses do not displace the last ones before it.
type keyRequests struct {
	max    int           // requests of all keys, more than of one
	all    []keptRequest // of all keys, at most max
	unused []int32       // places in all
	keys   map[uint64]*requestsOfKey
	once   requestList // the keys with one request, the newest first
	more   requestList // those with several
	spare  *requestsOfKey
	before int64 // of the last forgetBefore
}

// requestsOfKey are the requests of one key.
type requestsOfKey struct {
	hash           uint64
	key            string
	count          int
	oldest, newest int32  // places in keyRequests.all
	isAgain        bool   // whether it has come since it was put first in the list of those with several
	block          string // the id of the block that refused a request last, "" for none
	saved          savedRequests
	prev, succ     *requestsOfKey
}

// savedRequests are the last requests of a key before it was blocked. The zero value is none.
type savedRequests struct {
	is          bool
	first, last int32 // places in keyRequests.all
}

// keptRequest is an offences.KeyRequest in memory that is reused. Its pointers are not cleared with its
// key: they keep at most max policies and items of evidence.
type keptRequest struct {
	at       int64 // Unix milliseconds
	next     int32 // the place of the next request of the key
	outcome  gate.Outcome
	shadow   gate.Outcome
	policy   *rules.Policy
	rule     int16 // of the policy, -1 for none
	block    string
	refusal  offences.RefusalID
	evidence []*rules.Evidence
	texts    []byte // of keptTexts, each preceded by its length
}

// Bounds of the kept texts, in bytes: method, path, agent, host, source, reported outcome, pass.
var keptTexts = [...]int{16, 256, 160, 100, 64, 64, 48}

// maxEvidence bounds the items of evidence of a request.
const maxEvidence = 4

// requestList is a list of keys.
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
	l.requests += k.count
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
	l.requests -= k.count
}

// seldom returns a key other than keep that has not come for long, nil for none.
func (l *requestList) seldom(keep *requestsOfKey) *requestsOfKey {
	for l.first != l.last {
		k := l.last
		if !k.isAgain && k != keep {
			return k
		}
		k.isAgain = false
		l.remove(k)
		l.add(k)
	}
	if l.last == keep {
		return nil
	}
	return l.last
}

// slot returns an element for a further request of a key. block is the id of the block that refuses
// the request, "" for none.
func (r *keyRequests) slot(hash uint64, key, block string) *keptRequest {
	k, isKnown := r.keys[hash]
	if isKnown && block != "" && block != k.block {
		r.save(k)
	}
	var place int32
	switch {
	case !isKnown:
		place = r.place(nil)
		k = r.newKey(hash, key)
		k.oldest, k.count = place, 1
		r.once.add(k)
	case k.count == offences.MaxKeyRequests:
		k.isAgain = true
		place = r.displace(k)
		r.all[k.newest].next = place
	default:
		k.isAgain = k.count > 1
		place = r.place(k)
		r.all[k.newest].next = place
		if k.count == 1 {
			r.once.remove(k)
			k.count++
			r.more.add(k)
		} else {
			k.count++
			r.more.requests++
		}
	}
	k.newest = place
	if block != "" {
		k.block = block
	}
	return &r.all[place]
}

// save saves the last requests of a key, unless another block refused the last one.
func (r *keyRequests) save(k *requestsOfKey) {
	if r.all[k.newest].outcome == gate.Blocked {
		return
	}
	first := k.oldest
	for range k.count - offences.KeptBeforeBlock {
		first = r.all[first].next
	}
	k.saved = savedRequests{true, first, k.newest}
}

// displace takes the oldest request that is not saved out of those of a key.
func (r *keyRequests) displace(k *requestsOfKey) int32 {
	before := &k.oldest
	if k.saved.is && k.oldest == k.saved.first {
		before = &r.all[k.saved.last].next
	}
	place := *before
	*before = r.all[place].next
	return place
}

// place returns an unused place. It forgets a key other than keep if there is none.
func (r *keyRequests) place(keep *requestsOfKey) int32 {
	if len(r.unused) == 0 && len(r.all) < r.max {
		r.all = append(r.all, keptRequest{})
		return int32(len(r.all) - 1) //nolint:gosec // at most max
	}
	if len(r.unused) == 0 {
		r.forget(r.unwanted(keep))
	}
	last := len(r.unused) - 1
	place := r.unused[last]
	r.unused = r.unused[:last]
	return place
}

// unwanted returns the key to forget. There is one other than keep, since a key keeps less than max.
func (r *keyRequests) unwanted(keep *requestsOfKey) *requestsOfKey {
	k := r.once.last
	if k == nil || k == keep || r.once.requests < r.max/4 {
		if seldom := r.more.seldom(keep); seldom != nil {
			return seldom
		}
	}
	if k == keep {
		return k.prev
	}
	return k
}

func (r *keyRequests) newKey(hash uint64, key string) *requestsOfKey {
	k := r.spare
	if k != nil {
		r.spare = k.succ
	} else {
		k = new(requestsOfKey)
	}
	*k = requestsOfKey{hash: hash, key: key}
	if r.keys == nil {
		r.keys = map[uint64]*requestsOfKey{}
	}
	r.keys[hash] = k
	return k
}

func (r *keyRequests) forget(k *requestsOfKey) {
	if k.count == 1 {
		r.once.remove(k)
	} else {
		r.more.remove(k)
	}
	delete(r.keys, k.hash)
	for place, n := k.oldest, k.count; n > 0; n-- {
		r.unused = append(r.unused, place)
		place = r.all[place].next
	}
	*k = requestsOfKey{succ: r.spare}
	r.spare = k
}

// forgetBefore forgets the keys whose last request was before a time.
func (r *keyRequests) forgetBefore(at int64) {
	if at == r.before {
		return
	}
	r.before = at
	for _, k := range r.keys {
		if r.all[k.newest].at < at {
			r.forget(k)
		}
	}
}

// add keeps a decision about a check of a key. It may keep key.
func (r *keyRequests) add(hash uint64, key string, d *gate.Decision, omits omissions) {
	var block string
	if d.Block != nil && d.Exemption == nil {
		block = d.Block.ID
	}
	refuses := block
	if d.Outcome != gate.Blocked {
		refuses = ""
	}
	s := r.slot(hash, key, refuses)
	*s = keptRequest{at: d.At.UnixMilli(), outcome: d.Outcome, block: block, refusal: d.ID, evidence: d.Evidence, texts: s.texts[:0]}
	s.policy, s.rule = d.Policy, int16(d.Rule) //nolint:gosec // a policy has few rules
	if d.Shadow != nil && d.Shadow.Outcome != gate.Allowed {
		s.shadow = d.Shadow.Outcome
		if s.policy == nil || d.Outcome == gate.Allowed {
			s.policy, s.rule, s.refusal = d.Shadow.Policy, int16(d.Shadow.Rule), d.Shadow.ID //nolint:gosec // a policy has few rules
		}
	}
	s.keepTexts(d.Check.Request, d.Check.Source, "", d.Check.Pass.String(), omits)
}

// addReport keeps a report about a request of a key. It may keep key.
func (r *keyRequests) addReport(hash uint64, key string, a *gate.Reported, full *gate.PolicyReport, omits omissions) {
	s := r.slot(hash, key, "")
	*s = keptRequest{at: a.At.UnixMilli(), outcome: gate.Allowed, texts: s.texts[:0]}
	if full != nil {
		s.outcome, s.policy, s.rule, s.refusal = gate.Limited, full.Policy, int16(full.Rule), full.ID //nolint:gosec // a policy has few rules
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
	q := offences.KeyRequest{At: time.UnixMilli(s.at).UTC(), Outcome: string(s.outcome), Shadow: string(s.shadow), Block: s.block}
	if s.policy != nil {
		q.Policy = s.policy.Name
		if s.rule >= 0 && int(s.rule) < len(s.policy.Rules) {
			q.Rule = s.policy.Rules[s.rule].String()
		}
	}
	if !s.refusal.IsZero() {
		q.Refusal = s.refusal.String()
	}
	for _, e := range s.evidence[:min(len(s.evidence), maxEvidence)] {
		if label := e.Label(); !slices.Contains(q.Evidence, label) { // several policies and further keys may be charged for the same
			q.Evidence = append(q.Evidence, label)
		}
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
	for place, n := k.oldest, k.count; n > 0; n-- {
		s := &r.all[place]
		if s.at >= since {
			all = append(all, s.request())
		}
		place = s.next
	}
	slices.Reverse(all)
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
