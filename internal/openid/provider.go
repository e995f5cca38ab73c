package openid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/stint-dev/stint/internal/escape"
)

// Limits of the requests to a provider.
const (
	callTimeout   = 5 * time.Second // of one request
	finishTimeout = 8 * time.Second // of all requests of one login
	maxAnswer     = 1 << 20         // bytes
	maxFinishing  = 8               // concurrent logins that call the provider

	retryPause   = 2 * time.Second // minimum time between two attempts of discovery
	retryFirst   = 5 * time.Second // first pause of Run, doubled up to retryLast
	retryLast    = time.Minute
	refreshEvery = 5 * time.Minute
	logEvery     = 10 * time.Second
)

// Options configure a Provider.
type Options struct {
	Settings
	Secret func() []byte // shared by all nodes, empty until it is loaded
	Log    *slog.Logger
	Now    func() time.Time
}

// Provider is a client of one provider; see New. It is safe for concurrent use. A nil Provider
// means no provider.
type Provider struct {
	o         Options
	http      *http.Client
	discover  chan struct{} // holds a value during discovery
	finishing chan struct{}

	mu      sync.Mutex
	found   *metadata // nil before discovery
	failing error     // error of the last discovery
	since   time.Time // first of the consecutive failures
	tried   time.Time
	logged  time.Time
}

// metadata are what a provider publishes about itself.
type metadata struct {
	provider   *oidc.Provider
	verifier   *oidc.IDTokenVerifier
	oauth      oauth2.Config
	sendsIss   bool
	endSession string
}

// New returns the client of a provider, without contacting it; nil if the settings name none.
func New(o Options) *Provider {
	if !o.Enabled() {
		return nil
	}
	issuer, _ := url.Parse(o.Issuer) // valid by Settings.Validate
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: callTimeout}).DialContext, TLSHandshakeTimeout: callTimeout,
		ResponseHeaderTimeout: callTimeout, MaxResponseHeaderBytes: 64 << 10, MaxIdleConns: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
	return &Provider{
		o: o, discover: make(chan struct{}, 1), finishing: make(chan struct{}, maxFinishing),
		http: &http.Client{
			Timeout: callTimeout, Transport: &bounded{transport, issuer.Scheme},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("the provider redirects, which is not followed")
			},
		},
	}
}

// bounded allows only URLs of one scheme, and reads at most maxAnswer bytes of a response.
type bounded struct {
	next   http.RoundTripper
	scheme string
}

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != b.scheme {
		return nil, fmt.Errorf("the provider names a URL that does not begin with %s://", b.scheme)
	}
	answer, err := b.next.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{http.MaxBytesReader(nil, answer.Body, maxAnswer), answer.Body}
	}
	return answer, err
}

// Label returns the label of the button.
func (p *Provider) Label() string { return p.o.Label }

// Secure reports whether browsers return over TLS, and therefore accept secure cookies.
func (p *Provider) Secure() bool { return strings.HasPrefix(p.o.RedirectURL, "https://") }

// Failing returns since when the provider has been unreachable, zero if it is reachable or was
// not contacted yet.
func (p *Provider) Failing() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since
}

// LogoutURL returns the URL that ends the session at the provider, "" if it is unknown. back is
// the page of this server to return to.
func (p *Provider) LogoutURL(back string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil || p.found.endSession == "" {
		return ""
	}
	u, err := url.Parse(p.found.endSession)
	if err != nil {
		return ""
	}
	q := u.Query()
	q.Set("client_id", p.o.ClientID)
	q.Set("post_logout_redirect_uri", strings.TrimSuffix(p.o.RedirectURL, CallbackPath)+back)
	u.RawQuery = q.Encode()
	return u.String()
}

