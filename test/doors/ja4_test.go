package doors

import (
	"net/http"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/stint-dev/stint/test/testnode"
)

const onlyJA4 = `{"match":["ip:*"],"rules":["0/1s"],"when":{"ja4":["t13d1516h2_*"]}}`

const someJA4 = "t13d1516h2_8daaf6152771_b186095e22b6"

// A fingerprint counts in the header that the operator names, once, and from a trusted proxy.
func TestFingerprintsOfTLSAreThoseOfATrustedProxy(t *testing.T) {
	s := direct(t, "--ja4-header", "X-JA4")
	s.put("site", roomy)
	s.put("one", onlyJA4)
	asks := func(s *site, headers http.Header) int {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/forward?by=ip", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		q.Header = headers
		answer, err := keepAlive.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	ask := func(s *site, values ...string) int { return asks(s, http.Header{"X-Ja4": values}) }
	for _, c := range []struct {
		values []string
		want   int
	}{
		{[]string{someJA4}, http.StatusTooManyRequests}, {[]string{"T13D1516H2_8DAAF6152771_x"}, http.StatusTooManyRequests},
		{nil, http.StatusOK}, {[]string{"t13d1715h2_5b57614c22b0_3d5424432f57"}, http.StatusOK}, {[]string{"t12", someJA4}, http.StatusTooManyRequests}, {[]string{"t12", "t13"}, http.StatusTooManyRequests},
	} {
		if got := ask(s, c.values...); got != c.want {
			t.Errorf("with %q: got %d, want %d", c.values, got, c.want)
		}
	}
	// What a client sends under another spelling is not read: it neither evades nor causes a refusal.
	if got := asks(s, http.Header{"X-Ja4": {someJA4}, "X_JA4": {"t12"}}); got != http.StatusTooManyRequests {
		t.Errorf("with a second spelling: got %d", got)
	}
	if got := asks(s, http.Header{"X-Ja4": {"t12"}, "X_JA4": {someJA4}}); got != http.StatusOK {
		t.Errorf("with a fingerprint in the second spelling: got %d", got)
	}
	for _, flags := range [][]string{{"--ja4-header", "X-JA4"}, {"--trusted-proxies", "127.0.0.1"}} {
		other := &site{T: t, node: testnode.Start(t, flags...)}
		other.url = other.node.Check
		other.put("site", roomy)
		other.put("one", onlyJA4)
		if got := ask(other, someJA4); got != http.StatusOK {
			t.Errorf("a node with %q only: got %d", flags, got)
		}
	}
	for body, status := range map[string]int{
		`{"key":"ip:198.51.100.7","request":{"ja4":"` + someJA4 + `"}}`: http.StatusTooManyRequests,
		`{"key":"ip:198.51.100.7","request":{"ja4":"t13d"}}`:            http.StatusOK,
		`{"key":"ip:198.51.100.7","request":{"ja4":1}}`:                 http.StatusUnprocessableEntity,
	} {
		if r := s.send(http.MethodPost, "/v1/check", body, "Content-Type: application/json"); r.status != status {
			t.Errorf("%s: got %d, want %d: %s", body, r.status, status, r.body)
		}
	}
}

func TestEnvoySendsFingerprintsOfTLS(t *testing.T) {
	e := startEnvoySide(t, "--ja4-header", "X-JA4")
	e.node.Do(t, http.MethodPut, "/v1/policies/one?confirm=one", onlyJA4, http.StatusCreated)
	client := authv3.NewAuthorizationClient(e.conn)
	for value, isRefused := range map[string]bool{someJA4: true, "t13d": false, "t12," + someJA4: true} {
		for _, headers := range []map[string]string{{"x-ja4": value}, {"x-ja4": value, "x_ja4": "t12"}} {
			a, err := client.Check(t.Context(), httpCheck("198.51.100.7", nil, headers))
			if err != nil {
				t.Fatal(err)
			}
			if got := a.GetStatus().GetCode() != 0; got != isRefused {
				t.Errorf("with %q it is refused: %v", headers, got)
			}
		}
	}
}
