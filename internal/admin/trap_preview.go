package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keyhash"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

const (
	maxTrapped = 10
	// maxPathPoints bounds a PathSample, as maxSample bounds a TrafficSample.
	maxPathPoints = 300_000
)

// PathSource returns the recorded paths of a span.
type PathSource func(ctx context.Context, from, to time.Time) (*PathSample, error)

// PathSample contains the paths that the keys of the traffic sample requested in a span, with
// the same ratio of keys throughout.
type PathSample struct {
	Keys        map[string]*SampledKey
	First, Last int64 // Unix milliseconds: start of the first minute and end of the last
	Ratio       float64
}

// SampledKey is one key of a PathSample.
type SampledKey struct {
	Checks int64
	Paths  []offences.PathPoint
}

// ReadPathSample reads the paths of a span as ReadTrafficSample reads its checks.
func ReadPathSample(ctx context.Context, store DetectionStore, secret []byte, from, to time.Time) (*PathSample, error) {
	s := pathSampler{PathSample: PathSample{Keys: map[string]*SampledKey{}}, hash: offences.SamplingHash(secret)}
	if err := store.TrafficSamples(ctx, from, to, s.add); err != nil {
		return nil, err
	}
	s.Ratio = math.Ldexp(1, -s.level)
	return &s.PathSample, nil
}

// pathSampler collects paths, and removes keys if there are too many.
type pathSampler struct {
	PathSample
	hash  keyhash.Hash
	level int
	size  int // keys and points
}

func (s *pathSampler) add(c *offences.SampleChunk) error {
	checks, err := c.Decode()
	if err != nil {
		return err
	}
	paths, err := c.DecodePaths()
	if err != nil {
		return err
	}
	if s.First == 0 || c.Minute < s.First {
		s.First = c.Minute
	}
	s.Last = max(s.Last, c.Minute+offences.MinuteMillis)
	s.raise(max(s.level, c.Level))
	for _, p := range checks {
		if k := s.key(p.Key); k != nil {
			k.Checks += int64(p.Count)
		}
	}
	for _, p := range paths {
		if k := s.key(p.Key); k != nil {
			k.Paths = append(k.Paths, p)
			s.size++
		}
	}
	for s.size > maxPathPoints {
		s.raise(s.level + 1)
	}
	return nil
}

// key returns the entry of a key, nil if the key is not sampled.
func (s *pathSampler) key(key string) *SampledKey {
	k := s.Keys[key]
	if k == nil && offences.Sampled(s.hash.Sum64(key), s.level) {
		k = &SampledKey{}
		s.Keys[key] = k
		s.size++
	}
	return k
}

func (s *pathSampler) raise(level int) {
	if level == s.level {
		return
	}
	s.level = level
	for key, k := range s.Keys {
		if !offences.Sampled(s.hash.Sum64(key), level) {
			s.size -= 1 + len(k.Paths)
			delete(s.Keys, key)
		}
	}
}

// CanPreview reports whether PreviewTraps has a result for any of the policies.
func CanPreview(all []*rules.Policy) bool { return slices.ContainsFunc(all, isPathTrap) }

func isPathTrap(p *rules.Policy) bool {
	return p.IsTrap() && !p.IsReported() && len(p.When.Texts(conditions.Path)) > 0
}

// PreviewTraps returns what the traps with paths among the policies would have caught in the
// traffic of the last span, at most 31 days. The policies need not be saved. A policy that is
// off or in shadow mode is previewed as if it enforced. Nothing is changed. A node previews for
// one caller at a time.
func (p *Policies) PreviewTraps(ctx context.Context, all []*rules.Policy, span time.Duration) ([]wire.TrapPreview, error) {
	if p.Paths == nil {
		return nil, fault.New(fault.NotFound, "No traffic is recorded here.")
	}
	if span < time.Minute || span > maxTrialSpan {
		return nil, fault.Field("last", "must be 1m to 31d")
	}
	if !CanPreview(all) {
		return nil, nil
	}
	if !p.previewing.TryLock() {
		return nil, fault.New(fault.Conflict, "This node is previewing traps for another caller; try again when it has finished.")
	}
	defer p.previewing.Unlock()
	now := p.Now()
	sample, err := p.Paths(ctx, now.Add(-span), now)
	if err != nil {
		return nil, err
	}
	var previews []wire.TrapPreview
	for _, policy := range all {
		if isPathTrap(policy) {
			previews = append(previews, p.previewTrap(policy, sample))
		}
	}
	return previews, nil
}

