package recorder

import (
	"strings"

	"github.com/stint-dev/stint/internal/offences"
)

// The paths that the keys of the traffic sample request. The preview of a trap shows what it
// would have caught from them. Callers choose the paths, so everything about them is bounded.
// Paths beyond the bounds are counted as the path "".
const (
	maxKeyPaths  = 64       // different paths of one key in a minute
	maxPathBytes = 32 << 10 // total length of the different paths of a minute
)

// pathBudget is how much the paths of a minute take.
type pathBudget struct {
	points int
	texts  map[string]string // each path once, so that keys share one copy
	bytes  int               // of texts
}

// path returns the point of a key's path, and creates it if there is room, otherwise the point of
// the path "". A minute has at most maxPoints points of paths, plus one for each key.
func (m *sampleMinute) path(k *sampleKey, path string, maxPoints int) *offences.PathPoint {
	for i := range k.paths {
		if k.paths[i].Path == path {
			return &k.paths[i]
		}
	}
	b := &m.paths
	_, known := b.texts[path]
	switch {
	case path == "":
	case len(path) > offences.MaxSamplePath, len(k.paths) >= maxKeyPaths, b.points >= maxPoints, !known && b.bytes+len(path) > maxPathBytes:
		return m.path(k, "", maxPoints)
	default:
		path = b.keep(path)
		b.points++
	}
	k.paths = append(k.paths, offences.PathPoint{Path: path})
	return &k.paths[len(k.paths)-1]
}

// keep returns a copy of a path that may be stored, the same for all keys.
func (b *pathBudget) keep(path string) string {
	kept, known := b.texts[path]
	if !known {
		if b.texts == nil {
			b.texts = map[string]string{}
		}
		kept = strings.Clone(path)
		b.texts[kept] = kept
		b.bytes += len(kept)
	}
	return kept
}

// addReport records the path of a request whose outcome was reported.
func (t *trafficSampler) addReport(at int64, hash uint64, key, path string) {
	start := offences.MinuteOf(at)
	if t.leavesOut(start, hash) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m, k := t.sampled(start, hash, key)
	if k == nil {
		return
	}
	m.path(k, path, t.maxPoints).Failed++
	if len(m.keys) > t.maxPoints { // a key that is reported but never checked has no points
		m.thin(t.maxPoints)
		t.newest.Store(&sampleLevel{start, m.level})
	}
}

// recountPaths forgets the paths of keys that are no longer sampled.
func (m *sampleMinute) recountPaths() {
	m.paths = pathBudget{}
	for _, k := range m.keys {
		for i := range k.paths {
			if path := k.paths[i].Path; path != "" {
				k.paths[i].Path = m.paths.keep(path)
				m.paths.points++
			}
		}
	}
}

// encodePaths returns the paths of the minute, nil for none.
func (m *sampleMinute) encodePaths() []byte {
	var all []offences.PathPoint
	for key, k := range m.keys {
		for _, p := range k.paths {
			p.Key = key
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return offences.AppendPaths(nil, all)
}
