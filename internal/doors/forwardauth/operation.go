package forwardauth

import (
	"net/http"

	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/wire"
)

var opForward = &openapi.Operation{
	ID: "forwardAuth", Tag: wire.TagChecks, Summary: "Check a request that a proxy forwards.",
	Doc: "Reverse proxies ask it: nginx auth_request, Traefik ForwardAuth, Caddy forward_auth, HAProxy and Envoy. " +
		"Every method and every path below it is answered in the same way; the body is not read. A refused navigation, by its Accept, is answered with an HTML page. " +
		"The query string is what the operator writes into the proxy's configuration. " +
		"A trusted proxy describes its client's request in headers, which are ignored from anybody else.",
	Query: []openapi.Param{
		{Name: paramPolicy, Doc: "The policy to ask by name; the best match of each key if omitted."},
		{Name: paramCost, Doc: "What the request is charged, 1 to 1000; 1 if omitted.", Integer: true},
		{Name: paramBy, Doc: "A part of the request that becomes a key: ip, header:NAME, plain-header:NAME, cookie:NAME, host, path, path:HEADER or method. " +
			"ip where it is left out. Several are checked as one: all are charged, or none. " +
			"Each value of a header or cookie that the request repeats is a key.", Repeated: true},
		{Name: paramRefuse, Doc: "403 answers every refusal with that status, for proxies that know no other. " +
			"401 does so too, but for refused navigations, whose page the proxy then asks for at " + challenge.Path + ".", Enum: []string{"401", "403"}},
		{Name: paramSource, Doc: "The caller, shown with an offence."},
		{Name: paramScope, Doc: "What part of the application the request is for, as login: policies with a scope refuse only checks of theirs."},
		{Name: paramID, Doc: "header:NAME, the header with an id of the request, which is then charged once however often the proxy asks about it."},
		{Name: paramPath, Doc: "The target of the client's request. It must be the last parameter: everything behind it belongs to the target."},
	},
	RequestHeaders: []openapi.Param{
		{Name: forwardedHost, Doc: "The host that the client asked for."},
		{Name: forwardedURI, Doc: "The target of the client's request."},
		{Name: forwardedMethod, Doc: "The method of the client's request."},
		{Name: originalURL, Doc: "The URL of the client's request, from gateways that do not send " + forwardedURI + "; " + originalURI + " and " + authRedirect + " are read alike."},
		{Name: originalMethod, Doc: "The method of the client's request, from gateways that do not send " + forwardedMethod + "."},
	},
	Answers: []openapi.Answer{
		{Status: http.StatusOK, Doc: "Allowed. The body is empty.", Headers: answerHeaders},
		{Status: http.StatusUnauthorized, Doc: "A navigation is refused under refuse=401: the gateway shows the page that Stint has for it.", Headers: refusalHeaders},
		{Status: http.StatusForbidden, Doc: "Blocked, or refused for any reason under refuse=403 or refuse=401.", Headers: refusalHeaders},
		{Status: http.StatusTooManyRequests, Doc: "Limited by a rule, or challenged.", Headers: refusalHeaders},
		{Status: http.StatusServiceUnavailable, Doc: "An outage under on_failure deny.", Headers: refusalHeaders},
	},
}

// The operations of the pages of challenges, which browsers open on the site itself. All of them are
// also answered at Path, where a gateway names them as the target of its client's request.
var (
	opChallenge = &openapi.Operation{
		ID: "showChallenge", Tag: wire.TagChecks, Summary: "Show a challenge to a browser.",
		Doc: "For browsers, not for programs. A trusted gateway may name the target of its client's request, and what it was answered about it, in headers; " +
			"then the page is that of this refusal.",
		Query: []openapi.Param{{Name: "to", Doc: "The path and query that the challenge leads back to; / if omitted."},
			{Name: "file", Doc: "A file that the page needs, in place of the page: the widget of ALTCHA."}},
		RequestHeaders: []openapi.Param{{Name: forwardedURI, Doc: "The target of the client's request."}},
		Answers: []openapi.Answer{
			{Status: http.StatusOK, Doc: "The file.", Types: []string{"text/javascript"}},
			{Status: http.StatusForbidden, Doc: "The page of a block.", Types: pageTypes},
			{Status: http.StatusTooManyRequests, Doc: "The page of the challenge, or of a limit.", Types: pageTypes},
			{Status: http.StatusServiceUnavailable, Doc: "The page of an outage.", Types: pageTypes},
		},
	}
	opPass = &openapi.Operation{
		ID: "solveChallenge", Tag: wire.TagChecks, Summary: "Take the solution of a challenge and set the pass.",
		Query: []openapi.Param{
			{Name: "c", Doc: "The challenge."},
			{Name: "n", Doc: "The number that solves it; omitted by a browser that has waited instead."},
			{Name: "captcha", Doc: "The answer of the captcha, if the challenge is one."},
		},
		Answers: []openapi.Answer{
			{Status: http.StatusSeeOther, Doc: "Solved. The cookie stint_pass is set, and Location leads on."},
			{Status: http.StatusForbidden, Doc: "It has expired, or is no solution.", Types: pageTypes},
			{Status: http.StatusTooManyRequests, Doc: "The browser has not waited long enough, or the captcha is not solved: the page is that of another challenge.", Types: pageTypes},
			{Status: http.StatusServiceUnavailable, Doc: "The answer of the captcha cannot be verified.", Types: pageTypes},
		},
	}
	opContinue = &openapi.Operation{
		ID: "continueAfterChallenge", Tag: wire.TagChecks, Summary: "Lead a browser with a pass to the target of its challenge.",
		Query: []openapi.Param{{Name: "c", Doc: "The challenge."}},
		Answers: []openapi.Answer{
			{Status: http.StatusSeeOther, Doc: "Location is the target."},
			{Status: http.StatusForbidden, Doc: "The browser has not kept the cookie, or the challenge has expired.", Types: pageTypes},
		},
	}
	pageTypes = []string{"text/html"}
)

// The headers of answers.
var (
	answerHeaders = []openapi.Header{
		openapi.RateLimit, openapi.RateLimitPolicy,
		{Name: string(decisionHeader), Doc: "What was decided.", Enum: []string{wire.Allowed, wire.Limited, wire.Blocked, wire.Challenged, wire.Unavailable}},
		{Name: string(statusHeader), Doc: "The status that the decision has without refuse.", Integer: true},
		{Name: string(degradedHeader), Doc: "The outage under which it was decided; missing without one."},
	}
	refusalHeaders = append([]openapi.Header{
		openapi.RetryAfter,
		{Name: challenge.Header, Doc: "The path of the page where a browser can solve the challenge that refuses; missing otherwise."},
		{Name: string(refusalHeader), Doc: "The id of the refusal, which opens its record at /v1/offences/{id}."},
	}, answerHeaders...)
)
