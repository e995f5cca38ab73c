package client_test

import (
	"crypto/rand"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/test/testnode"
)

// tokenOf creates a token with one scope and returns its secret.
func tokenOf(t testing.TB, n *testnode.Node, scope string) string {
	t.Helper()
	var made struct {
		Secret string `json:"secret"`
	}
	if err := json.Unmarshal(n.Do(t, "POST", "/v1/tokens", `{"name":"client `+rand.Text()+`","scopes":["`+scope+`"]}`, 201), &made); err != nil {
		t.Fatal(err)
	}
	return made.Secret
}
