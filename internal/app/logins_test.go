package app

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestLoginsAreCountedInMetrics logs in by each method that needs no provider.
func TestLoginsAreCountedInMetrics(t *testing.T) {
	a := startApp(t)
	base := "http://" + a.AdminAddr().String()
	ask := func(method, path, token string, form url.Values) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		if form != nil {
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	for range 2 {
		if status, _ := ask(http.MethodPost, "/login", "", url.Values{"name": {"admin"}, "password": {"a wrong password"}}); status != http.StatusUnprocessableEntity {
			t.Fatalf("a wrong password: got %d", status)
		}
	}
	if status, _ := ask(http.MethodGet, "/v1/policies", "stint_admin_wrong", nil); status != http.StatusUnauthorized {
		t.Fatalf("a wrong token: got %d", status)
	}
	_, text := ask(http.MethodGet, "/metrics", edgeToken, nil)
	for labels, want := range map[string]int{
		`method="password",outcome="refused"`: 2, `method="password",outcome="ok"`: 0, `method="token",outcome="refused"`: 1, `method="openid",outcome="ok"`: 0,
	} {
		if line := fmt.Sprintf("stint_logins_total{%s} %d\n", labels, want); !strings.Contains(text, line) {
			t.Errorf("the metrics have no line %s", line)
		}
	}
}
