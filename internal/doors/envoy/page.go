package envoy

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
)

// page is what a request of ext_authz says of challenges and pages. Its zero value shows none.
type page struct {
	server  *Server
	request *challenge.Visit
	key     keys.Key // of the client's address
	pass    keys.Key // zero for none
	// isNavigation says that a person opens a page.
	isNavigation bool
}

// pageOf returns what a request of the client with the key of an address says of pages.
func (s *Server) pageOf(a *authv3.AttributeContext, key keys.Key) (p page) {
	if s.o.Challenges == nil || key.IsZero() {
		return p
	}
	first := func(name string) string {
		for _, line := range linesOf(a, name) {
			return string(line)
		}
		return ""
	}
	network, _ := key.Network()
	http := a.GetRequest().GetHttp()
	p.server, p.key = s, key
	p.request = &challenge.Visit{
		Target: http.GetPath(), Address: network.Addr(), Languages: first("accept-language"), Cookies: linesOf(a, "cookie"),
		IsInsecure:  http.GetScheme() == "http" && isLoopback(http.GetHost()),
		IsForeign:   challenge.IsForeign(first("sec-fetch-site"), first("sec-fetch-mode"), first("sec-fetch-dest")),
		AcceptsGzip: false, // the body of an answer of ext_authz is text
	}
	p.pass, _ = s.o.Challenges.PassOf(p.request.Cookies, p.request.Address)
	p.isNavigation = challenge.IsNavigation(http.GetMethod(), http.GetPath(), first("accept"), first("sec-fetch-mode"), first("sec-fetch-dest"))
	return p
}

func isLoopback(host string) bool {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && address.IsLoopback()
}

func (p *page) isOwn() bool { return p.server != nil && challenge.IsOwn(p.request.Target) }

// visit answers a request for one of the paths of challenges.
func (p *page) visit(ctx context.Context) *authv3.CheckResponse {
	answer, outcome := p.server.o.Challenges.Visit(ctx, p.request)
	p.server.o.Gate.ReportChallenge(ctx, p.key, outcome)
	denied := new(authv3.DeniedHttpResponse)
	setPage(denied, answer)
	return &authv3.CheckResponse{
		Status:       &spb.Status{Code: int32(codes.PermissionDenied)},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: denied},
	}
}

// show puts a page in the place of the body of a refused navigation.
func (p *page) show(ctx context.Context, d *gate.Decision, denied *authv3.DeniedHttpResponse) {
	if !p.isNavigation {
		return
	}
	id := ""
	if !d.ID.IsZero() {
		id = d.ID.String()
	}
	if d.Outcome == gate.Challenged {
		p.server.o.Gate.ReportChallenge(ctx, p.key, challenge.Shown)
		setPage(denied, p.server.o.Challenges.Show(p.request, id))
		return
	}
	setPage(denied, p.server.o.Challenges.Refuse(p.request, &challenge.Refusal{
		Outcome: string(d.Outcome), Status: int(denied.GetStatus().GetCode()), ID: id, At: d.At, RetryAt: d.RetryAt,
	}))
}

func setPage(denied *authv3.DeniedHttpResponse, answer *challenge.Answer) {
	denied.Status = &typev3.HttpStatus{Code: typev3.StatusCode(answer.Status)} //nolint:gosec // a status of HTTP
	denied.Body = string(answer.Body)
	set := func(name, value string) { // in place of the refusal's
		denied.Headers = slices.DeleteFunc(denied.Headers, func(h *corev3.HeaderValueOption) bool { return h.GetHeader().GetKey() == name })
		denied.Headers = append(denied.Headers, &corev3.HeaderValueOption{
			Header: &corev3.HeaderValue{Key: name, Value: value}, AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	set("Cache-Control", "no-store")
	for _, h := range answer.Headers {
		set(h[0], h[1])
	}
	if answer.Body != nil {
		set("Content-Type", answer.ContentType)
	}
}
