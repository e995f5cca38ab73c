package envoy

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/go-json-experiment/json"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/doors/occurrences"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/ratelimit"
	"github.com/stint-dev/stint/internal/wire"
)

// The context extensions that an operator can set for a route. Others are ignored, since they
// may be for other services.
const (
	extensionPolicy = "policy"
	extensionCost   = "cost"
	extensionBy     = "by" // ip, header:NAME or cookie:NAME, comma-separated; values of headers and cookies are hashed
	extensionSource = "source"
	extensionScope  = "scope" // policies and blocks with a scope refuse only checks of theirs
)

// Check implements external authorization. From the client's request it reads the address, the
// headers named in the extension by, and the attributes that conditions of policies need.
func (s *Server) Check(ctx context.Context, q *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	address := s.addressKey(q.GetAttributes())
	page := s.pageOf(q.GetAttributes(), address)
	if page.isOwn() {
		return page.visit(ctx), nil
	}
	checks, err := s.readCheck(q.GetAttributes(), address)
	if errors.Is(err, occurrences.ErrTooMany) {
		// With failure_mode_allow, Envoy allows a request if the response is an error.
		return deny(typev3.StatusCode_BadRequest, codes.InvalidArgument, &wire.Problem{
			Type: "about:blank", Title: http.StatusText(http.StatusBadRequest), Status: http.StatusBadRequest, Code: string(occurrences.ErrTooMany.Code), Detail: err.Error(),
		})
	}
	if err != nil {
		return nil, err
	}
	meta := metaOf(ctx)
	for i := range checks {
		checks[i].Meta, checks[i].Pass = meta, page.pass
	}
	all, err := decideAlike(ctx, s.o.Gate, checks)
	if err != nil {
		return nil, err
	}
	d := &all.Decisions[0]
	if len(checks) > 1 {
		summary := ratelimit.Summary(&all)
		d = &summary
	}
	answer, err := s.answer(d)
	if err == nil && !d.Allowed() {
		page.show(ctx, d, answer.GetDeniedResponse())
	}
	return answer, err
}

