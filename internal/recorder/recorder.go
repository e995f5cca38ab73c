// Package recorder counts the decisions of the gate. A Recorder counts them in bounded memory
// during a check. A Flusher writes the counts to the database every second.
package recorder

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keyhash"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// Options are the settings of a Recorder. Only Secret is required.
type Options struct {
	// Secret returns the secret that all nodes of a database share. It is called for each check,
	// since a restored backup may change the secret. Required.
	Secret func() []byte
	// Node names this node in rows that belong to one node.
	Node string
	// MaxKeys bounds the number of combinations of minute, policy, key and rule that are counted
	// at a time. Up to about three quarters of it, all counts are exact. Zero means 16,384, which
	// is at most 40 MB if every key and meta is as long as possible.
	MaxKeys int
	// MaxRows bounds the offence rows that a minute of this node may add whatever their counts.
	// Beyond it, each drain still admits its 256 heaviest rows, and 256 more of the networks with
	// the fewest keys. Zero means 16,384.
	MaxRows int
	// TrafficKeys is the number of keys in a minute without a refusal whose traffic is kept: the
	// heaviest, and as many of the first. As many of the keys with a refusal are kept beside them.
	// Zero means 1,024.
	TrafficKeys int
	// SamplePoints bounds the points that a minute adds to the traffic sample. Zero
	// means 1,000.
	SamplePoints int
	// KeyRequests bounds the requests of keys that are kept in memory, offences.MaxKeyRequests of each
	// key. Zero means 16,384, which is at most 20 MB if every text is as long as possible.
	KeyRequests int
	// OmitPaths omits the paths of requests from what is written and kept, both those in checks and
	// reports and the entry "path" of their Meta.
	OmitPaths bool
	// OmitAgents does the same for the agents, and for the bots that they name.
	OmitAgents bool
}

const shardCount = 32

func (o Options) withDefaults() Options {
	defaultTo(&o.MaxKeys, 16_384)
	defaultTo(&o.MaxRows, 16_384)
	defaultTo(&o.TrafficKeys, 1_024)
	defaultTo(&o.SamplePoints, 1_000)
	defaultTo(&o.KeyRequests, 16_384)
	return o
}

func defaultTo(value *int, standard int) {
	if *value <= 0 {
		*value = standard
	}
}

// Recorder counts decisions in memory until a Flusher takes them. It is a gate.Recorder and safe
// for concurrent use. Record waits only for locks that are held briefly: one of 32 for the keys,
// and those of the sketches and of the traffic sample.
type Recorder struct {
	node      string
	omits     omissions
	secret    func() []byte
	hashes    keyhash.PerSecret[keyhash.Hash]
	shards    [shardCount]shard
	distinct  distinctMinutes
	sampler   trafficSampler
	requested *breakdowns

	draining sync.Mutex
	overflow *overflow
}

var (
	_ gate.Recorder       = (*Recorder)(nil)
	_ gate.ReportRecorder = (*Recorder)(nil)
)

// NewRecorder returns an empty recorder.
func NewRecorder(o Options) *Recorder {
	o = o.withDefaults()
	var omits omissions
	if o.OmitPaths {
		omits = append(omits, conditions.Path.String())
	}
	if o.OmitAgents {
		for _, a := range []conditions.Attribute{conditions.Agent, conditions.Bot, conditions.Category, conditions.Verified} {
			omits = append(omits, a.String())
		}
	}
	r := &Recorder{
		requested: newBreakdowns(omits),
		node:      o.Node, omits: omits, secret: o.Secret, overflow: newOverflow(),
		distinct: distinctMinutes{minutes: map[totalsID]*sketch{}},
		sampler:  trafficSampler{maxPoints: o.SamplePoints, minutes: map[int64]*sampleMinute{}},
	}
	limits := shardLimits{
		keys: max(2, o.MaxKeys/shardCount), rows: max(1, o.MaxRows/shardCount),
		late: 256 / shardCount, rare: 256 / shardCount, kept: max(1, o.TrafficKeys/shardCount),
	}
	for i := range r.shards {
		r.shards[i] = shard{
			limits: limits, omits: omits, minutes: map[int64]*minute{},
			offences: newTopk[offenceKey, offenceValue](limits.keys),
			traffic:  newTopk[trafficKey, trafficValue](limits.keys),
			requests: keyRequests{max: max(2*offences.MaxKeyRequests, o.KeyRequests/shardCount)},
		}
		r.shards[i].offences.order = func(entries []*offenceEntry) {
			r.shards[i].measureCrowds()
			evictionOrder(entries)
		}
	}
	return r
}

