package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

const (
	smuggledID = "smuggled-request-01"
	followUpID = "follow-up-request-1"
	followUp   = "GET /livez HTTP/1.1\r\nHost: x\r\nX-Request-ID: " + followUpID + "\r\n\r\n"
)

// smugglingBody is a body that contains complete requests in each of its parts.
func smugglingBody(size int) string {
	const hidden = "GET /livez HTTP/1.1\r\nHost: x\r\nX-Request-ID: " + smuggledID + "\r\n\r\n"
	return strings.Repeat("\r\n", size%len(hidden)/2) + strings.Repeat("G", size%len(hidden)%2) + strings.Repeat(hidden, size/len(hidden))
}

// inChunks frames a body in chunks of a size.
func inChunks(body string, size int) string {
	var b strings.Builder
	for piece := range slices.Chunk([]byte(body), size) {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(piece), piece)
	}
	return b.String() + "0\r\n\r\n"
}

// wantOneAnswer fails the test unless a request got one response, and the follow-up request on the
// connection got its own response or none.
func wantOneAnswer(t *testing.T, answers []answer, status int) {
	t.Helper()
	for _, a := range answers {
		if a.header.Get("X-Request-Id") == smuggledID {
			t.Fatalf("a part of the body was parsed as a request: %+v", answers)
		}
	}
	switch {
	case len(answers) == 0 || len(answers) > 2 || len(answers) == 2 && (answers[1].status != 200 || answers[1].header.Get("X-Request-Id") != followUpID):
		t.Fatalf("got %d responses: %+v", len(answers), answers)
	case status != 0 && answers[0].status != status:
		t.Fatalf("got %d, want %d: %+v", answers[0].status, status, answers[0])
	}
}

// Sizes around every buffer that a body passes: fasthttp's 8 KiB of read-ahead, bufio's 4 KiB,
// the 16 KiB of the connection, and the limits of a check, of discarded bodies and of an admin
// request.
var bodySizes = []int{
	100, 4095, 4096, 4097, 8191, 8192, 8193, 16<<10 - 200, 16 << 10, 16<<10 + 1, 32 << 10,
	64<<10 - 1, 64 << 10, 64<<10 + 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 300_000, 1<<20 - 1, 1 << 20, 1<<20 + 1,
}

// framedBodies is a smugglingBody with a length or in chunks, and what follows it.
type framedBodies struct {
	size   int
	framed []string
}

// smugglingBodies returns the body of every size, which many requests are sent with.
func smugglingBodies() (all []framedBodies) {
	for _, size := range bodySizes {
		body := smugglingBody(size)
		one := framedBodies{size, []string{fmt.Sprintf("Content-Length: %d\r\n\r\n%s%s", len(body), body, followUp)}}
		for _, piece := range []int{997, 8192, 70_000} {
			if size < 300_000 || piece == 70_000 {
				one.framed = append(one.framed, "Transfer-Encoding: chunked\r\n\r\n"+inChunks(body, piece)+followUp)
			}
		}
		all = append(all, one)
	}
	return all
}