// Run keeps the provider's metadata up to date until ctx ends. With a nil Provider it only
// waits.
func (p *Provider) Run(ctx context.Context) {
	if p == nil {
		<-ctx.Done()
		return
	}
	pause := retryFirst
	for {
		wait := refreshEvery
		if err := p.refresh(ctx); err != nil {
			wait, pause = pause, min(2*pause, retryLast)
		} else {
			pause = retryFirst
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// ready returns the metadata, after discovery if there was none yet.
func (p *Provider) ready(ctx context.Context) (*metadata, error) {
	p.mu.Lock()
	found, failing, tried := p.found, p.failing, p.tried
	p.mu.Unlock()
	if found != nil {
		return found, nil
	}
	if failing == nil || p.o.Now().Sub(tried) >= retryPause {
		failing = p.refresh(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		return nil, failing
	}
	return p.found, nil
}

// refresh fetches the metadata, one caller at a time. If that fails, the previous metadata
// remain in use.
func (p *Provider) refresh(ctx context.Context) error {
	select {
	case p.discover <- struct{}{}:
		defer func() { <-p.discover }()
	case <-ctx.Done():
		return ctx.Err()
	}
	p.mu.Lock()
	failing, tried := p.failing, p.tried
	p.mu.Unlock()
	if !tried.IsZero() && p.o.Now().Sub(tried) < retryPause { // another caller has just tried
		return failing
	}
	found, err := p.ask(ctx)
	if err != nil && ctx.Err() != nil {
		return err // the caller gave up; this is not a failure of the provider
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tried = p.o.Now()
	switch {
	case err != nil && p.failing == nil:
		p.since = p.tried
		p.o.Log.WarnContext(ctx, "the OpenID provider cannot be used; logging in with it fails until it can", "issuer", p.o.Issuer, "error", logText(err))
	case err == nil && p.failing != nil:
		p.o.Log.InfoContext(ctx, "the OpenID provider can be used again", "issuer", p.o.Issuer)
	}
	p.failing = err
	if err != nil {
		return err
	}
	p.since = time.Time{}
	if p.found == nil || !found.equals(p.found) {
		p.found = found // if they are equal, the previous one keeps its cached keys
	}
	return nil
}

// ask fetches the metadata.
func (p *Provider) ask(ctx context.Context) (*metadata, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.http), callTimeout)
	defer cancel()
	provider, err := oidc.NewProvider(ctx, p.o.Issuer)
	if err != nil {
		return nil, err
	}
	var says struct {
		JWKS        string   `json:"jwks_uri"`
		UserInfo    string   `json:"userinfo_endpoint"`
		EndSession  string   `json:"end_session_endpoint"`
		SendsIss    bool     `json:"authorization_response_iss_parameter_supported"`
		AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&says); err != nil {
		return nil, err
	}
	endpoint := provider.Endpoint()
	for name, address := range map[string]string{
		"authorization_endpoint": endpoint.AuthURL, "token_endpoint": endpoint.TokenURL, "jwks_uri": says.JWKS,
	} {
		if !p.isOurScheme(address) {
			return nil, fmt.Errorf("its %s is not a URL of the scheme of its issuer", name)
		}
	}
	if !p.isOurScheme(says.EndSession) {
		says.EndSession = ""
	}
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if len(says.AuthMethods) > 0 && !slices.Contains(says.AuthMethods, "client_secret_basic") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return &metadata{
		provider: provider, verifier: provider.Verifier(&oidc.Config{ClientID: p.o.ClientID, Now: p.o.Now}),
		sendsIss: says.SendsIss, endSession: says.EndSession,
		oauth: oauth2.Config{
			ClientID: p.o.ClientID, ClientSecret: p.o.ClientSecret, RedirectURL: p.o.RedirectURL, Scopes: p.o.Scopes, Endpoint: endpoint,
		},
	}, nil
}

func (p *Provider) isOurScheme(address string) bool {
	u, err := url.Parse(address)
	issuer, _, _ := strings.Cut(p.o.Issuer, "://")
	return err == nil && u.Host != "" && u.User == nil && u.Scheme == issuer
}

// equals reports whether two metadata have the same endpoints and rules.
func (m *metadata) equals(other *metadata) bool {
	var a, b any
	return m.provider.Claims(&a) == nil && other.provider.Claims(&b) == nil && fmt.Sprint(a) == fmt.Sprint(b)
}

// logFailure logs why a login failed at the provider, but not so often that somebody could fill
// the log.
func (p *Provider) logFailure(ctx context.Context, f *Failure) {
	if f.cause == nil {
		return
	}
	p.mu.Lock()
	now := p.o.Now()
	often := !p.logged.IsZero() && now.Sub(p.logged) < logEvery
	if !often {
		p.logged = now
	}
	p.mu.Unlock()
	if !often {
		p.o.Log.WarnContext(ctx, "a login with the OpenID provider failed", "reason", string(f.Reason), "error", logText(f.cause))
	}
}

// logText returns the text of an error without the body of a response, which could contain a
// token.
func logText(err error) string {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		return escape.Log("the token endpoint answered " + refused.Response.Status + " " + refused.ErrorCode)
	}
	return escape.Log(err.Error())
}
