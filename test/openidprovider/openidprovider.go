// Package openidprovider is an OpenID Connect provider for tests: a real HTTP server that
// speaks the protocol, and that can be made to break it.
package openidprovider

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The client that the provider knows.
const (
	ClientID     = "stint"
	ClientSecret = "a secret of tests, no other"
)

// Provider is one provider; see New.
type Provider struct {
	URL    string // the issuer
	server *httptest.Server

	mu        sync.Mutex
	behaviour Behaviour
	key       jose.JSONWebKey
	codes     map[string]grant
	asked     map[string]int // by path
}

// Behaviour is what a provider answers. The zero value is a good provider whose users
// have no groups.
type Behaviour struct {
	Claims   map[string]any // of the ID token, instead of the usual ones; nil leaves one out
	UserInfo map[string]any // nil: there is no such endpoint
	Metadata map[string]any // instead of the usual ones
	// Paths answer instead of the provider: /token, /jwks, /authorize, /userinfo or
	// /.well-known/openid-configuration.
	Paths map[string]http.HandlerFunc
	// Answer changes the parameters that the browser brings back.
	Answer func(url.Values)
	// Sign makes the ID token, nil for the provider's own key.
	Sign func(claims []byte) string
	// ReuseCodes accepts a code again and again.
	ReuseCodes bool
	// Now is the time of its tokens, nil for the machine's.
	Now func() time.Time
}

// grant is what a code was given for.
type grant struct{ nonce, challenge, redirect string }

// New starts a provider, which is stopped with the test.
func New(t testing.TB) *Provider {
	p := &Provider{codes: map[string]grant{}, asked: map[string]int{}}
	p.RotateKey()
	p.server = httptest.NewServer(http.HandlerFunc(p.answer))
	p.URL = p.server.URL
	t.Cleanup(p.server.Close)
	return p
}

// Behave changes what the provider answers from now on.
func (p *Provider) Behave(b Behaviour) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behaviour = b
}

// RotateKey replaces the key that signs, and forgets the former one.
func (p *Provider) RotateKey() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key = jose.JSONWebKey{Key: key, KeyID: rand.Text(), Algorithm: string(jose.ES256), Use: "sig"}
}

// Asked returns how often a path was asked for.
func (p *Provider) Asked(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

func (p *Provider) answer(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked[r.URL.Path]++
	b := p.behaviour
	p.mu.Unlock()
	if instead := b.Paths[r.URL.Path]; instead != nil {
		instead(w, r)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		metadata := map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/jwks",
			"end_session_endpoint": p.URL + "/logout", "id_token_signing_alg_values_supported": []string{"ES256", "none", "HS256"},
			"authorization_response_iss_parameter_supported": true,
		}
		if b.UserInfo != nil {
			metadata["userinfo_endpoint"] = p.URL + "/userinfo"
		}
		maps.Copy(metadata, b.Metadata)
		send(w, http.StatusOK, metadata)
	case "/jwks":
		p.mu.Lock()
		public := p.key.Public()
		p.mu.Unlock()
		send(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})
	case "/authorize":
		p.authorize(w, r, &b)
	case "/token":
		p.token(w, r, &b)
	case "/userinfo":
		send(w, http.StatusOK, b.UserInfo)
	default:
		http.NotFound(w, r)
	}
}

// authorize logs the browser in without a question.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request, b *Behaviour) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" {
		http.Error(w, "not the request of a client that uses PKCE and a nonce", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = grant{q.Get("nonce"), q.Get("code_challenge"), q.Get("redirect_uri")}
	p.mu.Unlock()
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}
	if b.Answer != nil {
		b.Answer(back)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request, b *Behaviour) {
	id, secret, _ := r.BasicAuth()
	id, _ = url.QueryUnescape(id)
	secret, _ = url.QueryUnescape(secret)
	if id != ClientID || secret != ClientSecret {
		send(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	code := r.FormValue("code")
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	p.mu.Lock()
	g, known := p.codes[code]
	if !b.ReuseCodes {
		delete(p.codes, code)
	}
	key := p.key
	p.mu.Unlock()
	if !known || g.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) || g.redirect != r.FormValue("redirect_uri") {
		send(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	now := time.Now()
	if b.Now != nil {
		now = b.Now()
	}
	claims := map[string]any{
		"iss": p.URL, "sub": "subject-1", "aud": ClientID, "nonce": g.nonce, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"preferred_username": "kim",
	}
	for name, value := range b.Claims {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	text, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	sign := b.Sign
	if sign == nil {
		sign = func(claims []byte) string { return SignWith(jose.ES256, key, claims) }
	}
	send(w, http.StatusOK, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 300, "id_token": sign(text)})
}

// SignWith returns claims as a token that a key signs.
func SignWith(alg jose.SignatureAlgorithm, key any, claims []byte) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		panic(err)
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		panic(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return text
}

// Unsigned returns claims as a token with the algorithm none.
func Unsigned(claims []byte) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode(claims) + "."
}

func send(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}