// omissions are the names of the attributes of requests that are not recorded.
type omissions []string

// valueOf returns what is recorded of an attribute.
func (o omissions) valueOf(request *conditions.Request, a conditions.Attribute) string {
	if slices.Contains(o, a.String()) {
		return ""
	}
	return request.Value(a)
}

// hash hashes a key under the shared secret, so that nodes agree on samples and sketches, and
// callers cannot choose keys with certain hashes.
func (r *Recorder) hash(key string) uint64 {
	return r.hashes.Of(r.secret(), offences.SamplingHash).Sum64(key)
}

// shardOf returns the shard of a key's hash, by its five highest bits.
func (r *Recorder) shardOf(hash uint64) *shard { return &r.shards[hash>>59] }

// unitOf returns the hash of the unit as which the safety limit counts a key; hash is that of the
// key.
func (r *Recorder) unitOf(k keys.Key, hash uint64) uint64 {
	network, is := offences.SafetyNetwork(k)
	if !is {
		return hash
	}
	var room [32]byte // for the longest network, an IPv6 /48
	return r.hash(string(network.AppendTo(room[:0])))
}

// Record counts d.
func (r *Recorder) Record(d *gate.Decision) {
	counted := d.Check.Key
	if d.IsAdditional {
		counted = additionalKey(d)
	}
	key := counted.String()
	hash := r.hash(key)
	at := d.At.UnixMilli()
	id := policyID(d.Policy)

	s := r.shardOf(hash)
	if d.IsAdditional {
		if d.Outcome != gate.Allowed || d.Shadow != nil { // otherwise nothing is counted
			s.mu.Lock()
			s.countAdditional(s.minute(offences.MinuteOf(at)), id, hash, strings.Clone(key), at, d)
			s.mu.Unlock()
		}
		r.addDistinct(d, id, hash, counted)
		return
	}
	s.mu.Lock()
	in := s.minute(offences.MinuteOf(at)).policy(id)
	fresh, kept := s.countTraffic(in, hash, key, d.Check.Cost, d.Outcome)
	s.requests.add(hash, kept, d, s.omits)
	if d.Derived == nil {
		s.countDecision(in, hash, kept, at, d)
	}
	if d.Shadow != nil && d.Shadow.Derived == nil {
		s.countShadow(hash, kept, d)
	}
	s.mu.Unlock()
	r.recordDerived(d, id, at)

	if fresh || d.Shadow != nil {
		unit := r.unitOf(counted, hash)
		if fresh {
			r.distinct.add(offences.MinuteOf(at), id, hash, unit)
		}
		if d.Shadow != nil {
			r.distinct.add(offences.MinuteOf(d.Shadow.At.UnixMilli()), d.Shadow.Policy.ID, hash, unit)
		}
	}
	r.sampler.add(at, hash, key, d.Check.Cost, r.pathOf(d.Check.Request), d.Outcome == gate.Allowed)
	r.countRequested(d, at, hash, kept)
}

// countRequested counts a check by its dimensions. It may keep key.
func (r *Recorder) countRequested(d *gate.Decision, at int64, hash uint64, key string) {
	seen := breakdown.Seen{Request: d.Check.Request, Policy: policyID(d.Policy)}.Of(d.Check.Key)
	if !d.Check.Client.IsZero() {
		seen = seen.Of(d.Check.Client)
	}
	if d.Outcome != gate.Allowed && d.Outcome != gate.Unavailable {
		if d.Block != nil {
			seen.RefusedBy = breakdown.BlockRefused
		} else if rule, is := d.DecidingRule(); is {
			seen.RefusedBy = r.requested.textOf(rule)
		}
	}
	r.requested.add(at, hash, key, seen, d.Outcome)
}

