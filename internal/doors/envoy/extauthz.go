package envoy

import (
	"context"
	"net/netip"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/go-json-experiment/json"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/ratelimit"
	"github.com/stint-dev/stint/internal/wire"
)

// The context extensions that are read, which an operator wrote for a route. Others are
// left to other services.
const (
	extensionPolicy = "policy"
	extensionCost   = "cost"
	extensionBy     = "by" // ip, or header:NAME, whose value is hashed; several with commas between
	extensionSource = "source"
)

// Check implements external authorization. Of the client's request it reads the address,
// the headers that by names, and the attributes that conditions of policies are about.
func (s *Server) Check(ctx context.Context, q *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	checks, err := s.readCheck(q.GetAttributes())
	if err != nil {
		return nil, err
	}
	meta := metaOf(ctx)
	for i := range checks {
		checks[i].Meta = meta
	}
	var d gate.Decision
	if len(checks) == 1 {
		d, err = s.o.Gate.Check(ctx, checks[0])
	} else {
		var all gate.Combined
		if all, err = s.o.Gate.DecideAllOrApart(ctx, checks); err == nil {
			d = ratelimit.Summary(&all)
		}
	}
	if err != nil {
		return nil, err
	}
	return s.answer(&d)
}

func (s *Server) readCheck(a *authv3.AttributeContext) ([]gate.Check, error) {
	extensions := a.GetContextExtensions()
	check := gate.Check{Policy: extensions[extensionPolicy], Cost: 1, Detail: true, Source: extensions[extensionSource], Request: requestOf(a)}
	if err := fault.CheckLine(extensionSource, check.Source, wire.MaxSource); err != nil {
		return nil, err
	}
	if text, given := extensions[extensionCost]; given {
		cost, err := strconv.Atoi(text)
		if err != nil || cost < 1 || cost > wire.MaxCost {
			return nil, fault.Field(extensionCost, "must be a whole number from 1 to %d", wire.MaxCost)
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
		key, err := s.keyBy(a, strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if seen[key.String()] {
			continue
		}
		seen[key.String()] = true
		check.Key = key
		checks = append(checks, check)
	}
	return checks, nil
}

// requestOf returns what is known of the client's request, for policies with conditions.
func requestOf(a *authv3.AttributeContext) *conditions.Request {
	request := a.GetRequest().GetHttp()
	agent := ""
	if lines := linesOf(a, "user-agent"); len(lines) > 0 {
		agent = string(lines[0])
	}
	return conditions.NewRequest(request.GetPath(), request.GetMethod(), agent, request.GetHost())
}

// keyBy returns the key of one part of the request. Without the header it is that of the
// address, so that leaving the header out lifts no limit. The text of that key is only what an
// IPv6 client is counted by: blocks and exemptions are about the address in the key.
func (s *Server) keyBy(a *authv3.AttributeContext, part string) (keys.Key, error) {
	name, isHeader := strings.CutPrefix(part, "header:")
	name = strings.ToLower(name)
	if !isHeader && part != "ip" || isHeader && (name == "" || escaped(name) != name) {
		return keys.Key{}, fault.Field(extensionBy, "must be ip or header:NAME, or several of them with commas between")
	}
	if isHeader {
		if lines := linesOf(a, name); len(lines) > 0 && len(lines[0]) > 0 {
			key, err := s.o.View.Parser().Key("header:" + name + ":" + hash(string(lines[0])))
			if err != nil {
				return key, fault.Field(extensionBy, "%s", err)
			}
			return key, nil
		}
	}
	source, err := netip.ParseAddr(a.GetSource().GetAddress().GetSocketAddress().GetAddress())
	if err != nil {
		return keys.Key{}, fault.Field("attributes.source.address", "is not the address of a socket, so the client is not known")
	}
	clients := s.o.Clients()
	client := clients.From(source.Unmap().WithZone(""), linesOf(a, strings.ToLower(clients.HeaderName())))
	return s.o.View.Parser().AddressKey(client), nil
}

// linesOf returns the lines of a header of the client's request, whose name is in lower
// case.
func linesOf(a *authv3.AttributeContext, name string) (lines [][]byte) {
	request := a.GetRequest().GetHttp()
	for _, h := range request.GetHeaderMap().GetHeaders() {
		switch {
		case strings.ToLower(h.GetKey()) != name:
		case len(h.GetRawValue()) > 0:
			lines = append(lines, h.GetRawValue())
		default:
			lines = append(lines, []byte(h.GetValue()))
		}
	}
	if value, found := request.GetHeaders()[name]; found && lines == nil {
		lines = [][]byte{[]byte(value)}
	}
	return lines
}

// answer writes a decision. The body of a refusal is for the client that is refused.
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
	code := denied[d.Outcome]
	body, err := json.Marshal(&wire.Problem{
		Type: "about:blank", Title: code.title, Status: int(code.status), Code: string(d.Outcome), Detail: code.title + ".",
	})
	if err != nil {
		return nil, err
	}
	headers = append(headers, &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: "Content-Type", Value: wire.ProblemType}})
	response.Status.Code = int32(code.code) //nolint:gosec // at most 16
	response.HttpResponse = &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
		Status: &typev3.HttpStatus{Code: code.status}, Headers: headers, Body: string(body),
	}}
	return response, nil
}

// denied is how each refusal is answered.
var denied = map[gate.Outcome]struct {
	status typev3.StatusCode
	code   codes.Code
	title  string
}{
	gate.Limited:     {typev3.StatusCode_TooManyRequests, codes.ResourceExhausted, "Too Many Requests"},
	gate.Blocked:     {typev3.StatusCode_Forbidden, codes.PermissionDenied, "Forbidden"},
	gate.Unavailable: {typev3.StatusCode_ServiceUnavailable, codes.Unavailable, "Service Unavailable"},
}
