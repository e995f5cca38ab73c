package doors

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/status"
)

// A client that repeats a header or cookie with different values is counted under each value.
func TestForwardRepeatedHeaderOrCookieDoesNotEvadeTheLimit(t *testing.T) {
	s := direct(t)
	s.put("site", `{"match":["header:*","cookie:*"],"rules":["3/1d"]}`)
	for i, c := range []struct {
		query, lines string // %[1]d is a new number in each request
	}{
		{"by=cookie:sessionid", "Cookie: sessionid=junk%[1]d; sessionid=real\r\n"},
		{"by=cookie:sessionid", "Cookie: sessionid=real; sessionid=junk%[1]d\r\n"},
		{"by=cookie:sessionid", "Cookie: sessionid=junk%[1]d\r\nCookie: sessionid=real\r\n"},
		{"by=header:X-Api-Key", "X-Api-Key: junk%[1]d\r\nX-Api-Key: real\r\n"},
		{"by=header:X-Api-Key", "X-Api-Key: real\r\nX_Api_Key: junk%[1]d\r\n"},
		{"by=header:X-Api-Key", "X_Api_Key: real\r\nx-api_key: junk%[1]d\r\n"},
		{"by=header:x_api_key", "X-Api-Key: real\r\nX-Api-Key: junk%[1]d\r\n"},
		{"by=plain-header:X-User", "X-User: junk%[1]d\r\nX-User: real\r\n"},
		{"by=ip&by=header:X-Api-Key", "X-Api-Key: junk%[1]d\r\nX-Api-Key: real\r\n"},
		// With path=, as Envoy calls it, lines may be joined.
		{"by=header:X-Api-Key&path=/", "X-Api-Key: junk%[1]d,real\r\n"},
		{"by=cookie:sessionid&path=/", "Cookie: a=1,sessionid=real,sessionid=junk%[1]d\r\n"},
	} {
		value := fmt.Sprintf("real%d", i)
		for n := range 4 {
			lines := strings.NewReplacer("real", value, "junk", fmt.Sprintf("junk%d-", i)).Replace(fmt.Sprintf(c.lines, n))
			line := s.raw("GET /v1/forward?policy=site&" + c.query + " HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100." + fmt.Sprint(i) + "\r\n" + lines + "\r\n")
			want := " 200 "
			if n == 3 {
				want = " 429 "
			}
			if !strings.Contains(line, want) {
				t.Errorf("%s with %q, request %d: got %q, want%s", c.query, lines, n, line, want)
			}
		}
	}
	// Applications read these as one value.
	s.expect("a plain value", s.get("/v1/forward?policy=site&by=cookie:s", "Cookie: s=spelled"), http.StatusOK)
	s.expect("percent-encoded", s.get("/v1/forward?policy=site&by=cookie:s", "Cookie: s=%73pelled"), http.StatusOK)
	s.expect("in octal digits", s.get("/v1/forward?policy=site&by=cookie:s", `Cookie: s="\163pelled"`), http.StatusOK)
	s.expect("once more", s.get("/v1/forward?policy=site&by=cookie:s", "Cookie: s=s%70elled"), http.StatusTooManyRequests)
	// Two values are two keys, and the same value twice is one.
	s.expect("twice the same", s.get("/v1/forward?policy=site&by=cookie:s", "Cookie: s=once; s=once; s=other"), http.StatusOK)
	for _, value := range []string{"once", "other"} {
		if used := s.used("cookie:s:" + hashed(value)); used != 1 {
			t.Errorf("%s has used %d, want 1", value, used)
		}
	}
	// A comma in the value of the client is a part of the value.
	s.expect("a comma", s.get("/v1/forward?policy=site&by=header:X-Api-Key", "X-Api-Key: C=DE,O=Example"), http.StatusOK)
	if used := s.used("header:x-api-key:" + hashed("C=DE,O=Example")); used != 1 {
		t.Errorf("the value with a comma has used %d, want 1", used)
	}
}