// trap is the preview of one policy.
type trap struct {
	wire.TrapPreview
	policy *rules.Policy
	index  *conditions.Index // the entries
	caught map[string][]int  // by path: the entries that match it
	all    []wire.TrappedKey // the caught keys
	report bool              // some path is known only from a report
	check  bool              // some path is known from a check
}

func (p *Policies) previewTrap(policy *rules.Policy, sample *PathSample) wire.TrapPreview {
	each, texts := policy.When.Each(conditions.Path)
	t := trap{
		TrapPreview: wire.TrapPreview{Policy: policy.Name, SampleRatio: sample.Ratio, Entries: []wire.TrapEntry{}}, policy: policy,
		index: conditions.NewIndex(each), caught: map[string][]int{},
	}
	if len(sample.Keys) > 0 {
		t.FirstAt, t.LastAt = wire.At(time.UnixMilli(sample.First).UTC()), wire.At(time.UnixMilli(sample.Last).UTC())
	}
	for _, path := range texts {
		t.Entries = append(t.Entries, wire.TrapEntry{Path: path})
	}
	now := p.Now()
	for key, sampled := range sample.Keys {
		k, err := offences.ParseKey(key)
		if err != nil {
			continue // the settings have changed since it was recorded
		}
		if policy.Matches(profiles.Subject(k, p.View.Profiles().Find(k))) && !isExempt(p.View.Blocks().Match(k, now)) {
			t.add(key, sampled)
		}
	}
	t.Top = topTrapped(t.all, func(k wire.TrappedKey) int64 { return k.Caught })
	t.TopOther = topTrapped(t.all, func(k wire.TrappedKey) int64 { return k.Other })
	t.Note = wire.NullString(t.note(len(sample.Keys) > 0))
	return t.TrapPreview
}

func isExempt(m blocks.Match) bool { return m.Exemption != nil }

// topTrapped returns the keys with the largest values of figure above 0.
func topTrapped(all []wire.TrappedKey, figure func(wire.TrappedKey) int64) []wire.TrappedKey {
	top := slices.DeleteFunc(slices.Clone(all), func(k wire.TrappedKey) bool { return figure(k) == 0 })
	slices.SortFunc(top, func(a, b wire.TrappedKey) int {
		return cmp.Or(cmp.Compare(figure(b), figure(a)), cmp.Compare(a.Key, b.Key))
	})
	return append([]wire.TrappedKey{}, top[:min(maxTrapped, len(top))]...)
}

// pathCounts is the sum of the points of one path of a key.
type pathCounts struct {
	offences.PathPoint
	minutes map[int64]int // requests by minute
}

// requests returns the minimum number of requests: requests reported as failed may or may not
// be among the checks.
func (c *pathCounts) requests() int64 { return int64(max(c.Allowed+c.Refused, c.Failed)) }

