package identity

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
)

func TestCheckChosenTokenRequires128Bits(t *testing.T) {
	for _, bad := range []string{
		"", "1234", "hunter2hunter2hunter2", "0123456789abcdef", "correct-horse-battery-staple", "a-token-for-tests-only",
		strings.Repeat("a", 64), strings.Repeat("ab", 40), strings.Repeat("0123456789abcdef", 8), "bench-bench-bench-bench",
		"Sommer2026!Sommer2026!Sommer2026!", "stint_admin_0123456789abcdef", "stint_admin_stint_admin_stint_admin_",
		hex.EncodeToString(make([]byte, 32)), "9f5c1b7d2830694ef1a5c3d7e2b4a8", // 15 bytes
	} {
		if err := CheckChosenToken(bad); err == nil || !strings.Contains(err.Error(), "openssl rand") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	for _, bad := range []string{"9f5c1b7d2830694ef1a5c3d7e2b4a8 9f5c1b7d2830694ef1a5c3d7e2b4a", "9f5c1b7d2830694ef1a5c3d7e2b4a8é9f5c1b7d2830694"} {
		if err := CheckChosenToken(bad); err == nil || !strings.Contains(err.Error(), "ASCII") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	for range 1000 {
		raw := make([]byte, 32)
		rand.Read(raw)
		for _, good := range []string{
			hex.EncodeToString(raw), hex.EncodeToString(raw[:16]), strings.ToUpper(hex.EncodeToString(raw[:16])),
			base64.StdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
			rand.Text() + "2", NewSecret([]Access{Admin}).Text,
		} {
			if err := CheckChosenToken(good); err != nil {
				t.Fatalf("%q: %v", good, err)
			}
		}
	}
}