// readCheck returns the checks of a request of a client with an address, the zero key if that is not known.
func (s *Server) readCheck(a *authv3.AttributeContext, address keys.Key) ([]gate.Check, error) {
	extensions := a.GetContextExtensions()
	check := gate.Check{Policy: extensions[extensionPolicy], Cost: 1, Detail: true, Source: extensions[extensionSource], Address: address}
	if err := fault.CheckLine(extensionSource, check.Source, wire.MaxSource); err != nil {
		return nil, err
	}
	scope := extensions[extensionScope]
	if scope != "" {
		if err := conditions.CheckScope(scope); err != nil {
			return nil, fault.Field(extensionScope, "%s", err)
		}
	}
	check.Request = requestOf(a, s.o.View.Selector().AskedNamed(), s.o.JA4Header).InScope(scope)
	if text, given := extensions[extensionCost]; given {
		cost, err := strconv.Atoi(text)
		if err != nil || cost < 1 || cost > wire.MaxAmount {
			return nil, fault.Field(extensionCost, "must be a whole number from 1 to %d", wire.MaxAmount)
		}
		check.Cost = cost
	}
	by := extensions[extensionBy]
	if by == "" {
		by = "ip"
	}
	parts := strings.Split(by, ",")
	if len(parts) > wire.MaxKeys {
		return nil, fault.Field(extensionBy, "names more than %d parts", wire.MaxKeys)
	}
	var checks []gate.Check
	seen := map[string]bool{}
	for _, part := range parts {
		all, err := s.keysBy(a, &check, strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		for _, key := range all {
			if seen[key.String()] {
				continue
			}
			if len(checks) == wire.MaxKeys {
				return nil, occurrences.ErrTooMany
			}
			seen[key.String()] = true
			if check.Key, check.Client = key, (keys.Key{}); key.HasClient() {
				check.Client = check.Address
			}
			checks = append(checks, check)
		}
	}
	return checks, nil
}

// requestOf returns the attributes of the client's request, for policies with conditions.
// named are the headers, parameters and cookies that policies look at, ja4Header is Options.JA4Header.
func requestOf(a *authv3.AttributeContext, named []conditions.Attribute, ja4Header string) *conditions.Request {
	request := a.GetRequest().GetHttp()
	agent := ""
	if lines := linesOf(a, "user-agent"); len(lines) > 0 {
		agent = string(lines[0])
	}
	about := conditions.NewRequest(request.GetPath(), request.GetMethod(), agent, request.GetHost())
	if input := linesOf(a, conditions.SignatureInput); len(input) > 0 {
		about = about.SayingSigned(&conditions.Signed{
			Method: request.GetMethod(), Scheme: request.GetScheme(), Authority: request.GetHost(),
			Input: textsOf(input), Signature: textsOf(linesOf(a, conditions.SignatureValue)), Agent: textsOf(linesOf(a, conditions.SignatureAgent)),
		})
	}
	if len(named) == 0 {
		return about
	}
	if request.GetPath() != "" {
		about = about.SayingQuery()
	}
	for _, n := range named {
		switch source, name := n.Source(); source {
		case "header":
			about = about.Saying(n, headerValues(a, name)...)
		case "cookie":
			about = about.Saying(n, cookieValues(a, name)...)
		case "":
			if n == conditions.JA4 {
				about = about.Saying(n, ja4Of(a, ja4Header)...)
			} else if scheme := request.GetScheme(); scheme != "" {
				about = about.Saying(n, scheme)
			}
		}
	}
	return about
}

// ja4Of returns the fingerprints in a header of exactly this name: one, unless Envoy hands on what its client
// sent. A name with "_" is the client's.
func ja4Of(a *authv3.AttributeContext, header string) (all []string) {
	if header == "" {
		return nil
	}
	for _, line := range linesOf(a, strings.ToLower(header)) {
		for value := range strings.SplitSeq(string(line), ",") { // lines in one, as Envoy joins them
			if value = strings.TrimSpace(value); value != "" {
				all = append(all, value)
			}
		}
	}
	return all
}

func cookieValues(a *authv3.AttributeContext, name string) []string {
	return occurrences.AppendCookies(nil, linesOf(a, "cookie"), name, len(a.GetRequest().GetHttp().GetHeaderMap().GetHeaders()) == 0)
}

// keysTogether returns the keys of several parts of a request, with + between, together: one for each
// combination of their values.
func (s *Server) keysTogether(a *authv3.AttributeContext, of *gate.Check, parts []string) ([]keys.Key, error) {
	request := a.GetRequest().GetHttp()
	var kinds []string
	var values [][]string
	for _, part := range parts {
		kind, _, _ := strings.Cut(part, ":")
		kinds = append(kinds, kind)
		switch part {
		case "path":
			values = append(values, []string{occurrences.Plain(path.Clean(conditions.NormalizePath(request.GetPath())))})
		case "method":
			values = append(values, []string{occurrences.Plain(request.GetMethod())})
		case "host":
			values = append(values, []string{occurrences.Plain(of.Request.Value(conditions.Host))})
		default:
			all, err := s.keysBy(a, of, part)
			if err != nil {
				return nil, err
			}
			values = append(values, occurrences.ValuesOf(all))
		}
	}
	all, err := occurrences.AppendTogether(nil, s.o.View.Parser(), kinds, values)
	if err != nil && !errors.Is(err, occurrences.ErrTooMany) {
		return nil, fault.Field(extensionBy, "%s", err)
	}
	return all, err
}

// keysBy returns the keys of one part of the request, one for each value of a header or cookie.
// If there is no value, it returns the key of the address, so that leaving the header out does
// not avoid a limit. For IPv6 the text of that key is only the network by which clients are
// counted; blocks and exemptions apply to the full address in the key. of has the address and the
// attributes of the request.
func (s *Server) keysBy(a *authv3.AttributeContext, of *gate.Check, part string) ([]keys.Key, error) {
	if parts := strings.Split(part, "+"); len(parts) > 1 && len(parts) <= 4 {
		return s.keysTogether(a, of, parts)
	}
	kind, name, _ := strings.Cut(part, ":")
	var values []string
	switch {
	case part == "ip":
	case name == "" || escaped(name) != name || kind != "header" && kind != "cookie":
		return nil, fault.Field(extensionBy, "must be ip, header:NAME or cookie:NAME, or several of them with commas between, or for one key of several values with + between, as ip+path, of which path, method and host may be parts")
	case kind == "header":
		name = strings.ToLower(name)
		values = headerValues(a, name)
	default:
		values = cookieValues(a, name)
	}
	if len(values) == 0 {
		if of.Address.IsZero() {
			return nil, fault.Field("attributes.source.address", "is not the address of a socket, so the client is not known")
		}
		return []keys.Key{of.Address}, nil
	}
	all := make([]keys.Key, len(values))
	for i, value := range values {
		var err error
		if all[i], err = s.o.View.Parser().Key(kind + ":" + name + ":" + occurrences.Hash(value)); err != nil {
			return nil, fault.Field(extensionBy, "%s", err)
		}
	}
	return all, nil
}

// addressKey returns the key of the client's address, the zero key if it is not known.
func (s *Server) addressKey(a *authv3.AttributeContext) keys.Key {
	source, err := netip.ParseAddr(a.GetSource().GetAddress().GetSocketAddress().GetAddress())
	if err != nil {
		return keys.Key{}
	}
	clients := s.o.Clients()
	client := clients.Counted(source.Unmap().WithZone(""), linesOf(a, strings.ToLower(clients.HeaderName())))
	return s.o.View.Parser().AddressKey(client)
}

// headerValues returns all non-empty values of a header, whose name may be written with "-" or
// "_". If Envoy sends its map of headers, it has joined the lines.
func headerValues(a *authv3.AttributeContext, name string) (values []string) {
	request := a.GetRequest().GetHttp()
	for _, h := range request.GetHeaderMap().GetHeaders() {
		if line := valueOf(h); len(line) > 0 && httpserver.IsSameHeader(h.GetKey(), name) {
			values = append(values, string(line))
		}
	}
	if len(values) > 0 {
		return values
	}
	for sent, value := range request.GetHeaders() {
		if value != "" && httpserver.IsSameHeader(sent, name) {
			values = occurrences.AppendElements(values, name, value)
		}
	}
	slices.Sort(values) // the order of maps is random
	return values
}

func textsOf(lines [][]byte) (all []string) {
	for _, line := range lines {
		all = append(all, string(line))
	}
	return all
}

// linesOf returns the lines of a header of the client's request. name must be in lower case.
func linesOf(a *authv3.AttributeContext, name string) (lines [][]byte) {
	request := a.GetRequest().GetHttp()
	for _, h := range request.GetHeaderMap().GetHeaders() {
		if strings.ToLower(h.GetKey()) == name {
			lines = append(lines, valueOf(h))
		}
	}
	if value, found := request.GetHeaders()[name]; found && lines == nil {
		lines = [][]byte{[]byte(value)}
	}
	return lines
}

func valueOf(h *corev3.HeaderValue) []byte {
	if raw := h.GetRawValue(); len(raw) > 0 {
		return raw
	}
	return []byte(h.GetValue())
}

// answer converts a decision to a response.
func (s *Server) answer(d *gate.Decision) (*authv3.CheckResponse, error) {
	var headers []*corev3.HeaderValueOption
	for _, h := range s.headersOf(d) {
		headers = append(headers, &corev3.HeaderValueOption{Header: h, AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD})
	}
	response := &authv3.CheckResponse{Status: &spb.Status{}, DynamicMetadata: metadataOf(d)}
	if d.Allowed() {
		response.HttpResponse = &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{ResponseHeadersToAdd: headers}}
		return response, nil
	}
	if d.Outcome == gate.Challenged {
		headers = append(headers, &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: challenge.Header, Value: challenge.Path}})
	}
	code := denied[d.Outcome]
	kind, _ := wire.RefusalOf(string(d.Outcome))
	body := &wire.Refusal{
		Type: kind, Title: http.StatusText(int(code.status)), Status: int(code.status), Code: string(d.Outcome),
		Detail: string(wire.AppendRefusalDetail(nil, string(d.Outcome), ratelimit.RetryAfterSeconds(&d.Answer))),
	}
	if !d.ID.IsZero() {
		body.ID = d.ID.String()
	}
	if rule, found := ratelimit.Violated(d); found {
		body.Violated = []string{rule.String()}
	}
	refused, err := deny(code.status, code.code, body, headers...)
	if err != nil {
		return nil, err
	}
	refused.DynamicMetadata = response.DynamicMetadata
	return refused, nil
}

// deny returns a refusal. Its body is for the client.
func deny(status typev3.StatusCode, code codes.Code, problem any, headers ...*corev3.HeaderValueOption) (*authv3.CheckResponse, error) {
	body, err := json.Marshal(problem)
	if err != nil {
		return nil, err
	}
	headers = append(headers, &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: "Content-Type", Value: wire.ProblemType}})
	return &authv3.CheckResponse{
		Status: &spb.Status{Code: int32(code)}, //nolint:gosec // at most 16
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
			Status: &typev3.HttpStatus{Code: status}, Headers: headers, Body: string(body),
		}},
	}, nil
}

// denied defines the response to each refusal.
var denied = map[gate.Outcome]struct {
	status typev3.StatusCode
	code   codes.Code
}{
	gate.Limited:     {typev3.StatusCode_TooManyRequests, codes.ResourceExhausted},
	gate.Challenged:  {typev3.StatusCode_TooManyRequests, codes.ResourceExhausted},
	gate.Blocked:     {typev3.StatusCode_Forbidden, codes.PermissionDenied},
	gate.Unavailable: {typev3.StatusCode_ServiceUnavailable, codes.Unavailable},
}
