package offences

import (
	"encoding/binary"
	"errors"
)

// MaxSamplePath is the length of the longest path that the traffic sample keeps, in bytes.
const MaxSamplePath = 256

// PathPoint is the requests of one key for one path in one minute.
type PathPoint struct {
	Minute int64 // Unix milliseconds of its beginning
	Key    string
	// Path is normalized like paths in package conditions. Attackers can choose it. It is "" for
	// paths that were left out because they were too long, or too many for the key or the minute.
	Path string
	// Allowed and Refused are numbers of checks.
	Allowed, Refused int
	// Failed is the number of reported outcomes. Their requests may also be among the checks.
	Failed int
}

// AppendPaths appends the paths of one minute. It writes a list of the different paths, each
// preceded by its length. For each key it then writes the key, the number of its points, and for
// each point the index of its path in the list, counted from 1 with 0 for none, and the three
// counts. Points of the same key must be adjacent; their Minute is not written.
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

// DecodePaths returns the paths of a chunk, grouped by key; none if the node did not record
// paths.
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

// count reads a number that is plausible as a count of one minute.
func (r *varints) count() int {
	n := r.unsigned()
	if n > 1<<40 {
		r.bad = true
		return 0
	}
	return int(n)
}
