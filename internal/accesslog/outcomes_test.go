package accesslog

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
		record   Record
		want     string
	}{
		{DefaultOutcomes(nil), Record{Status: 404, Path: "/old?x=1"}, "not_found"},
		{DefaultOutcomes(nil), Record{Status: 410, Path: "/old"}, "not_found"},
		{DefaultOutcomes(nil), Record{Status: 404, Path: "/style.CSS?v=2"}, ""},
		{DefaultOutcomes(nil), Record{Status: 404, Path: "/a/favicon.ico"}, ""},
		{DefaultOutcomes(nil), Record{Status: 404, Path: "/robots.txt"}, ""},
		{DefaultOutcomes(nil), Record{Status: 404, Path: "/a/robots.txt"}, "not_found"},
		{DefaultOutcomes(nil), Record{Status: 404, Path: "/.env"}, "not_found"},
		{DefaultOutcomes(nil), Record{Status: 404}, "not_found"},
		{DefaultOutcomes(nil), Record{Status: 401, Method: "POST"}, ""},
		{DefaultOutcomes(nil), Record{Status: 401, Method: "POST", Path: "/login"}, "login_failed"},
		{DefaultOutcomes(nil), Record{Status: 403, Method: "POST", Path: "/collect"}, "forbidden"},
		{DefaultOutcomes(nil), Record{Status: 200, Method: "POST", Path: "/blog/wp-login.php"}, "login_failed"},
		{DefaultOutcomes(nil), Record{Status: 200, Method: "GET", Path: "/wp-login.php"}, ""},
		{DefaultOutcomes(nil), Record{Status: 302, Method: "POST", Path: "/wp-login.php"}, ""},
		{DefaultOutcomes(nil), Record{Status: 200, Method: "POST", Path: "/user/login"}, ""},
		{DefaultOutcomes(nil), Record{Status: 200, Method: "POST", Path: "/api/user/login"}, ""},
		{DefaultOutcomes(nil), Record{Status: 200, Method: "POST", Path: "/login"}, ""},
		{DefaultOutcomes(nil), Record{Status: 400, Path: "/"}, "bad_request"},
		{DefaultOutcomes(nil), Record{Status: 401, Method: "GET"}, ""},
		{DefaultOutcomes(nil), Record{Status: 200}, ""},
		{DefaultOutcomes(nil), Record{}, ""},
		{own, Record{Status: 403, Method: "Post", Path: "/a.png"}, "login_failed"},
		{own, Record{Status: 500}, "error"},
		{own, Record{Status: 200, Method: "POST", Path: "/wp-login.php?x=1"}, "login_failed"},
		{own, Record{Status: 200, Method: "POST", Path: "/a/..;/wp-login.php"}, "login_failed"},
		{own, Record{Status: 200, Method: "GET", Path: "/wp-login.php"}, ""},
		{own, Record{Status: 200, Method: "POST", Path: "/other"}, ""},
		{own, Record{Status: 200, Method: "POST"}, ""},
		{own, Record{Status: 404, Path: "/missing/a.png"}, "probe"},
		{Outcomes{}, Record{Status: 404}, ""},
	} {
		if got := strings.Join(test.outcomes.Append(nil, &test.record), " "); got != test.want {
			t.Errorf("%+v has the outcomes %q, want %q", test.record, got, test.want)
		}
	}
	if got := own.Append([]string{"error"}, &Record{Status: 502}); !slices.Equal(got, []string{"error", "error"}) {
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
		if got := strings.Join(all.Append(nil, &Record{Method: "POST", Path: step.path, Status: step.status}), " "); got != step.want {
			t.Errorf("step %d, POST %s %d: %q, want %q", i, step.path, step.status, got, step.want)
		}
	}
	for i := range 10 * maxPaths {
		all.Append(nil, &Record{Method: "POST", Path: fmt.Sprintf("/%d/wp-login.php", i), Status: 200})
	}
	if n := len(all[len(all)-1].needs.paths); n > maxPaths {
		t.Errorf("%d paths are noted, want at most %d", n, maxPaths)
	}
}
