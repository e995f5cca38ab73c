package openid

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/stint-dev/stint/internal/identity"
)

// Started is a login that has begun.
type Started struct {
	URL    string // where to send the browser
	Cookie string // to set until the browser returns
}

// Start begins a login that leads to the page next. If the cookie would be too large with next,
// it leads to the first page. former is the secret of the browser's previous session, "" for
// none. The error is a *Failure if the provider is unreachable.
func (p *Provider) Start(ctx context.Context, next, former string) (*Started, error) {
	m, err := p.ready(ctx)
	if err != nil {
		return nil, &Failure{Reason: Unreachable}
	}
	if len(former) > 200 {
		former = ""
	}
	f := &Flow{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: next, Former: former,
		Expires: p.o.Now().Add(FlowLifetime).Unix(),
	}
	cookie, err := f.seal(p.o.Secret(), p.binding())
	if err == nil && len(cookie) > maxFlow {
		f.Next = "/"
		cookie, err = f.seal(p.o.Secret(), p.binding())
	}
	if err != nil {
		return nil, err
	}
	return &Started{URL: m.oauth.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), Cookie: cookie}, nil
}

// binding identifies the provider and client of a flow.
func (p *Provider) binding() string { return p.o.Issuer + "\n" + p.o.ClientID + "\n" + p.o.RedirectURL }

// Callback is the request by which a browser returns from the provider.
type Callback struct {
	Cookie string
	State  string
	Code   string
	Issuer string // the parameter iss, "" for none
	Error  string // the parameter error, "" for none
}

// Person is the person who logged in, according to the provider.
type Person struct {
	Issuer, Subject string
	Name            string // as the provider sends it, with any characters
	Role            identity.Role
}

// Finish finishes the login of a flow returned by Match. It returns the person; the error is a
// *Failure.
func (p *Provider) Finish(ctx context.Context, f *Flow, c Callback) (*Person, error) {
	person, err := p.verify(ctx, f, c)
	if err != nil {
		var failure *Failure
		if errors.As(err, &failure) {
			p.logFailure(ctx, failure)
		}
		return nil, err
	}
	return person, nil
}

// Match finds the flow of a callback: the one that Start began for this browser, on any node.
// It makes no request. The error is a *Failure.
func (p *Provider) Match(c Callback) (*Flow, error) {
	f, err := openFlow(c.Cookie, p.o.Secret(), p.binding())
	if err != nil || subtle.ConstantTimeCompare([]byte(f.State), []byte(c.State)) != 1 {
		return nil, &Failure{Reason: WrongState}
	}
	if p.o.Now().Unix() >= f.Expires {
		return nil, &Failure{Reason: FlowExpired}
	}
	return f, nil
}

// verify exchanges the code and verifies the response of the provider.
func (p *Provider) verify(ctx context.Context, f *Flow, c Callback) (*Person, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.http), finishTimeout)
	defer cancel()
	select {
	case p.finishing <- struct{}{}:
		defer func() { <-p.finishing }()
	case <-ctx.Done():
		return nil, &Failure{Reason: Unreachable, cause: ctx.Err()}
	}
	m, err := p.ready(ctx)
	if err != nil {
		return nil, &Failure{Reason: Unreachable}
	}
	switch {
	case c.Issuer != p.o.Issuer && (c.Issuer != "" || m.sendsIss):
		return nil, &Failure{Reason: WrongIssuer}
	case c.Error != "":
		return nil, &Failure{Reason: refusedBy(c.Error)}
	case c.Code == "":
		return nil, &Failure{Reason: NoCode}
	}
	token, err := m.oauth.Exchange(ctx, c.Code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		var refused *oauth2.RetrieveError
		var transport *url.Error
		if errors.As(err, &transport) && !errors.As(err, &refused) {
			return nil, &Failure{Reason: Unreachable, cause: err}
		}
		return nil, &Failure{Reason: CodeRefused, cause: err}
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return nil, &Failure{Reason: NoIDToken}
	}
	id, err := m.verifier.Verify(ctx, raw)
	var expired *oidc.TokenExpiredError
	switch {
	case errors.As(err, &expired):
		return nil, &Failure{Reason: TokenExpired, cause: err}
	case err != nil:
		return nil, &Failure{Reason: InvalidToken, cause: err}
	case subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(f.Nonce)) != 1:
		return nil, &Failure{Reason: WrongNonce}
	}
	return p.personOf(ctx, m, id, token)
}

