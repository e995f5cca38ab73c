package challenge

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"sync"

	"github.com/go-json-experiment/json"
)

// ALTCHA's protocol, version 2: the widget looks for the counter whose SHA-256 behind a nonce begins with a
// prefix. The counter follows from the challenge and the secret, so that nothing is stored.

//go:embed altcha/altcha-3.2.2.umd.min.js
var altchaScript []byte

//go:embed altcha/altcha.LICENSE.txt
var altchaLicense []byte

// altchaFile names the widget. It changes with its version: browsers cache it permanently.
const altchaFile = "altcha-3.2.2.js"

// altchaURL is where pages load the widget. It has no path of its own, so that every gateway and every
// program that hands the paths of challenges on hands it on too.
const altchaURL = Path + "?file=" + altchaFile

// altchaParameters are the parameters of a challenge. Their order is that in which they are signed.
type altchaParameters struct {
	Algorithm string `json:"algorithm"`
	Cost      int    `json:"cost"`
	ExpiresAt int64  `json:"expiresAt"` // Unix seconds
	KeyLength int    `json:"keyLength"`
	KeyPrefix string `json:"keyPrefix"`
	Nonce     string `json:"nonce"`
	Salt      string `json:"salt"`
}

type altchaChallenge struct {
	Parameters altchaParameters `json:"parameters"`
	Signature  string           `json:"signature"`
}

// altchaKeyPrefix is how many bytes of the hash are asked for: enough that no other counter has them.
const altchaKeyPrefix = 16

// altcha returns the challenge for the widget, and the counter that solves it.
func (c *challenge) altcha(secret []byte) (a altchaChallenge, counter uint32) {
	mac := hmac.New(sha256.New, keyOf(secret, kindAltcha, c.issued))
	mac.Write(c.nonce[:])
	counter = binary.BigEndian.Uint32(mac.Sum(nil)) >> (32 - c.difficulty)
	key := c.altchaKey(counter)
	a.Parameters = altchaParameters{
		Algorithm: "SHA-256", Cost: 1, ExpiresAt: c.issued.Add(lifetime).Unix(), KeyLength: len(key), KeyPrefix: hex.EncodeToString(key[:altchaKeyPrefix]), Nonce: hex.EncodeToString(c.nonce[:]),
	}
	text, err := json.Marshal(a.Parameters)
	if err != nil {
		panic(err) // plain strings and numbers
	}
	mac.Reset()
	mac.Write(text)
	a.Signature = hex.EncodeToString(mac.Sum(nil))
	return a, counter
}

func (c *challenge) altchaKey(counter uint32) [sha256.Size]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint32(c.nonce[:len(c.nonce):len(c.nonce)], counter))
}

// isAltchaSolvedBy reports whether a payload of the widget solves c. It must be for c itself, which gives
// the same pass each time, so that sending it again gives nothing new.
func (c *challenge) isAltchaSolvedBy(secret []byte, payload string) bool {
	raw, err := base64.StdEncoding.DecodeString(payload)
	if err != nil {
		return false
	}
	var got struct {
		Challenge altchaChallenge `json:"challenge"`
		Solution  struct {
			Counter    float64 `json:"counter"`
			DerivedKey string  `json:"derivedKey"`
		} `json:"solution"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return false
	}
	want, counter := c.altcha(secret)
	key := c.altchaKey(counter)
	return got.Challenge == want && got.Solution.Counter == float64(counter) && got.Solution.DerivedKey == hex.EncodeToString(key[:])
}

// altchaFiles returns the widget with its licence, as it is and compressed.
var altchaFiles = sync.OnceValues(func() (plain, compressed []byte) {
	plain = append(append([]byte("/*! ALTCHA 3.2.2\n\n"), bytes.TrimSpace(altchaLicense)...), "\n*/\n"...)
	plain = append(plain, altchaScript...)
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is valid
	}
	_, _ = w.Write(plain) // a buffer takes everything
	_ = w.Close()
	return plain, b.Bytes()
})

// altchaWidget answers with the widget's script.
func altchaWidget(v *Visit) *Answer {
	plain, compressed := altchaFiles()
	a := &Answer{Status: http.StatusOK, Body: plain, ContentType: "text/javascript; charset=utf-8", Headers: [][2]string{
		{"Cache-Control", "public, max-age=31536000, immutable"}, {"Vary", "Accept-Encoding"}, {"X-Robots-Tag", "noindex"},
	}}
	if v.AcceptsGzip {
		a.Body, a.Headers = compressed, append(a.Headers, [2]string{"Content-Encoding", "gzip"})
	}
	return a
}
