package keys_test

import (
	"net/netip"
	"testing"

	"github.com/stint-dev/stint/internal/keys"
)

func TestIsInternal(t *testing.T) {
	for text, want := range map[string]bool{
		"10.1.2.3": true, "172.16.0.1": true, "192.168.0.1": true, "127.0.0.1": true, "169.254.1.1": true, "100.64.0.0": true, "100.127.255.255": true,
		"fd00::1": true, "fe80::1": true, "::1": true, "::ffff:100.64.0.1": true,
		"100.63.255.255": false, "100.128.0.0": false, "172.32.0.1": false, "203.0.113.1": false, "2001:db8::1": false, "::ffff:203.0.113.1": false,
	} {
		if got := keys.IsInternal(netip.MustParseAddr(text)); got != want {
			t.Errorf("IsInternal(%s) = %t, want %t", text, got, want)
		}
	}
}
