package forwardauth

import (
	"bytes"
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// challengeTarget returns the target of the client's request if it is one of the paths of
// challenges. So these work behind every gateway, also where nothing leads them to Stint.
func (d *Door) challengeTarget(k *scratch, r request, q *Query) (target string, is bool) {
	if d.o.Challenges == nil || q.Refuse403 && !q.Pages401 {
		return "", false
	}
	mayBe := strings.Contains(q.Target, challenge.Prefix) || strings.Contains(r.Path(), challenge.Prefix)
	if !mayBe {
		k.lines = k.lines[:0]
		for _, header := range targetHeaders {
			k.lines = r.AppendLines(k.lines, header)
		}
		for _, line := range k.lines {
			mayBe = mayBe || bytes.Contains(line, []byte(challenge.Prefix))
		}
	}
	if !mayBe {
		return "", false
	}
	target = q.pageTarget(r)
	return target, challenge.IsOwn(target)
}

// pageTarget returns the path and query of the client's request, "" if they are not known.
func (q *Query) pageTarget(r request) string {
	target := By{Kind: ByPath}.targetOf(r, q.Target)
	if _, rest, found := strings.Cut(target, "://"); found && !strings.HasPrefix(target, "/") {
		if slash := strings.IndexByte(rest, '/'); slash >= 0 {
			return rest[slash:]
		}
		return "/"
	}
	return target
}

// findPass sets the pass of the client in the checks of a request.
func (d *Door) findPass(k *scratch, r request) {
	if d.o.Challenges == nil {
		return
	}
	k.lines = r.AppendLines(k.lines[:0], "Cookie")
	if pass, found := d.o.Challenges.PassOf(k.lines, r.CountedAddress()); found {
		for i := range k.checks {
			k.checks[i].Pass = pass
		}
	}
}

// visitOf describes a client's request for pages.
func visitOf(r request, target string) *challenge.Visit {
	return &challenge.Visit{
		Target: target, Address: r.CountedAddress(), Languages: r.Get(fiber.HeaderAcceptLanguage),
		Cookies: r.AppendLines(nil, "Cookie"), IsInsecure: isInsecure(r),
		IsForeign:   challenge.IsForeign(r.Get("Sec-Fetch-Site"), r.Get("Sec-Fetch-Mode"), r.Get("Sec-Fetch-Dest")),
		AcceptsGzip: strings.Contains(r.Get(fiber.HeaderAcceptEncoding), "gzip"),
	}
}

// isInsecure reports whether the client came by plain HTTP to a name of its own machine.
func isInsecure(r request) bool {
	if r.FromTrustedProxy() && strings.EqualFold(r.Get("X-Forwarded-Proto"), "https") {
		return false
	}
	host := hostOf(r)
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.IsLoopback()
}

// page returns the page that answers a refused navigation; nil for every other request. A gateway
// with refuse=401 gets that status only, and then asks handleChallenge for the page.
func (d *Door) page(r request, q *Query, decision *gate.Decision, status int) *challenge.Answer {
	accept := r.Get(fiber.HeaderAccept)
	if d.o.Challenges == nil || q.Refuse403 && !q.Pages401 || !strings.Contains(accept, "text/html") {
		return nil
	}
	target := q.pageTarget(r)
	if !challenge.IsNavigation(methodOf(r), target, accept, r.Get("Sec-Fetch-Mode"), r.Get("Sec-Fetch-Dest")) {
		return nil
	}
	id := ""
	if !decision.ID.IsZero() {
		id = decision.ID.String()
	}
	switch {
	case q.Pages401:
		return &challenge.Answer{Status: http.StatusUnauthorized}
	case decision.Outcome != gate.Challenged:
		return d.o.Challenges.Refuse(visitOf(r, target), &challenge.Refusal{
			Outcome: string(decision.Outcome), Status: status, ID: id, At: decision.At, RetryAt: decision.RetryAt,
		})
	}
	d.report(context.Background(), r, challenge.Shown)
	return d.o.Challenges.Show(visitOf(r, target), id)
}

// report counts what came of a challenge.
func (d *Door) report(ctx context.Context, r request, outcome challenge.Outcome) {
	d.o.Gate.ReportChallenge(ctx, d.o.View.Parser().AddressKey(r.CountedAddress()), outcome)
}

// visit answers a gateway's request about one of the paths of challenges: every gateway hands an
// answer that is no 2xx on to its client whole, but for nginx, which asks for it with error_page.
func (d *Door) visit(c *httpserver.Call, r request, q *Query, target string) error {
	c.SetHeader(decisionHeader, []byte(gate.Challenged))
	c.SetHeader(statusHeader, []byte(strconv.Itoa(http.StatusTooManyRequests)))
	if q.Pages401 {
		c.Status(http.StatusUnauthorized)
		return nil
	}
	if err := d.answerVisit(c, r, target); err != nil {
		return err
	}
	if status := c.Response().StatusCode(); status < http.StatusMultipleChoices { // which would let the request through
		c.Status(http.StatusTooManyRequests)
	}
	return nil
}

// handleChallenge answers requests for the paths of challenges that a gateway leads here, and
// those of a trusted gateway with refuse=401 for the page of a refusal. Such a gateway names the
// target of its client's request, and what it was answered about it, in headers.
func (d *Door) handleChallenge(c *httpserver.Call) error {
	r := plainRequest{c}
	target := string(c.Request().URI().RequestURI())
	if named := headerTarget(r); named != "" {
		target = named
	}
	if challenge.IsOwn(target) {
		return d.answerVisit(c, r, target)
	}
	if !r.FromTrustedProxy() {
		d.report(c.DecisionContext(), r, challenge.Shown)
		return send(c, d.o.Challenges.Show(visitOf(r, target), ""))
	}
	refusal := challenge.Refusal{Outcome: r.Get(string(decisionHeader)), ID: r.Get(string(refusalHeader)), At: d.o.Now()}
	if refusal.Outcome != wire.Limited && refusal.Outcome != wire.Blocked && refusal.Outcome != wire.Unavailable {
		d.report(c.DecisionContext(), r, challenge.Shown)
		return send(c, d.o.Challenges.Show(visitOf(r, target), refusal.ID))
	}
	_, refusal.Status = wire.RefusalOf(refusal.Outcome)
	if seconds, err := strconv.ParseUint(r.Get(fiber.HeaderRetryAfter), 10, 31); err == nil {
		refusal.RetryAt = refusal.At.Add(time.Duration(seconds) * time.Second)
		c.Set(fiber.HeaderRetryAfter, strconv.FormatUint(seconds, 10))
	}
	return send(c, d.o.Challenges.Refuse(visitOf(r, target), &refusal))
}

// headerTarget returns the target that a trusted gateway names in a header, "" for none.
func headerTarget(r request) string {
	if !r.FromTrustedProxy() {
		return ""
	}
	for _, header := range targetHeaders[:2] {
		if value := r.Get(header); value != "" {
			return value
		}
	}
	return ""
}

func (d *Door) answerVisit(c *httpserver.Call, r request, target string) error {
	answer, outcome := d.o.Challenges.Visit(c.DecisionContext(), visitOf(r, target))
	d.report(c.DecisionContext(), r, outcome)
	return send(c, answer)
}

// send sends a page or a redirect.
func send(c *httpserver.Call, answer *challenge.Answer) error {
	c.Status(answer.Status)
	for _, h := range answer.Headers {
		c.SetHeader([]byte(h[0]), []byte(h[1]))
	}
	if answer.Body != nil {
		c.Set(fiber.HeaderContentType, answer.ContentType)
		c.Response().SetBody(answer.Body)
	}
	return nil
}
