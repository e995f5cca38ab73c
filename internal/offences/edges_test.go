package offences

import "testing"

// What an edge of a content delivery network does is done by thousands of people.
func TestEdgesAreNeverBlocked(t *testing.T) {
	l := &EscalationPolicy{}
	for key, want := range map[string]bool{"ip:172.71.10.20": true, "ip:2606:4700:10::/64": true, "ip:198.51.100.1": false, "account:172.71.10.20": false} {
		if got := l.NeverBlocks(key); got != want {
			t.Errorf("%s: got %v, want %v", key, got, want)
		}
	}
}
