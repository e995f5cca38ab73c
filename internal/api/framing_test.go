package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// raw sends bytes on one connection and returns every answer until the server
// closes it or sends no more.
func raw(t *testing.T, base, text string) []answer {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Logf("the server closed the connection during the write: %v", err)
	}
	// The server may have closed the connection already; the responses show it.
	_ = conn.(*net.TCPConn).CloseWrite()
	var answers []answer
	from := bufio.NewReader(conn)
	for {
		response, err := http.ReadResponse(from, nil)
		if err != nil {
			return answers
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, answer{response.StatusCode, response.Header, string(body)})
	}
}

func TestAmbiguousFramingIsRejectedAndClosesConnection(t *testing.T) {
	n := startNode(t)
	const (
		good    = `{"key":"a"}`
		hidden  = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n" + good
		request = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	)
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(good), good)
	for name, headers := range map[string]string{
		"two different lengths":              "Content-Length: 0\r\nContent-Length: 11\r\n\r\n" + good,
		"two lengths, the smaller last":      fmt.Sprintf("Content-Length: %d\r\nContent-Length: 11\r\n\r\n%s", 11+len(hidden), good),
		"the same length twice":              "Content-Length: 11\r\nContent-Length: 11\r\n\r\n" + good,
		"two lengths in one":                 "Content-Length: 11, 11\r\n\r\n" + good,
		"a signed length":                    "Content-Length: +11\r\n\r\n" + good,
		"a negative length":                  "Content-Length: -1\r\n\r\n" + good,
		"a length in hexadecimal":            "Content-Length: 0xb\r\n\r\n" + good,
		"a huge length":                      "Content-Length: 99999999999999999999\r\n\r\n" + good,
		"a length and chunks":                "Content-Length: 11\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
		"a length and no chunk":              "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"chunks and a length":                "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunked,
		"a length in lower case, and chunks": "content-length: 11\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
		"chunks twice":                       "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
		"chunks by another name":             "Transfer-Encoding: xchunked\r\n\r\n" + chunked,
		"chunks after identity":              "Transfer-Encoding: identity, chunked\r\n\r\n" + chunked,
		"a space before the colon":           "Content-Length : 11\r\n\r\n" + good,
		"a tab before the colon":             "Content-Length\t: 11\r\n\r\n" + good,
		"a NUL in a value":                   "X-A: b\x00c\r\nContent-Length: 11\r\n\r\n" + good,
		"a NUL in a name":                    "X-\x00A: b\r\nContent-Length: 11\r\n\r\n" + good,
		"a CR in a value":                    "X-A: b\rContent-Length: 11\r\n\r\n" + good,
		"a CR before a CRLF":                 "X-A: b\r\r\nContent-Length: 11\r\n\r\n" + good,
		"a NUL in a signature":               "Signature: sig1=:AA\x00==:\r\nContent-Length: 11\r\n\r\n" + good,
		"a folded signature":                 "Signature-Input: sig1=()\r\n ;tag=\"web-bot-auth\"\r\nContent-Length: 11\r\n\r\n" + good,
		"a CR in a signature's agent":        "Signature-Agent: sig1=\"https://a.example\"\rContent-Length: 11\r\n\r\n" + good,
		"two hosts":                          "Host: y\r\nContent-Length: 11\r\n\r\n" + good,
		"chunks by a quoted name":            "Transfer-Encoding: \"chunked\"\r\n\r\n" + chunked,
		"chunks with a space before a colon": "Transfer-Encoding : chunked\r\n\r\n" + chunked,
		"chunks after a vertical tab":        "Transfer-Encoding:\x0bchunked\r\n\r\n" + chunked,
		"a length and chunks by two names":   "Content-Length: 11\r\nTransfer_Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
		"a line feed in an extension":        "Transfer-Encoding: chunked\r\n\r\nb;\n" + good + "\r\n0\r\n\r\n",
		"a size that overflows":              "Transfer-Encoding: chunked\r\n\r\n1000000000000000b\r\n" + good + "\r\n0\r\n\r\n",
		"a trailer":                          "Transfer-Encoding: chunked\r\n\r\nb\r\n" + good + "\r\n0\r\nContent-Length: 11\r\n\r\n",
		"a folded header":                    "X-A: b\r\n Content-Length: 11\r\nContent-Length: 11\r\n\r\n" + good,
	} {
		t.Run(name, func(t *testing.T) {
			answers := raw(t, n.check, request+headers+hidden)
			if len(answers) != 1 || answers[0].status < 400 || answers[0].status > 499 {
				t.Fatalf("got %d responses, want one: %+v", len(answers), answers)
			}
			(&testNode{T: t}).wantProblem(answers[0], answers[0].status, "")
		})
	}
	for name, text := range map[string]string{
		"with a length":    request + "Content-Length: 11\r\n\r\n" + good + hidden,
		"in chunks":        request + "Transfer-Encoding: chunked\r\n\r\n" + chunked + hidden,
		"without a second": request + "Content-Length: 11\r\n\r\n" + good,
		"with extensions":  request + "Transfer-Encoding: chunked\r\n\r\nb;a=b\r\n" + good + "\r\n0;c\r\n\r\n" + hidden,
		"by a whole URL":   strings.Replace(request, "/v1/check", "http://X/v1/check", 1) + "Content-Length: 11\r\n\r\n" + good + hidden,
	} {
		t.Run("valid "+name, func(t *testing.T) {
			answers := raw(t, n.check, text)
			if want := strings.Count(text, "POST"); len(answers) != want {
				t.Fatalf("got %d responses, want %d", len(answers), want)
			}
		})
	}
}

