package api

import (
	"github.com/stint-dev/stint/internal/api/checkjson"
	"github.com/stint-dev/stint/internal/gate"
)

// checkScratch is the working memory of the handler of a check, which is used
// again for later checks.
type checkScratch struct {
	inputs    []checkjson.Check
	problems  []error
	checks    []gate.Check
	decisions []gate.Decision
	errs      []error
	buffer    []byte
	header    [256]byte // for the value of one header
}

// maxBuffer is the largest answer whose buffer is kept for later checks.
const maxBuffer = 1 << 20

func (s *API) takeScratch() *checkScratch { return s.scratch.Get().(*checkScratch) }

// putScratch clears k and keeps its memory, unless it is large.
func (s *API) putScratch(k *checkScratch) {
	if cap(k.buffer) > maxBuffer {
		k.buffer = nil
	}
	clear(k.inputs)
	clear(k.problems)
	clear(k.checks)
	clear(k.decisions)
	clear(k.errs)
	k.inputs, k.problems, k.checks = k.inputs[:0], k.problems[:0], k.checks[:0]
	k.decisions, k.errs, k.buffer = k.decisions[:0], k.errs[:0], k.buffer[:0]
	s.scratch.Put(k)
}
