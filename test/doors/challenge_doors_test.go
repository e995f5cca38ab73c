package doors

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"google.golang.org/grpc/codes"

	stint "github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/client/fibermw"
)

// door is a way of browsers to challenges.
type door struct {
	name  string
	page  string   // of docs/doors, by which Connect knows it
	flags []string // of its node
	// start starts it in front of an application: 0 as in the minimal configuration of its page, 1 as in the complete one.
	start func(s *site, n int)
	// leads says that it leads browsers to challenges, and refuses them without a page.
	leads bool
	// address is that of its visitors under the minimal configuration.
	address string
	// down is what browsers are answered under the complete configuration while Stint is stopped.
	down int
	// widget is the configuration by which ALTCHA's widget comes through.
	widget int
}

// doors returns all doors that show challenges.
func doors() (all []door) {
	for _, g := range underTest() {
		d := door{name: g.name, page: strings.TrimSuffix(g.page, ".md"), start: func(s *site, n int) { s.behind(g, n) }, leads: g.language == "js", address: "127.0.0.1", down: g.down}
		if g.name == "haproxy" {
			d.widget = 2 // Captchas
		}
		all = append(all, d)
	}
	if *built == "" {
		all = append(all,
			door{name: "net/http", page: "go", start: func(s *site, _ int) { s.serve((&stint.Guard{Client: s.client()}).Handler(s.app)) }, leads: true, address: "127.0.0.1", down: http.StatusServiceUnavailable},
			door{name: "fiber", page: "go", start: startFiber, leads: true, address: "127.0.0.1", down: http.StatusServiceUnavailable},
			door{name: "ext_authz over gRPC", page: "envoy", start: startExtAuthzOverGRPC, address: client, down: http.StatusForbidden},
			door{name: "ext_authz over HTTP", page: "envoy", start: startExtAuthzOverHTTP, address: client, down: http.StatusForbidden},
		)
	}
	for i := range all {
		all[i].flags = []string{"--trusted-proxies", "127.0.0.1", "--grpc-listen", "127.0.0.1:0"}
	}
	return all
}

// serve makes a handler the site.
func (s *site) serve(h http.Handler) {
	server := httptest.NewServer(h)
	s.Cleanup(server.Close)
	s.url = server.URL
}

// stint returns where a door asks Stint: at two nodes alternately if there is another.
func (s *site) stint() string {
	s.Helper()
	if s.other == nil {
		return s.node.Check
	}
	if s.balanced == "" {
		var asked atomic.Int64
		var nodes [2]*url.URL
		for i, at := range []string{s.node.Check, s.other.Check} {
			u, err := url.Parse(at)
			if err != nil {
				s.Fatal(err)
			}
			nodes[i] = u
		}
		balancer := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(nodes[asked.Add(1)%2])
			r.Out.Host = r.In.Host
			for name, lines := range r.In.Header { // those of a proxy too
				r.Out.Header[name] = lines
			}
		}})
		s.Cleanup(balancer.Close)
		s.balanced = balancer.URL
	}
	return s.balanced
}

// client returns a Go client of Stint.
func (s *site) client() *stint.Client {
	s.Helper()
	c, err := stint.New(s.stint())
	if err != nil {
		s.Fatal(err)
	}
	return c
}

func startFiber(s *site, _ int) {
	s.Helper()
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(fibermw.New(fibermw.Config{Client: s.client()}), adaptor.HTTPHandler(s.app))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	go func() { _ = app.Listener(listener) }() // an error shows in the requests
	s.Cleanup(func() { _ = listener.Close() }) // a shutdown would wait for the browser's connections
	s.url = "http://" + listener.Addr().String()
}

func startExtAuthzOverHTTP(s *site, _ int) {
	s.Helper()
	pages := authzOf(s.T, 7)
	s.serve(&extAuthz{
		T: s.T, stint: s.stint(), prefix: pages.GetHttpService().GetPathPrefix(), app: s.app,
		sent: pages.GetAllowedHeaders().GetPatterns(), handed: pages.GetHttpService().GetAuthorizationResponse().GetAllowedClientHeaders().GetPatterns(),
	})
}

// startExtAuthzOverGRPC plays Envoy's filter ext_authz over gRPC, since no test can run Envoy: it sends all headers, and hands
// on what is answered.
func startExtAuthzOverGRPC(s *site, _ int) {
	s.Helper()
	nodes := []authv3.AuthorizationClient{authv3.NewAuthorizationClient(dialGRPC(s.T, s.node))}
	if s.other != nil {
		nodes = append(nodes, authv3.NewAuthorizationClient(dialGRPC(s.T, s.other)))
	}
	var asked atomic.Int64
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers := map[string]string{}
		for name, lines := range r.Header {
			separator := ","
			if name == "Cookie" {
				separator = "; "
			}
			headers[strings.ToLower(name)] = strings.Join(lines, separator)
		}
		q := httpCheck(client, nil, headers)
		h := q.Attributes.Request.Http
		h.Method, h.Path, h.Host, h.Scheme = r.Method, r.URL.RequestURI(), r.Host, "http"
		answer, err := nodes[asked.Add(1)%int64(len(nodes))].Check(r.Context(), q)
		switch {
		case err != nil:
			w.WriteHeader(http.StatusForbidden)
		case answer.GetStatus().GetCode() == int32(codes.OK):
			s.app.ServeHTTP(w, r)
		default:
			denied := answer.GetDeniedResponse()
			for _, header := range denied.GetHeaders() {
				w.Header().Set(header.GetHeader().GetKey(), header.GetHeader().GetValue())
			}
			w.WriteHeader(int(denied.GetStatus().GetCode()))
			_, _ = io.WriteString(w, denied.GetBody())
		}
	}))
}