func TestHTTPErrorsReturnProblems(t *testing.T) {
	n := startNode(t)
	for name, test := range map[string]struct {
		base, text string
		status     int
	}{
		"an unknown path":              {n.check, "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", 404},
		"another case":                 {n.check, "POST /V1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404},
		"a slash at the end":           {n.check, "POST /v1/check/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404},
		"an admin path":                {n.check, "GET /v1/policies HTTP/1.1\r\nHost: x\r\n\r\n", 404},
		"a check on admin listener":    {n.admin, "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404},
		"another method":               {n.check, "GET /v1/check HTTP/1.1\r\nHost: x\r\n\r\n", 405},
		"an unknown method":            {n.check, "BREW /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 501},
		"not HTTP":                     {n.check, "hello\r\n\r\n", 400},
		"oversized headers":            {n.check, "GET /livez HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 20<<10) + "\r\n\r\n", 431},
		"an oversized body":            {n.check, fmt.Sprintf("POST /v1/check/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{%s", 5<<20, strings.Repeat(" ", 8<<10)), 413},
		"an unknown path below a name": {n.admin, "GET /v1/policies/a%00b/../../x HTTP/1.1\r\nHost: x\r\n\r\n", 404},
	} {
		t.Run(name, func(t *testing.T) {
			answers := raw(t, test.base, test.text)
			if len(answers) != 1 {
				t.Fatalf("got %d responses, want one: %+v", len(answers), answers)
			}
			p := (&testNode{T: t}).wantProblem(answers[0], test.status, "")
			if strings.Contains(p.Detail, "/nothing") || strings.Contains(p.Detail, "hello") {
				t.Errorf("the problem repeats the request: %s", p.Detail)
			}
			if test.status == 405 && answers[0].header.Get("Allow") != "POST" {
				t.Errorf("got the header Allow %q, want POST", answers[0].header.Get("Allow"))
			}
		})
	}
}

func TestPanicIsHiddenFromCaller(t *testing.T) {
	n := startNode(t, func(d *nodeParts) {
		d.Extra = []httpserver.Route{{Method: http.MethodGet, Path: "/panic", Access: "public", Handler: func(*httpserver.Call) error { panic("the secret is 5\nforged line") }}}
	})
	p := n.wantProblem(n.send(http.MethodGet, n.admin+"/panic", ""), http.StatusInternalServerError, "")
	if p.Code != "internal" || strings.Contains(p.Detail, "secret") {
		t.Fatalf("got %+v", p)
	}
	n.must(n.send(http.MethodGet, n.admin+"/livez", ""), http.StatusOK)
	if !strings.Contains(n.logged.String(), p.RequestID) || strings.Contains(n.logged.String(), "\nforged") {
		t.Fatalf("the log lacks the request id, or contains a forged line: %s", n.logged)
	}
}

func TestPlainRequestIDIsKept(t *testing.T) {
	n := startNode(t)
	if got := n.send(http.MethodGet, n.admin+"/livez", "", "X-Request-ID: trace-0123456789").header.Get("X-Request-ID"); got != "trace-0123456789" {
		t.Errorf("got %q", got)
	}
	for _, bad := range []string{"short", strings.Repeat("x", 65), "with space in it", "quo\"te-0123456789"} {
		if got := n.send(http.MethodGet, n.admin+"/livez", "", "X-Request-ID: "+bad).header.Get("X-Request-ID"); got == bad || got == "" {
			t.Errorf("the request id %q: got %q, want a generated one", bad, got)
		}
	}
	p := n.wantProblem(n.send(http.MethodGet, n.admin+wire.PathPolicies, "", "X-Request-ID: trace-0123456789"), http.StatusUnauthorized, "")
	if p.RequestID != "trace-0123456789" {
		t.Errorf("got %q", p.RequestID)
	}
}

func TestBodyReadTimeoutReturnsProblem(t *testing.T) {
	n := startNode(t)
	slow := httpserver.New(httpserver.Options{Credentials: n.known, Now: n.clock.Now}, n.api.Routes())
	slow.CheckApp().Server().ReadTimeout = 200 * time.Millisecond
	slow.AdminApp().Server().ReadTimeout = 200 * time.Millisecond
	for name, test := range map[string]struct{ base, request string }{
		"of a check":         {n.serve(slow.CheckApp()), "POST /v1/check HTTP/1.1\r\n"},
		"of an admin change": {n.serve(slow.AdminApp()), "POST /v1/blocks HTTP/1.1\r\nAuthorization: Bearer " + n.tokens[operate] + "\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(test.base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, test.request+"Host: x\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{"); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			(&testNode{T: t}).wantProblem(answer{response.StatusCode, response.Header, string(body)}, http.StatusRequestTimeout, "")
		})
	}
}
