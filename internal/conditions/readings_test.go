package conditions

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

// A client must not evade a condition by spelling the path differently, whether the program
// behind decodes %2F to a slash or not, and whatever invalid escapes the path contains.
func TestConditionMatchesEveryReadingOfAPath(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"/api/*", "/%61pi/search/100%", true},
		{"/api/*", "/%61pi/%zz/%4", true},
		{"/api/*", "/api/search/..%2F..%2F..%2Fq", true},
		{"/api/*", "/api/search/%2e%2E%2f..%2fq", true},
		{"/q", "/api/search/..%2F..%2F..%2Fq", true},
		{"/login", "/x%2F..%2Flogin", true},
		{"/x*", "/x%2F..%2Flogin", true},
		{"/.git/*", "/%2egit/conf%69g%", true},
		{"*/.env", "/a%2F.env", true},
		{"/a/b", "/a%2Fb", true},
		{"/api/*", "/ap%69", false},
		{"/api/*", "/x/../ap", false},
		{"/api/*", "/q?/%61pi/%2F", false},
		{"/api/*", "/api/../q", false},
		{"/api/*", "/%2561pi/x", false}, // decoded once
		{"/login", "/login;x=1", true},
		{"/login", "/login;jsessionid=1?next=/", true},
		{"/login", "/static/..;/login", true},
		{"/static/*", "/static/..;/login", true},
		{"/login", "/static;a/%2e%2e;b%2Flogin;c", true},
		{"/login/", "/login/;x", true},
		{"/api/*", "/;x/api;y/z", true},
		{"/login;x=1", "/login;x=1", true},
		{"/a/b", "/a;x%2Fb", true},
		{"/login", "/login%3Bx", true},
		{"/login", "/a%2F..%2Flogin;%2Fx", true}, // the parameter has a slash only if it is decoded first
		{"/login", "/%2Flogin;%2F..", true},
		{"/login", "/lo;gin", false},
		{"/api/*", "/x;/api/..", false},
	} {
		w := parse(t, Texts{"path": {c.pattern}, "method": {"GET"}})
		r := NewRequest(c.path, "GET", "", "").InScope("login").WithValues(map[string]string{"account": "a"})
		found := false
		NewIndex([]When{w}).Find(r, func(int) { found = true })
		if got := w.Meets(r); got != c.want || found != c.want {
			t.Errorf("%s and %s: Meets returns %v, the index %v, want %v", c.pattern, c.path, got, found, c.want)
		}
	}
}

func TestNormalizePath(t *testing.T) {
	for spelling, want := range map[string]string{
		"/a%": "/a%", "/%61%": "/a%", "/%61%25": "/a%", "/a%2": "/a%2", "/a%zz%2Fb": "/a%zz/b", "/%2561": "/%61", "/%%36%31": "/%61",
		"/a%2F..%2Fb": "/b", "%2Fa": "/a", "/a/%2e%2e/%": "/%", "/a%3Fb#c": "/a?b",
		"/a;b=1;c/d;e": "/a/d", "/a;": "/a", "/;a": "/", "/a/..;/b": "/b", "/a%3Bb": "/a", ";a": "/",
		"/a;id=b%2Fc/d": "/a/d", "/a;%2F..%2Fb": "/a", "/a%3Bb%2Fc;d%2Fe": "/a/c",
	} {
		if got := NormalizePath(spelling); got != want {
			t.Errorf("NormalizePath(%s) = %q, want %q", spelling, got, want)
		}
	}
}

// FuzzPathsAreReadOnce asserts that a normalized path stays the same if it is escaped and
// normalized again, in each reading, and that escaping a letter does not change the result.
func FuzzPathsAreReadOnce(f *testing.F) {
	for _, target := range []string{"/", "/a%/%61", "/..%2F..%2Fq", "//a/./%2e%2e/b%", "http://h/a%2Fb?c", "%2F%2F", "/%25%32%46", "a/b/..", "/%zz%2f.%2f", "/a;b/..;/c%3b%2fd;e"} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		escape := func(path string) string { return strings.ReplaceAll((&url.URL{Path: path}).EscapedPath(), "*", "%2A") }
		path, others := readPath(target)
		if path[0] != '/' || slices.Contains(others, path) || len(others) > 5 {
			t.Fatalf("%q is read as %q and %q", target, path, others)
		}
		if again := NormalizePath(escape(path)); again != path {
			t.Errorf("%q is read as %q, and that, escaped, as %q", target, path, again)
		}
		for _, other := range others {
			for i, segment := range strings.Split(other, "/") {
				if segment == "." || segment == ".." || i == 0 && segment != "" {
					t.Errorf("%q is read as %q too", target, other)
				}
			}
			again, more := readPath(strings.ReplaceAll(escape(other), "%252F", "%2F"))
			if again != other && !slices.Contains(more, other) && !strings.Contains(strings.ToUpper(target), "%25") {
				t.Errorf("%q is read as %q too, and that, escaped, as %q and %q", target, other, again, more)
			}
		}
	})
}

func TestPlainPathNeedsNoAllocation(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { readPath("/api/search/page.html") }); n > 0 {
		t.Errorf("readPath allocates %v times, want 0", n)
	}
}
