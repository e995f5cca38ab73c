package client_test

import (
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/test/testnode"
)

// tokenOf makes a token that may check.
func tokenOf(t testing.TB, n *testnode.Node) string {
	t.Helper()
	var made struct {
		Secret string `json:"secret"`
	}
	if err := json.Unmarshal(n.Do(t, "POST", "/v1/tokens", `{"name":"client","scopes":["check"]}`, 201), &made); err != nil {
		t.Fatal(err)
	}
	return made.Secret
}