// add adds the counts of a key.
func (t *trap) add(key string, sampled *SampledKey) {
	byPath := map[string]*pathCounts{}
	for _, p := range sampled.Paths {
		c := byPath[p.Path]
		if c == nil {
			c = &pathCounts{minutes: map[int64]int{}}
			byPath[p.Path] = c
		}
		c.Allowed, c.Refused, c.Failed = c.Allowed+p.Allowed, c.Refused+p.Refused, c.Failed+p.Failed
		c.minutes[p.Minute] += max(p.Allowed+p.Refused, p.Failed)
	}
	found, entries, minutes, requests := wire.TrappedKey{Key: key}, map[int]int64{}, map[int64]int{}, int64(0)
	for path, c := range byPath {
		requests += c.requests()
		t.check, t.report = t.check || c.Allowed+c.Refused > 0, t.report || c.Failed > 0
		if path == "" {
			t.LeftOut += c.requests()
		} else {
			t.WithPath += c.requests()
		}
		matching := t.matching(path)
		if len(matching) == 0 {
			found.Other += int64(max(0, c.Allowed-c.Failed))
			continue
		}
		found.Caught += c.requests()
		t.RefusedNow += int64(c.Refused)
		for _, i := range matching {
			entries[i] += c.requests()
		}
		for minute, n := range c.minutes {
			minutes[minute] += n
		}
	}
	t.Keys++
	t.Requests += max(sampled.Checks, requests)
	if found.Caught == 0 {
		return
	}
	found.Blocked = t.policy.Escalation != nil && escalates(t.policy.Escalation, minutes)
	t.CaughtKeys++
	t.Caught += found.Caught
	if found.Other > 0 {
		t.OtherKeys++
		t.Other += found.Other
	}
	if found.Blocked {
		t.BlockedKeys++
	}
	for i, n := range entries {
		e := &t.Entries[i]
		e.Requests += n
		e.Keys++
		if found.Other > 0 {
			e.OtherKeys++
		}
	}
	t.all = append(t.all, found)
}

// matching returns the indexes of the entries that match a path.
func (t *trap) matching(path string) []int {
	if path == "" {
		return nil
	}
	found, known := t.caught[path]
	if !known {
		t.index.Find(conditions.RequestOf(conditions.Path, path), func(i int) { found = append(found, i) })
		t.caught[path] = found
	}
	return found
}

// escalates reports whether the refusals within some window reach the threshold of an
// escalation.
func escalates(e *rules.Escalation, minutes map[int64]int) bool {
	starts, oldest, n := slices.Sorted(maps.Keys(minutes)), 0, 0
	for _, at := range starts {
		for n += minutes[at]; starts[oldest] < at-e.Window.Milliseconds(); oldest++ {
			n -= minutes[starts[oldest]]
		}
		if n >= e.Threshold {
			return true
		}
	}
	return false
}

// note returns what the counts omit.
func (t *trap) note(isRecorded bool) string {
	var notes []string
	switch {
	case !isRecorded:
		return "No traffic was recorded in this time."
	case t.Keys == 0:
		return "None of the recorded keys is of this policy."
	case t.WithPath == 0 && t.LeftOut == 0:
		return fmt.Sprintf("None of the %s has its path, so it is not known what these entries would refuse. "+
			"Send the path with each check: the configurations on the page Connect do so, an application sends request.path; --record-paths false keeps none. Or try the file on an access log: stint-admin backtest.", phrase.Count(t.Requests, "recorded request"))
	case !t.check:
		notes = append(notes, "The paths are those of reported outcomes only: the paths of requests that succeeded are not known.")
	case t.Requests > t.WithPath+t.LeftOut:
		notes = append(notes, phrase.Count(t.Requests-t.WithPath-t.LeftOut, "request")+" came without a path.")
	}
	if t.LeftOut > 0 {
		notes = append(notes, fmt.Sprintf("The path of %s was not recorded: it was longer than %d bytes, or there were too many different ones in a minute.", phrase.Count(t.LeftOut, "request"), offences.MaxSamplePath))
	}
	if others := t.otherConditions(); others != "" {
		notes = append(notes, "The conditions on "+others+" are left out, as only paths are recorded: the policy may refuse less.")
	}
	return strings.Join(notes, " ")
}

// otherConditions returns the names of the attributes other than the path that have patterns.
func (t *trap) otherConditions() string {
	var names []string
	for _, a := range t.policy.When.Attributes() {
		if a != conditions.Path {
			names = append(names, a.String())
		}
	}
	return strings.Join(names, " and ")
}
