package answers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestOutcomesDependOnStatusAndMethod(t *testing.T) {
	own, err := ParseOutcomes([]string{"post 401, 403=login_failed", "500=error", "500,502=error", "404=not_found", "POST /wp-login* 200=login_failed", "/missing/* 404=probe"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		outcomes Outcomes
		record   Answer
		want     string
	}{
		{DefaultOutcomes(nil), Answer{Status: 404, Path: "/old?x=1"}, "not_found"},
		{DefaultOutcomes(nil), Answer{Status: 410, Path: "/old"}, "not_found"},
		{DefaultOutcomes(nil), Answer{Status: 404, Path: "/style.CSS?v=2"}, ""},
		{DefaultOutcomes(nil), Answer{Status: 404, Path: "/a/favicon.ico"}, ""},
		{DefaultOutcomes(nil), Answer{Status: 403, Path: "/static/a.js?v=2"}, ""},
		{DefaultOutcomes(nil), Answer{Status: 403, Path: "/files/"}, "forbidden"},
		{DefaultOutcomes(nil), Answer{Status: 404, Path: "/robots.txt"}, ""},
		{DefaultOutcomes(nil), Answer{Status: 404, Path: "/a/robots.txt"}, "not_found"},
		{DefaultOutcomes(nil), Answer{Status: 404, Path: "/.env"}, "not_found"},
		{DefaultOutcomes(nil), Answer{Status: 404}, "not_found"},
		{DefaultOutcomes(nil), Answer{Status: 401, Method: "POST"}, ""},
		{DefaultOutcomes(nil), Answer{Status: 401, Method: "POST", Path: "/login"}, "login_failed"},
		{DefaultOutcomes(nil), Answer{Status: 403, Method: "POST", Path: "/collect"}, "forbidden"},
		{DefaultOutcomes(nil), Answer{Status: 200, Method: "POST", Path: "/blog/wp-login.php"}, "login_failed"},
		{DefaultOutcomes(nil), Answer{Status: 200, Method: "POST", Path: "/phpmyadmin/"}, "login_failed"},
		{DefaultOutcomes(nil), Answer{Status: 200, Method: "POST", Path: "/phpMyAdmin/index.php?route=/"}, "login_failed"},
		{DefaultOutcomes(nil), Answer{Status: 200, Method: "POST", Path: "/phpmyadmin/index.php?lang=en&route=%2fsql"}, ""},
		{DefaultOutcomes(nil), Answer{Status: 200, Method: "POST", Path: "/phpmyadmin/index.php?ajax_request=1"}, ""},
		{DefaultOutcomes(nil), Answer{Status: 200, Method: "POST", Path: "/adminer.php?username=a&db=b"}, ""},
		{DefaultOutcomes(nil), Answer{Status: 200, Method: "GET", Path: "/wp-login.php"}, ""},
		{DefaultOutcomes(nil), Answer{Status: 302, Method: "POST", Path: "/wp-login.php"}, ""},
		{DefaultOutcomes(nil), Answer{Status: 200, Method: "POST", Path: "/user/login"}, ""},
		{DefaultOutcomes(nil), Answer{Status: 200, Method: "POST", Path: "/api/user/login"}, ""},
		{DefaultOutcomes(nil), Answer{Status: 200, Method: "POST", Path: "/login"}, ""},
		{DefaultOutcomes(nil), Answer{Status: 400, Path: "/"}, "bad_request"},
		{DefaultOutcomes(nil), Answer{Status: 401, Method: "GET"}, ""},
		{DefaultOutcomes(nil), Answer{Status: 200}, ""},
		{DefaultOutcomes(nil), Answer{}, ""},
		{own, Answer{Status: 403, Method: "Post", Path: "/a.png"}, "login_failed"},
		{own, Answer{Status: 500}, "error"},
		{own, Answer{Status: 200, Method: "POST", Path: "/wp-login.php?x=1"}, "login_failed"},
		{own, Answer{Status: 200, Method: "POST", Path: "/a/..;/wp-login.php"}, "login_failed"},
		{own, Answer{Status: 200, Method: "GET", Path: "/wp-login.php"}, ""},
		{own, Answer{Status: 200, Method: "POST", Path: "/other"}, ""},
		{own, Answer{Status: 200, Method: "POST"}, ""},
		{own, Answer{Status: 404, Path: "/missing/a.png"}, "probe"},
		{Outcomes{}, Answer{Status: 404}, ""},
	} {
		if got := strings.Join(test.outcomes.Append(nil, &test.record), " "); got != test.want {
			t.Errorf("%+v has the outcomes %q, want %q", test.record, got, test.want)
		}
	}
	if got := own.Append([]string{"error"}, &Answer{Status: 502}); !slices.Equal(got, []string{"error", "error"}) {
		t.Errorf("Append to a slice: got %v, want the old element first", got)
	}
	for _, text := range []string{"404", "=x", "404=", "404=Not found", "99=x", "600=x", "404,=x", "GET=x", "GET POST 1=x", "GET POST 200=x", "POST /a /b 200=x", "POST /a=x", "POST /a?b 200=x", "404=" + strings.Repeat("x", 65)} {
		if o, err := ParseOutcomes([]string{text}); err == nil {
			t.Errorf("ParseOutcomes(%q): got %+v, want an error", text, o)
		}
	}
	if _, err := ParseOutcomes(make([]string, maxOutcomes+1)); err == nil {
		t.Error("ParseOutcomes of too many outcomes: got no error")
	}
}

// A login is known to have worked only at a path that refuses others, so that what answers everything
// alike, or redirects to another port, forgives nothing.
func TestLoginsSucceedOnlyWhereOthersFail(t *testing.T) {
	all := DefaultOutcomes(nil)
	for i, step := range []struct {
		path   string
		status int
		want   string
	}{
		{"/login", 200, ""}, {"/login", 302, ""}, {"/login", 301, ""},
		{"/wp-login.php", 200, "login_failed"}, {"/login", 200, ""}, {"/login", 302, ""}, // another form
		{"/wp-login.php", 301, ""}, {"/wp-login.php", 302, "login_ok"}, {"//wp-login.php", 302, "login_ok"},
		{"/login", 401, "login_failed"}, {"/login", 200, "login_ok"}, {"/login", 303, "login_ok"},
	} {
		if got := strings.Join(all.Append(nil, &Answer{Method: "POST", Path: step.path, Status: step.status}), " "); got != step.want {
			t.Errorf("step %d, POST %s %d: %q, want %q", i, step.path, step.status, got, step.want)
		}
	}
	for i := range 10 * maxPaths {
		all.Append(nil, &Answer{Method: "POST", Path: fmt.Sprintf("/%d/wp-login.php", i), Status: 200})
	}
	if n := len(all[len(all)-1].needs.paths); n > maxPaths {
		t.Errorf("%d paths are noted, want at most %d", n, maxPaths)
	}
}

func TestIsAssetRejectsDisguisedPaths(t *testing.T) {
	for _, target := range []string{"/wp-login.php/x.css", "/phpmyadmin/index.PHP/a.js", "/.env/.js", "/.git/config;.css", "/.git/a.png", "/cgi-bin/x.cgi/a.ico", "/cgi-bin/status.sh/x.css", "/shell.phtml/x.css", "/login.action/x.js", "/a;b.css", "/x.css;.php", "/x.css;jsessionid=1", "/x%3B.css", "/.css"} {
		if isAsset(target) {
			t.Errorf("isAsset(%s) is true, want false", target)
		}
	}
	for _, target := range []string{"/a.css", "/favicon.ico", "/robots.txt", "/assets/v1.2/app.min.js?v=3", "/.well-known/icon.png", "/php/logo.PNG"} {
		if !isAsset(target) {
			t.Errorf("isAsset(%s) is false, want true", target)
		}
	}
}
