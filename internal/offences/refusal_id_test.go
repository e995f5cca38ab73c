package offences

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var at = time.Date(2026, 11, 20, 14, 3, 14, 600e6, time.UTC)

func TestRefusalIDIsTheSameOnEveryNodeForOneMinute(t *testing.T) {
	a, b := NewRefusalIDMaker([]byte("secret")), NewRefusalIDMaker([]byte("secret"))
	first := a.ID(7, "ip:203.0.113.7", at)
	if again := b.ID(7, "ip:203.0.113.7", at.Add(40*time.Second)); again != first {
		t.Errorf("%s and %s differ within a minute", first, again)
	}
	for name, other := range map[string]RefusalID{
		"the next minute": a.ID(7, "ip:203.0.113.7", at.Add(time.Minute)),
		"another key":     a.ID(7, "ip:203.0.113.8", at),
		"another policy":  a.ID(8, "ip:203.0.113.7", at),
		"another secret":  NewRefusalIDMaker([]byte("other")).ID(7, "ip:203.0.113.7", at),
	} {
		if other == first {
			t.Errorf("the id of %s is the same", name)
		}
	}
}

func TestRefusalIDRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minute := time.Unix(60*rapid.Int64Range(0, 1<<47/60000).Draw(t, "minute"), 0).UTC()
		id := RefusalID{Minute: minute, MAC: [MACSize]byte(rapid.SliceOfN(rapid.Byte(), MACSize, MACSize).Draw(t, "mac"))}
		for _, text := range []string{id.String(), strings.ToLower(id.String())} {
			got, err := ParseRefusalID(text)
			if err != nil || got != id {
				t.Fatalf("ParseRefusalID(%s) = %v, %v; want %v", text, got, err, id)
			}
		}
	})
}

func TestParseRefusalIDRejectsOtherText(t *testing.T) {
	good := NewRefusalIDMaker(nil).ID(1, "k", at).String()
	for name, text := range map[string]string{
		"empty":                             "",
		"too short":                         good[:25],
		"too long":                          good + "0",
		"past the largest time":             "8" + good[1:],
		"with an invalid letter":            good[:25] + "U",
		"of a time that is no whole minute": "00000000010000000000000000",
	} {
		if _, err := ParseRefusalID(text); !errors.Is(err, ErrBadRefusalID) {
			t.Errorf("ParseRefusalID of text that is %s: got %v, want ErrBadRefusalID", name, err)
		}
	}
}

func TestRefusalIDAcceptsLettersMistakenForDigits(t *testing.T) {
	id := RefusalID{Minute: at.Truncate(time.Minute), MAC: [MACSize]byte{0, 0x42, 0x10, 0x84}}
	mistaken := strings.NewReplacer("0", "O", "1", "l").Replace(id.String())
	if got, err := ParseRefusalID(mistaken); err != nil || got != id {
		t.Errorf("ParseRefusalID(%s) = %v, %v; want %v", mistaken, got, err, id)
	}
}

// plainMAC is the plain version of RefusalIDMaker.MAC.
func plainMAC(secret []byte, policy int64, key string) [MACSize]byte {
	h := hmac.New(sha256.New, secret)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(policy)))
	h.Write([]byte(key))
	return [MACSize]byte(h.Sum(nil)[:MACSize])
}

func TestMACIsTheHMACOfPolicyAndKey(t *testing.T) {
	secret := []byte("secret")
	m := NewRefusalIDMaker(secret)
	rapid.Check(t, func(t *rapid.T) {
		policy, key := rapid.Int64().Draw(t, "policy"), rapid.String().Draw(t, "key")
		if got, want := m.MAC(policy, key), plainMAC(secret, policy, key); got != want {
			t.Fatalf("got %x, want %x", got, want)
		}
	})
}

func BenchmarkMAC(b *testing.B) {
	secret := make([]byte, 32)
	b.Run("fast", func(b *testing.B) {
		m := NewRefusalIDMaker(secret)
		for range b.N {
			m.MAC(1, "ip:203.0.113.7")
		}
	})
	b.Run("plain", func(b *testing.B) {
		for range b.N {
			plainMAC(secret, 1, "ip:203.0.113.7")
		}
	})
}

func BenchmarkID(b *testing.B) {
	m := NewRefusalIDMaker(make([]byte, 32))
	b.ReportAllocs()
	for b.Loop() {
		_ = m.ID(1, "ip:203.0.113.7", at).String()
	}
}
