package offences

import (
	"encoding/binary"
	"errors"
)

// MaxSamplePath is the length, in bytes, of the longest path that the traffic sample
// keeps.
const MaxSamplePath = 256

// PathPoint is what one key asked for by one path in one minute.
type PathPoint struct {
	Minute int64 // Unix milliseconds of its beginning
	Key    string
	// Path is in the spelling of package conditions, and an attacker's to choose. It is ""
	// for the paths that were left out: too long, or too many of the key or of the minute.
	Path string
	// Allowed and Refused are checks.
	Allowed, Refused int
	// Failed is how many outcomes were reported. Their requests may be among the checks.
	Failed int
}

// AppendPaths appends the paths of one minute: a list of the different ones, each behind
// its length, then of each key its name, the number of its points, and of each point the
// place of the path in the list, counted from 1 with 0 for none, and the three counts.
// Points of one key must follow each other; their Minute is not written.
func AppendPaths(to []byte, points []PathPoint) []byte {
	places := map[string]uint64{"": 0}
	var paths []string
	for _, p := range points {
		if _, known := places[p.Path]; !known {
			paths = append(paths, p.Path)
			places[p.Path] = uint64(len(paths))
		}
	}
	to = binary.AppendUvarint(to, uint64(len(paths)))
	for _, path := range paths {
		to = binary.AppendUvarint(to, uint64(len(path)))
		to = append(to, path...)
	}
	for len(points) > 0 {
		key, n := points[0].Key, 1
		for n < len(points) && points[n].Key == key {
			n++
		}
		to = binary.AppendUvarint(to, uint64(len(key)))
		to = append(to, key...)
		to = binary.AppendUvarint(to, uint64(n))
		for _, p := range points[:n] {
			to = binary.AppendUvarint(to, places[p.Path])
			to = binary.AppendUvarint(to, uint64(p.Allowed)) //nolint:gosec // counts
			to = binary.AppendUvarint(to, uint64(p.Refused)) //nolint:gosec // counts
			to = binary.AppendUvarint(to, uint64(p.Failed))  //nolint:gosec // counts
		}
		points = points[n:]
	}
	return to
}

var errBadPaths = errors.New("the paths of a chunk of the traffic sample cannot be read")

// DecodePaths returns the paths of a chunk, grouped by key; none for a chunk of a node that
// records none.
func (c *SampleChunk) DecodePaths() ([]PathPoint, error) {
	if len(c.Paths) == 0 {
		return nil, nil
	}
	r := varints{rest: c.Paths}
	paths := []string{""}
	for n := r.unsigned(); n > 0 && !r.bad; n-- {
		paths = append(paths, r.text())
	}
	var points []PathPoint
	for len(r.rest) > 0 && !r.bad {
		key := r.text()
		for n := r.unsigned(); n > 0 && !r.bad; n-- {
			place := r.unsigned()
			p := PathPoint{Minute: c.Minute, Key: key, Allowed: r.count(), Refused: r.count(), Failed: r.count()}
			if r.bad || place >= uint64(len(paths)) {
				return nil, errBadPaths
			}
			p.Path = paths[place]
			points = append(points, p)
		}
	}
	if r.bad {
		return nil, errBadPaths
	}
	return points, nil
}

// count reads a number that a node can have counted in a minute.
func (r *varints) count() int {
	n := r.unsigned()
	if n > 1<<40 {
		r.bad = true
		return 0
	}
	return int(n)
}
