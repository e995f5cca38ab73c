package offences

import (
	"testing"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/keytest"
)

// What an edge of a content delivery network does is done by thousands of people.
func TestEdgesAreNeverBlocked(t *testing.T) {
	l := &EscalationPolicy{}
	for key, want := range map[string]bool{"ip:172.71.10.20": true, "ip:2606:4700:10::/64": true, "ip:198.51.100.1": false, "account:172.71.10.20": false} {
		if got := l.NeverBlocks(key); got != want {
			t.Errorf("%s: got %v, want %v", key, got, want)
		}
	}
}

// Everybody behind the address of a carrier may share a pass.
func TestPassesAreBlockedByTheirPoliciesOnly(t *testing.T) {
	for text, want := range map[string]bool{"*": true, "ip:*": true, "pass:*": false, "pass:a": false} {
		p := &rules.Policy{ID: 1, Mode: rules.Enforce, Match: []keys.Pattern{keytest.Pattern(t, text)}, Escalation: &rules.Escalation{}}
		l := EscalationsOf([]*rules.Policy{p})[1]
		if got := l.NeverBlocks("pass:a"); got != want {
			t.Errorf("a pass under the policy of %s: got %v, want %v", text, got, want)
		}
	}
}
