package offences

import (
	"math"
	"testing"
)

func TestSafetyLimitCountsOneNetworkOnce(t *testing.T) {
	for key, want := range map[string]string{
		"ip:203.0.113.7":         "ip:203.0.113.0/24",
		"ip:2001:db8:1:2::/64":   "ip:2001:db8:1::/48",
		"ip:2001:db8:1:2::7/128": "ip:2001:db8:1::/48",
		"ip:2001:db8::/32":       "ip:2001:db8::/32", // from an earlier IPv6 setting
		"ip:10.0.0.7":            "ip:10.0.0.7",
		"ip:192.168.1.7":         "ip:192.168.1.7",
		"ip:100.64.1.7":          "ip:100.64.1.7",
		"ip:127.0.0.1":           "ip:127.0.0.1",
		"ip:fd00:1:2:3::/64":     "ip:fd00:1:2:3::/64",
		"token:abc":              "token:abc",
		"login:203.0.113.7":      "ip:203.0.113.0/24",
		"login:2001:DB8:1::7":    "ip:2001:db8:1::/48",
		"login:2001:db8:1::/64":  "ip:2001:db8:1::/48",
		"login:::ffff:192.0.2.1": "ip:192.0.2.0/24",
		"login:10.0.0.7":         "login:10.0.0.7",
		"login:dead.beef":        "login:dead.beef",
		"login:1.2.3":            "login:1.2.3",
		"account:alice:1":        "account:alice:1",
		"net:203.0.113.0/24":     "net:203.0.113.0/24",
	} {
		k, err := ParseKey(key)
		if err != nil {
			t.Fatal(err)
		}
		if got := SafetyUnit(k); got != want {
			t.Errorf("SafetyUnit(%s) = %s, want %s", key, got, want)
		}
	}
}

func TestSafetyLimitIsARatioAndAtLeastTen(t *testing.T) {
	for _, c := range []struct {
		ratio float64
		seen  int64
		want  int64
	}{
		{DefaultSafetyLimit, 0, MinSafetyLimit}, {DefaultSafetyLimit, 52, MinSafetyLimit}, {DefaultSafetyLimit, 1000, 190}, {0.01, 10_000, 95}, {1, 0, math.MaxInt64},
	} {
		if got := AllowedBlocks(c.ratio, c.seen); got != c.want {
			t.Errorf("AllowedBlocks(%v, %d) = %d, want %d", c.ratio, c.seen, got, c.want)
		}
	}
}
