package bots

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/supervise"
)

// keysPath is where an operator publishes its keys, below the origin that its bots name.
const keysPath = "/.well-known/http-message-signatures-directory"

const (
	maxKeysBytes = 64 << 10
	maxKeys      = 100
	// fetchAgain is how long after a fetch the same keys are fetched again for a signature by a key that is
	// not among them, and refreshKeys how old the keys of bots that come may get.
	fetchAgain  = 5 * time.Minute
	refreshKeys = 24 * time.Hour
	// KeysBelievedFor is how long keys count that cannot be fetched again: an operator that has withdrawn a
	// key, or lost its name, must not be believed for ever.
	KeysBelievedFor = 7 * 24 * time.Hour
)

// testKeys are the thumbprints of the keys that RFC 9421 and the drafts publish with their private halves:
// anybody signs by them.
var testKeys = []string{"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U", "oD0HwocPBSfpNy5W3bpJeyFGY_IQ_YpqxSjQ3Yd-CLA"}

// signingKeys are the keys of an operator, by their thumbprints (RFC 7638).
type signingKeys map[string]signingKey

type signingKey struct {
	public ed25519.PublicKey
	// from and until are when it counts, in Unix seconds, 0 for always.
	from, until float64
}

func (k signingKey) isCurrent(now time.Time) bool {
	at := float64(now.Unix())
	return at >= k.from && (k.until == 0 || at < k.until)
}

func (all signingKeys) equal(others signingKeys) bool {
	return maps.EqualFunc(all, others, func(k, other signingKey) bool {
		return bytes.Equal(k.public, other.public) && k.from == other.from && k.until == other.until
	})
}

// publishedKey is a key as operators publish it, a JSON Web Key.
type publishedKey struct {
	Type  string  `json:"kty"`
	Curve string  `json:"crv"`
	X     string  `json:"x"`
	ID    string  `json:"kid"`
	From  float64 `json:"nbf,omitempty"`
	Until float64 `json:"exp,omitempty"`
}

// readKeys reads a set of keys whole. Those that are not for Ed25519 are left out, and so are the test
// keys.
func readKeys(r io.Reader) (signingKeys, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxKeysBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeysBytes {
		return nil, fmt.Errorf("it is longer than %d bytes", maxKeysBytes)
	}
	var set struct {
		Keys *[]publishedKey `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil || set.Keys == nil {
		return nil, errors.New("it is no JSON object with keys")
	}
	if len(*set.Keys) > maxKeys {
		return nil, fmt.Errorf("it has %d keys; at most %d are expected", len(*set.Keys), maxKeys)
	}
	all := signingKeys{}
	for _, k := range *set.Keys {
		public, err := base64.RawURLEncoding.DecodeString(k.X)
		if id := thumbprint(public); k.Type == "OKP" && k.Curve == "Ed25519" && err == nil && len(public) == ed25519.PublicKeySize && !slices.Contains(testKeys, id) {
			all[id] = signingKey{public, inSeconds(k.From), inSeconds(k.Until)}
		}
	}
	return all, nil
}

// inSeconds returns a time that is in seconds, as it should be, or in milliseconds.
func inSeconds(at float64) float64 {
	if at > 1e11 {
		return at / 1000
	}
	return at
}

// thumbprint returns the name by which signatures say an Ed25519 key: RFC 8037, appendix A.3.
func thumbprint(public []byte) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + base64.RawURLEncoding.EncodeToString(public) + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// text returns the keys in the form in which operators publish them.
func (all signingKeys) text() ([]byte, error) {
	set := []publishedKey{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		k := all[id]
		set = append(set, publishedKey{"OKP", "Ed25519", base64.RawURLEncoding.EncodeToString(k.public), id, k.from, k.until})
	}
	return json.Marshal(map[string]any{"keys": set})
}

// originOf returns the origin of the address of a directory of keys, which names nothing else.
func originOf(text string) (origin string, is bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" && u.Path != "/" || strings.ContainsAny(text, "?#") {
		return "", false
	}
	return "https://" + strings.TrimSuffix(strings.ToLower(u.Host), ":443"), true
}

// signers are the bots that sign, by the origin of their keys. A key is that of the bots whose keys are
// there, and of no other bot of their operator, whatever agent the request names.
var signers = func() map[string][]*Agent {
	all := map[string][]*Agent{}
	for _, a := range known {
		if a.Keys != "" {
			all[a.Keys] = append(all[a.Keys], a)
		}
	}
	return all
}()

// fetches are the lists of keys that Run fetches.
type fetches struct {
	mu      sync.Mutex
	tried   map[string]time.Time // when a list was last queued
	waiting chan string          // has room for all lists
}

// isIgnored reports whether the keys are too old to verify anybody.
func (l *list) isIgnored(now time.Time) bool {
	return len(l.keys) > 0 && now.Sub(l.Fetched) >= KeysBelievedFor
}

// keysOf returns the keys that an origin publishes, none if they are too old to count, and has them fetched
// if they are old or isMissing reports that one of them is wanted that is not among them.
func (l *Lists) keysOf(origin string, isMissing func(signingKeys) bool) (all signingKeys, isIgnored bool) {
	if l == nil {
		return nil, false
	}
	one := (*l.current.Load())[origin+keysPath]
	if one == nil {
		return nil, false
	}
	now := l.now()
	if now.Sub(one.Fetched) < refreshKeys && !isMissing(one.keys) {
		return one.keys, false
	}
	l.wantAgain(one.URL, now)
	if one.isIgnored(now) {
		return nil, true
	}
	return one.keys, false
}

// wantAgain has a list fetched, unless that was tried lately.
func (l *Lists) wantAgain(url string, now time.Time) {
	f := &l.fetches
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.tried[url]) >= fetchAgain {
		if f.tried == nil {
			f.tried = map[string]time.Time{}
		}
		f.tried[url] = now
		select {
		case f.waiting <- url:
		default: // it waits already
		}
	}
}

// hasKeys reports whether keys are known by which the bot signs, and that count.
func (l *Lists) hasKeys(a *Agent) bool {
	if l == nil || a.Keys == "" {
		return false
	}
	one := (*l.current.Load())[a.Keys+keysPath]
	return len(one.keys) > 0 && !one.isIgnored(l.now())
}

// Run fetches the keys of bots that sign, when they come, until ctx is done.
func (l *Lists) Run(ctx context.Context) {
	supervise.Run(ctx, "keys of bots", func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case url := <-l.fetches.waiting:
				l.fetch(ctx, url)
			}
		}
	})
}

// fetch fetches one list. One that cannot be fetched or read stays what it was.
func (l *Lists) fetch(ctx context.Context, url string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	after := l.pull(ctx, (*l.current.Load())[url])
	if ctx.Err() != nil {
		return
	}
	next := maps.Clone(*l.current.Load())
	next[url] = after
	l.current.Store(&next)
}
