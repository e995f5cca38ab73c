package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-dev/stint/internal/identity"
)

// newLogins returns the counters of logins, each at 0: a rise from the first login on is seen.
func newLogins() *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stint_logins_total",
		Help: "Attempts to log in, and to confirm a change of one's own account, by method (password, totp, recovery_code, openid, token) and " +
			"outcome: ok, pending for a right password whose code is awaited, refused, throttled for an attempt above the guessing limits, failed for an error of this node. " +
			"Right tokens, which come with every request, are not counted.",
	}, []string{"method", "outcome"})
	for method, outcomes := range identity.LoginOutcomes() {
		for _, outcome := range outcomes {
			v.WithLabelValues(string(method), string(outcome))
		}
	}
	return v
}

// CountLogin counts an attempt to log in.
func (m *Metrics) CountLogin(by identity.LoginMethod, outcome identity.LoginOutcome) {
	m.logins.WithLabelValues(string(by), string(outcome)).Inc()
}
