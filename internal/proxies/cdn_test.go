package proxies

import (
	"net/netip"
	"testing"
)

func TestEdgesOfContentDeliveryNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"104.16.0.0": "Cloudflare", "104.27.255.255": "Cloudflare", "104.28.0.0": "", "172.71.1.2": "Cloudflare", "2606:4700:10::1": "Cloudflare", "::ffff:162.158.3.4": "Cloudflare",
		"151.101.1.2": "Fastly", "2a04:4e42::1": "Fastly", "130.176.7.8": "CloudFront", "0.0.0.0": "", "3.29.57.63": "CloudFront", "3.29.57.64": "", "255.255.255.255": "", "::1": "",
		"192.0.2.1": "", "2a06:98c7::1": "Cloudflare", "2a06:98c8::1": "",
	} {
		if got := CDN(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestEdgesAreDisjointNetworks(t *testing.T) {
	if _, err := parseEdges("A 10.0.0.0/8\nB 10.1.0.0/16\n"); err == nil {
		t.Error("a network within another was accepted")
	}
	if _, err := parseEdges("A 10.0.0.1/8\n"); err == nil {
		t.Error("a network with host bits was accepted")
	}
}
