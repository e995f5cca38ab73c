package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-dev/stint/internal/challenge"
)

// newChallenges returns the counters of challenges, each at 0: a rise from the first on is seen.
func newChallenges() *prometheus.CounterVec {
	challenges := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stint_challenges_total",
		Help: "Challenges that this node showed to browsers, and took as solved or failed; what was shown and not solved was abandoned. A solution that is sent again counts once in a minute, and once at all if a policy counts challenge_solved.",
	}, []string{"outcome"})
	for _, outcome := range []challenge.Outcome{challenge.Shown, challenge.Solved, challenge.Failed} {
		challenges.WithLabelValues(nameOf(outcome))
	}
	return challenges
}

func nameOf(outcome challenge.Outcome) string {
	return strings.TrimPrefix(string(outcome), "challenge_")
}

// CountChallenge counts what came of a challenge.
func (m *Metrics) CountChallenge(outcome challenge.Outcome) {
	m.challenges.WithLabelValues(nameOf(outcome)).Inc()
}