// RecordReport counts a report as one refused request of the key if any policy had no room for
// it, however many had none, and adds its path to the traffic sample. Record counts what each
// policy decided about it.
func (r *Recorder) RecordReport(a *gate.Reported) {
	if a.IsOfRequest() {
		key := a.Report.Key.String()
		seen := breakdown.Seen{Request: a.Report.Request, Outcome: a.Report.Outcome}.Of(a.Report.Key)
		r.requested.add(a.At.UnixMilli(), r.hash(key), key, seen, reported)
	}
	path, refusing := r.pathOf(a.Report.Request), fullPolicy(a)
	if len(a.Policies) == 0 && (path == "" || !a.IsOfRequest()) {
		return
	}
	key := a.Report.Key.String()
	hash := r.hash(key)
	if len(a.Policies) > 0 {
		r.keepReport(a, refusing, hash, key)
	}
	if refusing != nil {
		r.countReport(a, refusing.Policy.ID, hash, key)
	}
	if path != "" {
		r.sampler.addReport(a.At.UnixMilli(), hash, key, path)
	}
}

// fullPolicy returns what the first enforcing policy did that had no room for a report, nil for none.
func fullPolicy(a *gate.Reported) *gate.PolicyReport {
	for i := range a.Policies {
		if p := &a.Policies[i]; p.Result == gate.Full && p.Policy.Mode == rules.Enforce {
			return p
		}
	}
	return nil
}

// keepReport keeps a report among the requests of its key.
func (r *Recorder) keepReport(a *gate.Reported, refusing *gate.PolicyReport, hash uint64, key string) {
	s := r.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests.addReport(hash, strings.Clone(key), a, refusing, s.omits)
}

// countReport counts a report in the traffic of the reported key. If the policy limits a further
// key, the offence is that of the further key instead.
func (r *Recorder) countReport(a *gate.Reported, policy int64, hash uint64, key string) {
	at := offences.MinuteOf(a.At.UnixMilli())
	s := r.shardOf(hash)
	s.mu.Lock()
	fresh, _ := s.countTraffic(s.minute(at).policy(policy), hash, key, 1, gate.Limited)
	s.mu.Unlock()
	if fresh {
		r.distinct.add(at, policy, hash, r.unitOf(a.Report.Key, hash))
	}
}

// pathOf returns the path of a request to record, "" for none.
func (r *Recorder) pathOf(request *conditions.Request) string {
	return r.omits.valueOf(request, conditions.Path)
}

// additionalKey returns the key that the policy of an additional decision counts.
func additionalKey(d *gate.Decision) keys.Key {
	if d.Policy == nil && d.Shadow != nil && d.Shadow.Derived != nil {
		return *d.Shadow.Derived
	}
	return d.CountedKey()
}

// recordDerived counts the decision about a further key of the request under the further key,
// because that key offends, and not each key that shares it.
func (r *Recorder) recordDerived(d *gate.Decision, policy, at int64) {
	if d.Derived != nil {
		key := d.Derived.String()
		hash := r.hash(key)
		s := r.shardOf(hash)
		s.mu.Lock()
		s.countDecision(s.minute(offences.MinuteOf(at)).policy(policy), hash, key, at, d)
		s.mu.Unlock()
	}
	if d.Shadow != nil && d.Shadow.Derived != nil {
		key := d.Shadow.Derived.String()
		hash := r.hash(key)
		s := r.shardOf(hash)
		s.mu.Lock()
		s.countShadow(hash, key, d)
		s.mu.Unlock()
	}
}

