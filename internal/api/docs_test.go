package api

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestDocsPageShowsEveryOperationWithoutScripts(t *testing.T) {
	n := startNode(t)
	a := n.must(n.send(get, n.admin+"/docs", ""), http.StatusOK)
	for _, r := range n.api.routes {
		if r.Operation != nil && !strings.Contains(a.body, `id="`+r.Operation.ID+`"`) {
			t.Errorf("the page does not contain %s", r.Operation.ID)
		}
	}
	for _, link := range strings.Split(a.body, `href="#`)[1:] {
		target, _, _ := strings.Cut(link, `"`)
		if strings.Count(a.body, `id="`+target+`"`) != 1 {
			t.Errorf("the link #%s does not have exactly one target", target)
		}
	}
	// The page has one external link.
	const document = ` href="https://github.com/stint-dev/stint/blob/main/docs/API.md" rel="noreferrer"`
	if strings.Count(a.body, "<a"+document) != 1 {
		t.Error("the page does not link to docs/API.md")
	}
	a.body = strings.Replace(a.body, document, "", 1)
	if strings.Contains(a.body, "<script") || strings.Contains(a.body, "http://") || strings.Contains(a.body, "https://") || strings.Contains(a.body, "ZgotmplZ") {
		t.Error("the page has a script or an external URL")
	}
	policy := a.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "style-src 'sha256-") {
		t.Errorf("got the Content-Security-Policy %q", policy)
	}
	style, _, _ := strings.Cut(strings.SplitN(a.body, "<style>", 2)[1], "</style>")
	hash := sha256.Sum256([]byte(style))
	if !strings.Contains(policy, "'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+"'") {
		t.Error("the Content-Security-Policy has no hash of the style")
	}
}

// The description of an optional field says what leaving it out means.
func TestOpenAPIDescribesOmittedExpiry(t *testing.T) {
	n := startNode(t)
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Description string }
			}
		}
	}
	if err := json.Unmarshal([]byte(n.send(http.MethodGet, n.admin+"/openapi.json", "").body), &document, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	for schema, want := range map[string]string{
		"AddEntry": "When it ends by itself; null or omitted means never.", "TokenRequest": "When it ends by itself; null or omitted means never.",
		"OwnLimitRequest": "When it ends by itself; null or omitted means never.",
		"SilenceRequest":  "when it ends by itself; null or omitted if expires_in is sent",
	} {
		if got := document.Components.Schemas[schema].Properties["expires_at"].Description; got != want {
			t.Errorf("%s: got the description %q, want %q", schema, got, want)
		}
	}
}