func TestBodyIsNeverParsedAsRequest(t *testing.T) {
	n := startNode(t, func(d *nodeParts) { d.Server.CheckAuth = true })
	admin, reader, checker := n.tokens[identity.Admin], n.tokens[identity.Read], n.tokens[identity.Check]
	const asJSON = "Content-Type: application/json\r\n"
	with := func(token string) string { return "Authorization: Bearer " + token + "\r\n" }
	bodies := smugglingBodies()
	for name, test := range map[string]struct {
		base, line, headers string
		status              int // of a body of at most 64 KiB
	}{
		"401":                  {n.admin, "POST /v1/blocks", asJSON, 401},
		"401 of a guess":       {n.admin, "POST /v1/blocks", with("guess") + asJSON, 0},
		"401 of a stream":      {n.admin, "POST /v1/restore", "Content-Type: application/octet-stream\r\n", 401},
		"401 of a GET":         {n.admin, "GET /v1/blocks", "", 401},
		"401 of a check":       {n.check, "POST /v1/check", asJSON, 401},
		"403":                  {n.admin, "POST /v1/blocks", with(reader) + asJSON, 403},
		"403 of a stream":      {n.admin, "POST /v1/blocks/import", with(reader) + "Content-Type: text/plain\r\n", 403},
		"404":                  {n.admin, "POST /nothing", asJSON, 404},
		"404 of a check":       {n.check, "POST /nothing", asJSON, 404},
		"404 behind a token":   {n.admin, "GET /v1/blocks/none", with(admin), 404},
		"405":                  {n.admin, "PUT /v1/blocks", asJSON, 405},
		"405 of a check":       {n.check, "PUT /v1/check", asJSON, 405},
		"400":                  {n.admin, "POST /v1/blocks", with(admin) + asJSON, 400},
		"400 of a check":       {n.check, "POST /v1/check", with(checker) + asJSON, 400},
		"415":                  {n.admin, "POST /v1/blocks", with(admin), 415},
		"415 of a stream":      {n.admin, "POST /v1/restore", with(admin), 404}, // this node has no backups
		"415 of an import":     {n.admin, "POST /v1/blocks/import", with(admin), 415},
		"415 of a check":       {n.check, "POST /v1/check", with(checker), 415},
		"422 of an import":     {n.admin, "POST /v1/blocks/import", with(admin) + "Content-Type: text/plain\r\n", 422},
		"501":                  {n.admin, "BREW /v1/blocks", "", 501},
		"501 of a check":       {n.check, "BREW /v1/check", "", 501},
		"200 of a GET":         {n.admin, "GET /v1/blocks", with(admin), 200},
		"200 of a probe":       {n.admin, "GET /livez", "", 200},
		"200 of a check probe": {n.check, "GET /livez", "", 200},
		"a target of another":  {n.admin, "POST http://y/v1/blocks", "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			for _, body := range bodies {
				status := test.status
				if body.size > 64<<10 {
					status = 0 // the body may be too large before anything else
				}
				start := test.line + " HTTP/1.1\r\nHost: x\r\n" + test.headers
				for _, framed := range body.framed {
					wantOneAnswer(t, raw(t, test.base, start+framed), status)
				}
			}
		})
	}
}

func TestOversizedBodyIsRejectedOnBothListeners(t *testing.T) {
	n := startNode(t)
	for name, test := range map[string]struct {
		base, start string
		size        int
	}{
		"of a check":         {n.check, "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n", checkBody + 1},
		"of a batch":         {n.check, "POST /v1/check/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n", batchBody + 1},
		"of an admin change": {n.admin, "POST /v1/blocks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer " + n.tokens[identity.Operate] + "\r\n", httpserver.MaxBody + 1},
		"of a GET":           {n.admin, "GET /v1/blocks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + n.tokens[identity.Operate] + "\r\n", httpserver.MaxBody + 1},
	} {
		t.Run(name, func(t *testing.T) {
			body := smugglingBody(test.size)
			wantOneAnswer(t, raw(t, test.base, fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s%s", test.start, len(body), body, followUp)), http.StatusRequestEntityTooLarge)
			wantOneAnswer(t, raw(t, test.base, test.start+"Transfer-Encoding: chunked\r\n\r\n"+inChunks(body, 8192)+followUp), http.StatusRequestEntityTooLarge)
		})
	}
}

func TestClientReceivesRefusalDuringUpload(t *testing.T) {
	n := startNode(t)
	body := strings.Repeat("x", 6<<20) // more than the system's buffers take
	answers := raw(t, n.admin, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n%s", wire.PathRestore, len(body), body))
	if len(answers) != 1 || answers[0].status != http.StatusUnauthorized {
		t.Fatalf("got %+v", answers)
	}
}

func TestRequestsOnOneConnectionAreAnsweredInOrder(t *testing.T) {
	n := startNode(t)
	var text strings.Builder
	for i := range 20 {
		body := fmt.Sprintf(`{"key":"a:%d"}`, i)
		start := fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: x\r\nX-Request-ID: ordered-%02d\r\nContent-Type: application/json\r\n", i)
		if i%2 == 0 {
			fmt.Fprintf(&text, "%sContent-Length: %d\r\n\r\n%s", start, len(body), body)
		} else {
			fmt.Fprintf(&text, "%sTransfer-Encoding: chunked\r\n\r\n%s", start, inChunks(body, 3))
		}
	}
	answers := raw(t, n.check, text.String())
	for i, a := range answers {
		if a.status != 200 || a.header.Get("X-Request-Id") != fmt.Sprintf("ordered-%02d", i) {
			t.Fatalf("response %d: got %+v", i, a)
		}
	}
	if len(answers) != 20 {
		t.Fatalf("got %d responses, want 20", len(answers))
	}
}
