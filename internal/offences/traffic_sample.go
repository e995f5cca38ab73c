package offences

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/stint-dev/stint/internal/keyhash"
)

// The traffic sample contains all checks of some keys. At level n these are the keys whose hashes
// have zeros in the lowest n bits, which is about one key in 2^n.

// SamplePoint is Count checks of one key within the same second.
type SamplePoint struct {
	At    int64 // Unix milliseconds
	Key   string
	Cost  int
	Count int // above 1 only if the key had more points in the minute than are recorded separately
}

// SampleChunk is the part of the traffic sample that one node recorded in one
// minute.
type SampleChunk struct {
	Minute int64 // Unix milliseconds of its beginning
	Node   string
	Level  int
	Points []byte // in the format of AppendSample
	Paths  []byte // of the same keys, in the format of AppendPaths; empty for none
	// Refused has the refused checks of the same keys, in the format of AppendRefused. It is empty
	// for none, and from a node of the previous release.
	Refused []byte
}

// AppendSample appends the points of one key in the minute that begins at start: the length of
// the key and the key, the number of points, and for each point the milliseconds since the
// previous point, the cost and the count.
func AppendSample(to []byte, start int64, key string, points []SamplePoint) []byte {
	to = binary.AppendUvarint(to, uint64(len(key)))
	to = append(to, key...)
	to = binary.AppendUvarint(to, uint64(len(points)))
	before := start
	for _, p := range points {
		to = binary.AppendVarint(to, p.At-before)
		to = binary.AppendUvarint(to, uint64(p.Cost))
		to = binary.AppendUvarint(to, uint64(p.Count))
		before = p.At
	}
	return to
}

var errBadSample = errors.New("a chunk of the traffic sample cannot be read")

// Decode returns the points of a chunk, grouped by key. The points of each key are in order of
// time.
func (c *SampleChunk) Decode() ([]SamplePoint, error) {
	var points []SamplePoint
	r := varints{rest: c.Points}
	for len(r.rest) > 0 && !r.bad {
		key := r.text()
		at := c.Minute
		for range r.unsigned() {
			at += r.signed()
			points = append(points, SamplePoint{At: at, Key: key, Cost: int(r.unsigned()), Count: int(r.unsigned())})
			if r.bad {
				return nil, errBadSample
			}
		}
	}
	if r.bad {
		return nil, errBadSample
	}
	return points, nil
}

// AppendRefused appends how many of the sampled checks of a key were refused.
func AppendRefused(to []byte, key string, count int) []byte {
	to = binary.AppendUvarint(to, uint64(len(key)))
	to = append(to, key...)
	return binary.AppendUvarint(to, uint64(count))
}

// DecodeRefused returns how many checks of each key of a chunk were refused.
func (c *SampleChunk) DecodeRefused() (map[string]int64, error) {
	refused := map[string]int64{}
	r := varints{rest: c.Refused}
	for len(r.rest) > 0 && !r.bad {
		refused[r.text()] += int64(r.unsigned())
	}
	if r.bad {
		return nil, errBadSample
	}
	return refused, nil
}

// Ratio returns the ratio of keys that are sampled at the level of the chunk, 0 to 1.
func (c *SampleChunk) Ratio() float64 { return math.Ldexp(1, -c.Level) }

// varints decodes the result of AppendSample, AppendRefused and AppendPaths. bad stays set after the first
// failure.
type varints struct {
	rest []byte
	bad  bool
}

func (r *varints) unsigned() uint64 {
	v, n := binary.Uvarint(r.rest)
	return advance(r, v, n)
}

func (r *varints) signed() int64 {
	v, n := binary.Varint(r.rest)
	return advance(r, v, n)
}

func advance[T uint64 | int64](r *varints, v T, n int) T {
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *varints) text() string {
	length := r.unsigned()
	if r.bad || length > uint64(len(r.rest)) {
		r.bad = true
		return ""
	}
	text := string(r.rest[:length])
	r.rest = r.rest[length:]
	return text
}

// Sampled reports whether a key with a given hash is in the sample at a level.
func Sampled(hash uint64, level int) bool { return hash&(1<<level-1) == 0 }

// SamplingHash returns the hash with which all nodes that share a secret select the keys of the
// traffic sample and count distinct keys.
func SamplingHash(secret []byte) keyhash.Hash { return keyhash.New(secret, "stint: samples of keys") }
