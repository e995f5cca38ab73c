package offences

import (
	"math"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/rules"
)

func TestLevelDoesNotDecayWhileItsBlockIsPermanent(t *testing.T) {
	policy := &EscalationPolicy{Escalation: rules.Escalation{DecayAfter: 24 * time.Hour}}
	s := &State{Level: 2, Ended: math.MaxInt64, Last: 1000}
	s.Offend(policy, 2000, 2000, 2000)
	if at := s.DecaysAt(policy); at != 0 || s.Level != 2 {
		t.Errorf("level %d decays at %d", s.Level, at)
	}
	s.Ended = 5000
	if at := s.DecaysAt(policy); at != 5000+policy.DecayAfter.Milliseconds() {
		t.Errorf("decays at %d", at)
	}
}
