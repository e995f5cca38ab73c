package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

func TestConnectReturnsGuideAndToken(t *testing.T) {
	n := startNode(t)
	all := read[wire.Page[wire.Gateway]](t, n.must(n.as(identity.Read, http.MethodGet, wire.PathConnect, ""), http.StatusOK)).Items
	if len(all) < 9 {
		t.Errorf("got the gateways %v, want at least 9", all)
	}
	path := wire.PathConnect + "/caddy"
	guide := read[wire.Guide](t, n.must(n.as(identity.Read, http.MethodGet, path, ""), http.StatusOK))
	if guide.Title != "Caddy" || guide.Scope != "check" || guide.Token != nil || len(guide.Steps) == 0 {
		t.Errorf("got %+v", guide)
	}
	made := read[wire.Guide](t, n.must(n.as(identity.Admin, http.MethodPost, path+"/token", ""), http.StatusCreated))
	if made.Token == nil || made.Token.Name != "caddy" || len(made.Token.Scopes) != 1 || made.Token.Scopes[0] != "check" {
		t.Fatalf("got %+v", made.Token)
	}
	config := ""
	for _, s := range made.Steps {
		config += s.Config
	}
	if !strings.Contains(config, `X-Stint-Token "`+made.Token.Secret+`"`) || !strings.Contains(config, "forward_auth 127.0.0.1:8080") {
		t.Errorf("got the configuration %s, want the token and the address in it", config)
	}
	// Any client can send this header: what asks the node where would be its choice.
	if a := n.must(n.as(identity.Read, http.MethodGet, path, "", "X-Forwarded-Host: other.example"), http.StatusOK); strings.Contains(a.body, "other.example") {
		t.Errorf("the guide has the host of X-Forwarded-Host: %s", a.body)
	}
	for _, wrong := range []string{"/nothing", "/README", "/caddy.md"} {
		n.wantProblem(n.as(identity.Admin, http.MethodGet, wire.PathConnect+wrong, ""), http.StatusNotFound, "")
		n.wantProblem(n.as(identity.Admin, http.MethodPost, wire.PathConnect+wrong+"/token", ""), http.StatusNotFound, "")
	}
}
