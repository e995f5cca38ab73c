package offences

import (
	"github.com/axiomhq/hyperloglog"
)

// distinctPrecision is the precision of sketches: 2^12 registers of one byte.
const distinctPrecision = 12

// DistinctError is the relative standard error of a number of distinct keys: 1.04/sqrt(2^12). Two
// in three estimates are closer than this.
const DistinctError = 0.01625

func NewSketch() *hyperloglog.Sketch {
	s, err := hyperloglog.NewSketch(distinctPrecision, false)
	if err != nil { // only for a precision that is out of range
		panic(err)
	}
	return s
}

// MergeDistinct returns the union of two sketches; either may be nil. Data that is not a sketch counts
// as no key, so that one bad row does not stop the adding up of all others.
func MergeDistinct(one, other []byte) ([]byte, error) {
	if len(one) == 0 {
		return other, nil
	}
	merged := readSketch(one)
	if err := merged.Merge(readSketch(other)); err != nil {
		return nil, err
	}
	return merged.MarshalBinary()
}

func readSketch(data []byte) *hyperloglog.Sketch {
	s := NewSketch()
	if len(data) > 0 && s.UnmarshalBinary(data) != nil {
		return NewSketch()
	}
	return s
}

// CountDistinct returns the estimated number of keys in the union of sketches.
func CountDistinct(sketches [][]byte) (int64, error) {
	all := NewSketch()
	for _, data := range sketches {
		if err := all.Merge(readSketch(data)); err != nil {
			return 0, err
		}
	}
	return int64(all.Estimate()), nil
}
