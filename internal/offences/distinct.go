package offences

import (
	"github.com/axiomhq/hyperloglog"
)

// distinctPrecision is the sketches': 2^12 registers of a byte.
const distinctPrecision = 12

// DistinctError is the standard error of a number of distinct keys, as a
// share: 1.04/sqrt(2^12). Two in three estimates are nearer than this.
const DistinctError = 0.01625

func NewSketch() *hyperloglog.Sketch {
	s, err := hyperloglog.NewSketch(distinctPrecision, false)
	if err != nil { // only for a precision out of range
		panic(err)
	}
	return s
}

// MergeDistinct returns a sketch that holds all of both; either may be nil.
// Data that is no sketch is an error.
func MergeDistinct(one, other []byte) ([]byte, error) {
	if len(one) == 0 {
		return other, nil
	}
	merged, err := readSketch(one)
	if err != nil {
		return nil, err
	}
	more, err := readSketch(other)
	if err != nil {
		return nil, err
	}
	if err := merged.Merge(more); err != nil {
		return nil, err
	}
	return merged.MarshalBinary()
}

func readSketch(data []byte) (*hyperloglog.Sketch, error) {
	s := NewSketch()
	if len(data) == 0 {
		return s, nil
	}
	return s, s.UnmarshalBinary(data)
}

// CountDistinct returns the estimated number of keys that the sketches saw
// together.
func CountDistinct(sketches [][]byte) (int64, error) {
	all := NewSketch()
	for _, data := range sketches {
		s, err := readSketch(data)
		if err != nil {
			return 0, err
		}
		if err := all.Merge(s); err != nil {
			return 0, err
		}
	}
	return int64(all.Estimate()), nil
}
