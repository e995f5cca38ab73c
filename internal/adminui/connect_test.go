package adminui_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func TestConnectShowsATokenOnce(t *testing.T) {
	n := newNode(t)
	maria, vic := n.as(t, "maria"), n.as(t, "vic")
	at := strings.TrimPrefix(n.checks, "http://")
	maria.get("/connect").is(http.StatusOK).holds("auth_request").holds("server " + at).holds("Create token").lacks("stint_check_")
	maria.get("/connect/haproxy").is(http.StatusOK).holds("lua.stint http://" + at)
	maria.get("/connect/nothing").is(http.StatusNotFound)
	maria.get("/connect/README").is(http.StatusNotFound)
	maria.get("/connect/..%2Fdoors").is(http.StatusNotFound)

	made := maria.post("/connect/nginx/token", nil).is(http.StatusOK)
	secret := regexp.MustCompile(`stint_check_\w{49}`).FindString(made.body)
	if secret == "" || strings.Count(made.body, secret) < 2 {
		t.Fatalf("the token is not in the configuration: %s", made.body)
	}
	maria.get("/connect/nginx").is(http.StatusOK).lacks(secret)
	maria.get("/tokens").holds(">nginx<").lacks(secret)
	maria.post("/connect/nginx/token", nil).is(http.StatusOK).holds("nginx-2")
	maria.post("/connect/fail2ban/token", nil).is(http.StatusOK).holds("stint_operate_")
	maria.post("/connect/nothing/token", nil).is(http.StatusNotFound)

	vic.get("/connect/nginx").is(http.StatusOK).holds("an administrator").lacks("Create token")
	vic.post("/connect/nginx/token", nil).is(http.StatusForbidden)
}
