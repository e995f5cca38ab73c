package doors

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// extAuthz plays Envoy's filter ext_authz over HTTP by the rules of Envoy's documentation, since no test can run
// Envoy: what it sends and hands on is by the configuration of the page, which Envoy's own types read.
type extAuthz struct {
	*testing.T
	stint, prefix string
	sent, handed  []*matcherv3.StringMatcher
	app           http.Handler
}

func selects(patterns []*matcherv3.StringMatcher, header string) bool {
	for _, p := range patterns {
		if exact := p.GetExact(); exact != "" && strings.EqualFold(exact, header) {
			return true
		}
		if prefix := p.GetPrefix(); prefix != "" && strings.HasPrefix(strings.ToLower(header), prefix) {
			return true
		}
	}
	return false
}

func (e *extAuthz) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ask, err := http.NewRequestWithContext(r.Context(), r.Method, e.stint+e.prefix+r.URL.RequestURI(), http.NoBody)
	if err != nil {
		e.Error(err)
		return
	}
	r.Header.Set("X-Forwarded-For", client) // with use_remote_address
	for name, lines := range r.Header {
		if selects(e.sent, name) {
			ask.Header[name] = lines
		}
	}
	ask.Header.Set("X-Stint-Token", "")
	ask.Host = r.Host
	answer, err := keepAlive.Do(ask)
	switch {
	case err != nil || answer.StatusCode >= http.StatusInternalServerError:
		w.WriteHeader(http.StatusForbidden)
		return
	case answer.StatusCode == http.StatusOK:
		answer.Body.Close()
		e.app.ServeHTTP(w, r)
		return
	}
	defer answer.Body.Close()
	for name, lines := range answer.Header {
		if selects(e.handed, name) || name == "Location" || name == "Www-Authenticate" || name == "Content-Length" {
			w.Header()[name] = lines
		}
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

// authzOf reads the n-th configuration of Envoy's page.
func authzOf(t *testing.T, n int) *authzv3.ExtAuthz {
	t.Helper()
	fields, read := map[string]any{}, new(authzv3.ExtAuthz)
	if err := yaml.Unmarshal([]byte(configuration(t, gateway{page: "envoy.md", language: "yaml"}, n)), &fields); err != nil {
		t.Fatal(err)
	}
	if typed, is := fields["typed_config"].(map[string]any); is {
		delete(typed, "@type")
		fields = typed
	}
	encoded, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(encoded, read); err != nil {
		t.Fatal(err)
	}
	return read
}