// addDistinct adds the key to the keys that the policies of an additional decision have seen. An
// escalation may block only a part of these.
func (r *Recorder) addDistinct(d *gate.Decision, policy int64, hash uint64, counted keys.Key) {
	unit := r.unitOf(counted, hash)
	if d.Policy != nil {
		r.distinct.add(offences.MinuteOf(d.At.UnixMilli()), policy, hash, unit)
	}
	if d.Shadow != nil {
		r.distinct.add(offences.MinuteOf(d.Shadow.At.UnixMilli()), d.Shadow.Policy.ID, hash, unit)
	}
}

func (s *shard) countDecision(in *policyMinute, hash uint64, key string, at int64, d *gate.Decision) {
	counts := &in.counts
	k := offenceKey{in: in, key: key}
	switch d.Outcome {
	case gate.Allowed:
		counts.Allowed++
		counts.CostAllowed += int64(d.Check.Cost)
		return
	case gate.Unavailable:
		counts.Unavailable++
		return
	case gate.Limited:
		counts.Limited++
		k.kind = offences.Limited
		k.rule, _ = d.DecidingRule()
	case gate.Blocked:
		if d.Block.IsForAttacks() { // apart, so that they are left out where attacks are found
			counts = &in.minute.policy(offences.AttackLists).counts
		}
		counts.Blocked++
		k.kind, k.block = offences.Blocked, d.Block
	case gate.Challenged: // an offence as its cause without the challenge would be
		counts.Challenged++
		if k.kind, k.block = offences.Blocked, d.Block; d.Block == nil {
			k.kind = offences.Limited
			k.rule, _ = d.DecidingRule()
		}
	}
	s.countOffence(hash, k, d.CountedKey(), &d.Check, d.Policy, at, unixMilli(d.Boundary), unixMilli(d.RetryAt))
}

// countAdditional counts the refusals of a policy with conditions or an outcome that is not the
// deciding policy, and the reports that it had no room for. Allowed checks are counted only under
// the deciding policy, so that the sums over all policies count each check once.
// OffenderReport.AllowedExact is false for the other policies.
func (s *shard) countAdditional(m *minute, policy int64, hash uint64, key string, at int64, d *gate.Decision) {
	if d.Policy != nil && d.Outcome != gate.Allowed {
		s.countDecision(m.policy(policy), hash, key, at, d)
	}
	if d.Shadow != nil && (d.Reported == "" || d.Shadow.Outcome == gate.Limited || d.Shadow.Outcome == gate.Challenged) {
		s.countShadow(hash, key, d)
	}
}

func (s *shard) countShadow(hash uint64, key string, d *gate.Decision) {
	at := d.Shadow.At.UnixMilli()
	in := s.minute(offences.MinuteOf(at)).policy(d.Shadow.Policy.ID)
	counts := &in.counts
	if d.Shadow.Outcome == gate.Allowed {
		counts.ShadowAllowed++
		return
	}
	counts.ShadowLimited++
	if d.Shadow.Outcome == gate.Unavailable { // for the outage, which is no offence of the key
		return
	}
	k := offenceKey{in: in, key: key, kind: offences.Shadow}
	k.rule, _ = d.Shadow.DecidingRule()
	counted := d.Check.Key
	if d.Shadow.Derived != nil {
		counted = *d.Shadow.Derived
	}
	s.countOffence(hash, k, counted, &d.Check, d.Shadow.Policy, at, unixMilli(d.Shadow.Boundary), unixMilli(d.Shadow.RetryAt))
}

func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func policyID(p *rules.Policy) int64 {
	if p == nil {
		return 0
	}
	return p.ID
}

// drain adds everything since the last drain to g. Minutes that began before closed are complete
// and are then forgotten.
func (r *Recorder) drain(g *pendingBatch, closed int64) {
	r.draining.Lock()
	defer r.draining.Unlock()
	for i := range r.shards {
		r.shards[i].drain(g, r.overflow, closed)
	}
	r.overflow.drain(g, closed)
	r.distinct.drain(g, r.node, closed)
	r.sampler.drain(g, r.node, closed)
	r.requested.drain(g, closed)
}
