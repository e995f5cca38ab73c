package app

import (
	goflag "flag"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/httpserver"
)

// documentFile is for scripts/lint-openapi.sh and scripts/render-api.sh.
var documentFile = goflag.String("openapi", "", "write the OpenAPI document of the node to this file")

// bouncerPaths are those of CrowdSec's bouncer API, whose document CrowdSec publishes.
var bouncerPaths = []string{"/v1/decisions", "/v1/decisions/stream", "/v1/usage-metrics"}

func TestOpenAPIDocumentHasEveryRoute(t *testing.T) {
	a := startApp(t)
	response, err := http.Get("http://" + a.AdminAddr().String() + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s, %v", response.StatusCode, text, err)
	}
	if *documentFile != "" {
		if err := os.WriteFile(*documentFile, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var document struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for _, r := range a.server.Routes() {
		if slices.Contains(bouncerPaths, r.Path) || !strings.HasPrefix(r.Path, "/v1/") || strings.HasSuffix(r.Path, "/*") {
			continue // pages, and the paths below a door, which answers them all alike
		}
		parts := strings.Split(r.Path, "/")
		for i, part := range parts {
			if name, isParam := strings.CutPrefix(part, ":"); isParam {
				parts[i] = "{" + name + "}"
			}
		}
		method := strings.ToLower(r.Method)
		if r.Method == httpserver.AnyMethod {
			method = "get"
		}
		item := document.Paths[strings.Join(parts, "/")]
		if item[method] == nil {
			t.Errorf("%s %s is not described in openapi.json", r.Method, r.Path)
			continue
		}
		servers, _ := json.Marshal(item["servers"])
		want := "The admin listener."
		if r.Listener == httpserver.Checks {
			want = "The listener for checks."
		}
		if !strings.Contains(string(servers), want) {
			t.Errorf("%s %s: openapi.json names the servers %s, not %s", r.Method, r.Path, servers, want)
		}
	}
}