// A request with more values than a check may have is refused, and charges nothing.
func TestForwardRefusesMoreValuesThanACheckMayHave(t *testing.T) {
	s := direct(t)
	s.put("site", `{"match":["ip:*","cookie:*"],"rules":["3/1d"]}`)
	cookies := func(n int) string { return "Cookie: s=first" + manyCookies("s", n) }
	r := s.get("/v1/forward?policy=site&by=cookie:s", cookies(16))
	s.expect("17 values", r, http.StatusBadRequest)
	if !strings.Contains(r.body, "more than 16 values") {
		t.Errorf("the answer does not name the limit of 16 values: %s", r.body)
	}
	if used := s.used("cookie:s:" + hashed("first")); used != 0 {
		t.Errorf("a refused request charged %d, want 0", used)
	}
	s.expect("16 values", s.get("/v1/forward?policy=site&by=cookie:s", cookies(15)), http.StatusOK)
	if used := s.used("cookie:s:" + hashed("of-14")); used != 1 {
		t.Errorf("the last of 16 values has used %d, want 1", used)
	}
}

func TestEnvoyRepeatedHeaderDoesNotEvadeTheLimit(t *testing.T) {
	e := startEnvoySide(t)
	e.node.Do(t, http.MethodPut, "/v1/policies/secrets?confirm=secrets", `{"match":["header:*","cookie:*"],"rules":["3/1d"]}`, http.StatusCreated)
	joined := func(name, value string) *authv3.CheckRequest {
		return httpCheck("198.51.100.7", nil, map[string]string{name: value})
	}
	lines := func(all ...string) *authv3.CheckRequest { // with encode_raw_headers
		q := httpCheck("198.51.100.7", nil, nil)
		m := &corev3.HeaderMap{}
		for _, line := range all {
			name, value, _ := strings.Cut(line, ": ")
			m.Headers = append(m.Headers, &corev3.HeaderValue{Key: name, RawValue: []byte(value)})
		}
		q.Attributes.Request.Http.HeaderMap = m
		return q
	}
	for i, c := range []struct {
		by   string
		make func(real string, n int) *authv3.CheckRequest
	}{
		{"header:X-Api-Key", func(real string, n int) *authv3.CheckRequest {
			return joined("x-api-key", fmt.Sprintf("%s,junk%d", real, n))
		}},
		{"header:X-Api-Key", func(real string, n int) *authv3.CheckRequest {
			return joined("x-api-key", fmt.Sprintf("junk%d, %s", n, real))
		}},
		{"header:X-Api-Key", func(real string, n int) *authv3.CheckRequest {
			return joined("x_api_key", fmt.Sprintf("junk%d, %s", n, real))
		}},
		{"cookie:s", func(real string, n int) *authv3.CheckRequest {
			return joined("cookie", fmt.Sprintf("s=junk%d; s=%s", n, real))
		}},
		{"cookie:s", func(real string, n int) *authv3.CheckRequest {
			return joined("cookie", fmt.Sprintf("a=%d,s=%s", n, real))
		}},
		{"ip,header:X-Api-Key", func(real string, n int) *authv3.CheckRequest {
			return lines(fmt.Sprintf("x-api-key: junk%d", n), "x_api-key: "+real)
		}},
		{"cookie:s", func(real string, n int) *authv3.CheckRequest {
			return lines(fmt.Sprintf("cookie: s=junk%d", n), "cookie: s="+real)
		}},
	} {
		for n := range 4 {
			q := c.make(fmt.Sprint("real", i), 10*i+n)
			q.Attributes.ContextExtensions = map[string]string{"by": c.by, "policy": "secrets"}
			answer, err := authv3.NewAuthorizationClient(e.conn).Check(t.Context(), q)
			if refused := answer.GetDeniedResponse() != nil; err != nil || refused != (n == 3) {
				t.Errorf("case %d, request %d: got %v, %v", i, n, answer, err)
			}
		}
	}
	many := joined("x-api-key", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q")
	many.Attributes.ContextExtensions = map[string]string{"by": "header:X-Api-Key"}
	answer, err := authv3.NewAuthorizationClient(e.conn).Check(t.Context(), many)
	if err != nil || answer.GetDeniedResponse().GetStatus().GetCode() != http.StatusBadRequest || answer.GetStatus().GetCode() == 0 {
		t.Errorf("17 values: got %v, %v", answer, status.Code(err))
	}
}