// maxSubject is the maximum length in OpenID Connect.
const maxSubject = 255

// personOf reads the claims of a verified ID token and, if the token has no groups, those of
// the userinfo endpoint.
func (p *Provider) personOf(ctx context.Context, m *metadata, id *oidc.IDToken, token *oauth2.Token) (*Person, error) {
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return nil, &Failure{Reason: InvalidToken, cause: err}
	}
	if name := disguised(claims); name != "" {
		return nil, &Failure{Reason: InvalidToken, cause: fmt.Errorf("it has a claim %q", name)}
	}
	if party, given := claims["azp"]; given && party != p.o.ClientID || !given && len(id.Audience) > 1 {
		return nil, &Failure{Reason: WrongParty}
	}
	if id.Subject == "" || len(id.Subject) > maxSubject || strings.ContainsFunc(id.Subject, func(r rune) bool { return r < ' ' || r == 0xFFFD }) {
		return nil, &Failure{Reason: NoSubject}
	}
	groups, given := textsAt(claims, p.o.GroupsClaim)
	if !given && m.provider.UserInfoEndpoint() != "" {
		info, err := m.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
		more := map[string]any{}
		if err != nil { // an error does not mean that there are no groups
			return nil, &Failure{Reason: Unreachable, cause: err}
		}
		if info.Claims(&more) != nil || info.Subject != id.Subject || disguised(more) != "" {
			return nil, &Failure{Reason: NoGroups}
		}
		for name, value := range more {
			if _, known := claims[name]; !known {
				claims[name] = value
			}
		}
		groups, given = textsAt(claims, p.o.GroupsClaim)
	}
	person := &Person{Issuer: p.o.Issuer, Subject: id.Subject, Role: p.o.Roles.RoleOf(groups)}
	for _, name := range []string{p.o.NameClaim, "preferred_username", "email", "name"} {
		if text, _ := claims[name].(string); strings.TrimSpace(text) != "" {
			person.Name = strings.TrimSpace(text)
			break
		}
	}
	switch {
	case !given:
		return nil, &Failure{Reason: NoGroups, Person: person}
	case person.Role == "":
		return nil, &Failure{Reason: NoRole, Person: person}
	}
	return person, nil
}

// verified are the claims that package oidc reads and verifies, or makes its caller verify.
var verified = []string{"iss", "sub", "aud", "exp", "iat", "nbf", "nonce", "at_hash", "azp"}

// disguised returns the name of a claim that equals one of verified except for its case, "" for
// none. Claim names are case-sensitive, but package oidc parses JSON without regard to case. So
// such a claim, which the person may have chosen, would replace the real one.
func disguised(claims map[string]any) string {
	for name := range claims {
		if slices.ContainsFunc(verified, func(v string) bool { return name != v && strings.EqualFold(name, v) }) {
			return name
		}
	}
	return ""
}

// textsAt returns the texts of a claim: a list, or a single text. A nested claim is named with
// a dot, such as Keycloak's realm_access.roles.
func textsAt(claims map[string]any, name string) ([]string, bool) {
	value, given := claims[name]
	if !given {
		outer, inner, nested := strings.Cut(name, ".")
		within, isObject := claims[outer].(map[string]any)
		if !nested || !isObject {
			return nil, false
		}
		return textsAt(within, inner)
	}
	switch v := value.(type) {
	case string:
		return []string{v}, true
	case []any:
		var all []string
		for _, one := range v {
			if text, isText := one.(string); isText {
				all = append(all, text)
			}
		}
		return all, true
	}
	return nil, false
}
