package conditions

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func parse(t testing.TB, lists Texts) When {
	t.Helper()
	w, err := Parse(lists)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestPatternMatchesItsWildcards(t *testing.T) {
	for _, test := range []struct {
		attribute Attribute
		pattern   string
		matches   []string
		others    []string
	}{
		{Path, "/.env", []string{"/.env", "//.env", "/%2eenv", "/%2e%65nv?x=1", "/a/../.env", "/./.env", "https://example.org/.env"}, []string{"/.ENV", "/.env/", "/.env2", "/a/.env", "/%252eenv"}},
		{Path, "/admin/*", []string{"/admin/", "/admin/x", "/admin//x/y"}, []string{"/admin", "/Admin/x", "/x/admin/"}},
		{Path, "*.php", []string{"/a.php", "/a/b.php?q", "/.php"}, []string{"/a.php/", "/a.phpx", "/a.PHP"}},
		{Path, "*/wp-*", []string{"/wp-login.php", "/blog/wp-content/x"}, []string{"/wpx", "/my-wp-x"}},
		{Path, "/a*b*c", []string{"/abc", "/axbyc", "/abbcc"}, []string{"/acb", "/ab", "/abca"}},
		{Path, `/a\*b`, []string{"/a*b"}, []string{"/axb", "/ab"}},
		{Path, "*", []string{"/", "/x"}, nil},
		{Method, "post", []string{"POST", "post"}, []string{"GET", "POSTS"}},
		{Agent, "*sqlmap*", []string{"sqlmap/1.0", "x SQLMap y"}, []string{"Mozilla/5.0"}},
		{Host, "*.Example.org", []string{"a.example.org", "A.EXAMPLE.ORG:8080", "a.example.org."}, []string{"example.org", "a.example.org.evil"}},
	} {
		lists := Texts{}
		lists[test.attribute.String()] = []string{test.pattern}
		w := parse(t, lists)
		index := NewIndex([]When{w})
		try := func(value string, want bool) {
			var v [4]string
			v[test.attribute.index] = value
			r := NewRequest(v[0], v[1], v[2], v[3])
			found := false
			index.Find(r, func(int) { found = true })
			if got := w.Meets(r); got != want || found != want {
				t.Errorf("%s %q and %q: Meets returns %v, the index %v, want %v", test.attribute, test.pattern, value, got, found, want)
			}
		}
		for _, value := range test.matches {
			try(value, true)
		}
		for _, value := range test.others {
			try(value, false)
		}
	}
}

func TestConditionsOnSeveralAttributesMustAllBeMet(t *testing.T) {
	w := parse(t, Texts{"path": {"/login", "/signin"}, "method": {"POST"}})
	for _, test := range []struct {
		path, method string
		want         bool
	}{{"/login", "POST", true}, {"/signin", "post", true}, {"/login", "GET", false}, {"/x", "POST", false}, {"/login", "", false}, {"", "POST", false}} {
		if got := w.Meets(NewRequest(test.path, test.method, "", "")); got != test.want {
			t.Errorf("%s %s: %v, want %v", test.method, test.path, got, test.want)
		}
	}
}

func TestBadPatternIsRejected(t *testing.T) {
	for text, want := range map[string]string{
		"": "is empty", "login": "must begin with /", "/a?b": "question mark", `/a\b`: "lone backslash", "/a\x00": "control character",
		"/" + strings.Repeat("x", MaxPatternLength): "longer than", "/\xff": "UTF-8",
	} {
		if _, err := Parse(Texts{"path": {"/ok", text}}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "when.path[1]") {
			t.Errorf("Parse(%q): got %v, want an error with %q", text, err, want)
		}
	}
	if _, err := Parse(Texts{"path": slices.Repeat([]string{"/x"}, MaxPatterns+1)}); err == nil {
		t.Error("Parse accepts too many patterns")
	}
}

func TestParseReturnsCanonicalPatterns(t *testing.T) {
	w := parse(t, Texts{"path": {"/b**", "/a", "/b*", "/a"}, "host": {"EXAMPLE.org"}})
	if got := fmt.Sprint(w.Texts(Path), w.Texts(Host)); got != "[/a /b*] [example.org]" {
		t.Error(got)
	}
	if again := parse(t, Texts{"path": w.Texts(Path), "host": w.Texts(Host)}); !again.Equal(w) {
		t.Error("the canonical patterns parse to other conditions")
	}
	if got := w.Describe(); got != "if the path is /a or begins with /b, and the host is example.org" {
		t.Error(got)
	}
}

// TestIndexAgreesWithTheConditions compares the index with When.Meets on random
// conditions over a small alphabet, so that patterns overlap.
func TestIndexAgreesWithTheConditions(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "b", "/", "*", ".", ".", "B", "/.env", "/.ENV.b", "%2e%2e/", "..%2f"}
	text := func(maxLength int) string {
		b := "/"
		for range random.IntN(maxLength) {
			b += pieces[random.IntN(len(pieces))]
		}
		return b
	}
	// Both forms of a pattern: of a list, and with "not".
	vary := func(pattern, list string) string {
		if random.IntN(4) == 0 {
			pattern = list
		}
		if random.IntN(3) == 0 {
			pattern = "not " + pattern
		}
		return pattern
	}
	for round := range 100 {
		all := make([]When, 1+random.IntN(90))
		for i := range all {
			lists := Texts{}
			for range random.IntN(4) {
				p := text(6)
				if random.IntN(2) == 0 {
					p = "*" + p[1:]
				}
				lists["path"] = append(lists["path"], vary(p, []string{"@secrets", "@traversal"}[random.IntN(2)]))
			}
			for range random.IntN(3) {
				lists["agent"] = append(lists["agent"], vary(text(4), "@scanners"))
			}
			w, err := Parse(lists)
			if err != nil { // a pattern beside the same with "not"
				w = parse(t, Texts{"path": {"not /a"}})
			}
			all[i] = w
		}
		index := NewIndex(all)
		for range 20 {
			r := NewRequest(strings.ReplaceAll(text(12), "*", "b"), "", []string{"", strings.ReplaceAll(text(5), "*", "a"), "zgrab"}[random.IntN(3)], "")
			var want, got []int
			for i, w := range all {
				if w.Meets(r) {
					want = append(want, i)
				}
			}
			index.Find(r, func(i int) { got = append(got, i) })
			if !slices.Equal(got, want) {
				t.Fatalf("round %d: Find(%+v) = %v, want %v", round, r, got, want)
			}
		}
	}
}

// A pattern with "not" excludes what it matches; with no other pattern the rest of the known values meets
// the condition.
func TestNotExcludes(t *testing.T) {
	for _, test := range []struct {
		patterns []string
		met, not []string
	}{
		{[]string{"not /static/*"}, []string{"/", "/login", "/static"}, []string{"/static/a.js", "/static//b"}},
		{[]string{"*.php", "not /app/*", "not *.x.php"}, []string{"/a.php"}, []string{"/app/a.php", "/b", "/a.x.php"}},
		{[]string{"@secrets", "not /.env.example"}, []string{"/.env", "/.ENV", "/a/.env.local"}, []string{"/.env.example", "/"}},
		{[]string{"not @secrets"}, []string{"/"}, []string{"/.env", "/%2eenv"}},
		// Of several readings of a path, one that is not excluded is enough: encoding evades nothing.
		{[]string{"not /static/*"}, []string{"/static/..%2Flogin", "/static/..;/login"}, []string{"/static/a%2Fb", "/static/a;b"}},
	} {
		w := parse(t, Texts{"path": test.patterns})
		index := NewIndex([]When{w})
		try := func(path string, want bool) {
			r, found := NewRequest(path, "GET", "", ""), false
			index.Find(r, func(int) { found = true })
			if got := w.Meets(r); got != want || found != want {
				t.Errorf("%q and %q: Meets returns %v, the index %v, want %v", test.patterns, path, got, found, want)
			}
		}
		for _, path := range test.met {
			try(path, true)
		}
		for _, path := range test.not {
			try(path, false)
		}
	}
	if parse(t, Texts{"agent": {"not curl*"}}).Meets(NewRequest("/", "GET", "", "")) {
		t.Error("an unknown agent meets a condition on it")
	}
}

func TestListsAndExclusionsAreSaidInWords(t *testing.T) {
	w := parse(t, Texts{"path": {"not  /static/*", "not *.js", "@secrets", "/x", "not @assets"}, "agent": {"not @libraries"}, "method": {"GET"}})
	if got, want := fmt.Sprint(w.Texts(Path)), "[/x @secrets not *.js not /static/* not @assets]"; got != want {
		t.Errorf("Texts returns %s, want %s", got, want)
	}
	if again := parse(t, Texts{"path": w.Texts(Path), "method": w.Texts(Method), "agent": w.Texts(Agent)}); !again.Equal(w) {
		t.Error("the canonical patterns parse to other conditions")
	}
	if got, want := w.Describe(), "if the path is /x or is in the list secrets, and the path does not end in .js and does not begin with /static/ and is not in the list assets, "+
		"and the method is get, and the agent is not in the list libraries"; got != want {
		t.Errorf("Describe returns %s, want %s", got, want)
	}
	var said []string
	for _, m := range w.Met(NewRequest("/a/.env", "GET", "me", "")) {
		said = append(said, m.Describe())
	}
	if got, want := strings.Join(said, "; "), `path "/a/.env" is in the list secrets; method "get" met the condition "get"; agent "me" is not in the list libraries`; got != want {
		t.Errorf("Met says %s, want %s", got, want)
	}
	each, texts := w.Each(Path)
	if want := []string{"/x", "@secrets"}; !slices.Equal(texts, want) || len(each) != 2 || each[1].Meets(NewRequest("/static/.env", "", "", "")) || !each[1].Meets(NewRequest("/.env", "", "", "")) {
		t.Errorf("Each returns %q and %+v", texts, each)
	}
}

func TestUnknownListIsRefusedWithTheNearest(t *testing.T) {
	for _, test := range []struct {
		patterns Texts
		want     []string
	}{
		{Texts{"path": {"@secretes"}}, []string{"when.path[0]", "did you mean @secrets?", "policy lists"}},
		{Texts{"path": {"not @Traversal"}}, []string{"did you mean @traversal?"}},
		{Texts{"agent": {"@secrets"}}, []string{"when.agent[0]", "a list for the path"}},
		{Texts{"path": {"@"}}, []string{"names no list; GET /v1/lists"}},
		{Texts{"path": {"not *"}}, []string{"excludes every value"}},
		{Texts{"agent": {"not not a"}}, []string{"two times not"}},
		{Texts{"path": {"/a", "not /a"}}, []string{"the same with not"}},
	} {
		_, err := Parse(test.patterns)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Parse(%q): got %v, want an error with %q", test.patterns, err, want)
			}
		}
	}
}

func TestLongAttributesAreCut(t *testing.T) {
	r := NewRequest("/"+strings.Repeat("x", 2*MaxPath), strings.Repeat("M", 99), strings.Repeat("a", 5000), strings.Repeat("h", 500))
	for _, a := range []Attribute{Path, Method, Agent, Host} {
		if len(r.Value(a)) != a.MaxLength() {
			t.Errorf("the %s has %d bytes, want %d", a, len(r.Value(a)), a.MaxLength())
		}
	}
	if NewRequest("", "", "", "") != nil {
		t.Error("a request without attributes is not nil")
	}
}

func BenchmarkFind(b *testing.B) {
	for _, count := range []int{1, 200} {
		all := make([]When, count)
		for i := range all {
			all[i] = parse(b, Texts{"path": {fmt.Sprintf("/trap-%d/*", i)}})
		}
		index := NewIndex(all)
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			r := NewRequest("/articles/2026/november/a-long-title", "GET", "Mozilla/5.0", "example.org")
			for b.Loop() {
				index.Find(r, func(int) { b.Fatal("found") })
			}
		})
	}
}

// Conditions on what is said of a request by name, and on what the node finds, agree with the index.
func TestConditionsOnHeadersQueriesCookiesAndOrigins(t *testing.T) {
	request := func() *Request {
		return NewRequest("/a?q=Rust&q=go%2B&empty=", "GET", "", "").
			Saying(Header("Accept-Language"), "de-DE", "nl").Saying(Header("x-missing")).Saying(Cookie("Sid"), "secret").Saying(Scheme, "HTTPS").
			With(Found{Country: "NL", ASN: "64500", Bot: "openai/gptbot", Category: "ai-training", Verified: Claimed})
	}
	for _, test := range []struct {
		attribute string
		patterns  []string
		want      bool
	}{
		{"header:accept-language", []string{"DE*"}, true}, {"header:Accept-Language", []string{"nl"}, true}, {"header:accept-language", []string{"fr"}, false},
		{"header:accept-language", []string{"*"}, true}, {"header:accept-language", []string{"not *"}, false}, {"header:accept-language", []string{"not de*"}, true},
		{"header:x-missing", []string{"not *"}, true}, {"header:x-missing", []string{"*"}, false}, {"header:x-missing", []string{"not a"}, true},
		{"header:unsaid", []string{"not *"}, false}, {"header:unsaid", []string{"not a"}, false}, {"header:unsaid", []string{"*"}, false},
		{"query:q", []string{"rust"}, true}, {"query:q", []string{"go+"}, true}, {"query:q", []string{"c"}, false}, {"query:page", []string{"not *"}, true}, {"query:empty", []string{"*"}, true}, {"query:empty", []string{"not *"}, false},
		{"cookie:Sid", []string{"*"}, true}, {"cookie:sid", []string{"*"}, false}, {"scheme", []string{"https"}, true}, {"scheme", []string{"not https"}, false},
		{"country", []string{"nl"}, true}, {"country", []string{"not NL"}, false}, {"asn", []string{"AS64500"}, true}, {"asn", []string{"64501"}, false},
		{"bot", []string{"OpenAI/*"}, true}, {"category", []string{"ai-*"}, true}, {"category", []string{"not search"}, true}, {"verified", []string{"not claimed"}, false},
	} {
		w := parse(t, Texts{test.attribute: test.patterns, "method": {"GET"}})
		found := false
		NewIndex([]When{w}).Find(request(), func(int) { found = true })
		if got := w.Meets(request()); got != test.want || found != test.want {
			t.Errorf("%s %q: Meets returns %v, the index %v, want %v", test.attribute, test.patterns, got, found, test.want)
		}
	}
	w := parse(t, Texts{"cookie:Sid": {"*"}, "header:x-missing": {"not *"}})
	var said []string
	for _, m := range w.Met(request()) {
		said = append(said, m.Describe())
	}
	if got := strings.Join(said, "; "); got != `header:x-missing was not sent; cookie:Sid met the condition "*"` {
		t.Errorf("Met says %s: it must not show the value of a cookie", got)
	}
	if got := w.Describe(); got != "if the header x-missing is missing, and the cookie Sid is present" {
		t.Errorf("Describe returns %s", got)
	}
	for attribute, pattern := range map[string]string{"country": "Holland", "asn": "kpn", "scheme": "ftp", "category": "ai", "verified": "yes", "header:": "a", "header:a b": "a", "ip": "a", "agent": "not *"} {
		if _, err := Parse(Texts{attribute: {pattern}}); err == nil || !strings.HasPrefix(err.Error(), "when."+attribute) {
			t.Errorf("Parse(%s %s): got %v, want an error that names it", attribute, pattern, err)
		}
	}
}

// However often a value is repeated, a request can meet no fewer conditions by it; and what it says cannot
// be taken for what it does not say.
func TestRepeatedAndStrangeValuesEvadeNothing(t *testing.T) {
	many := func(n int, last ...string) []string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("d%d", i))
		}
		return append(all, last...)
	}
	query := "/a?" + strings.Repeat("cmd=1&", 5000) + "cmd=rm"
	for _, test := range []struct {
		request *Request
		pattern string
		want    bool
	}{
		{(*Request)(nil).Saying(Header("x"), many(20, "evil")...), "evil", true},
		{(*Request)(nil).Saying(Header("x"), many(4*maxRepeated, "evil")...), "evil", true},
		{(*Request)(nil).Saying(Header("x"), many(4*maxRepeated, "evil")...), "not d*", true},
		{(*Request)(nil).Saying(Header("x"), many(4*maxRepeated)...), "not *", false},
		{(*Request)(nil).Saying(Header("x"), many(maxRepeated)...), "evil", false},
		{(*Request)(nil).Saying(Header("x"), "\x00"), "not *", false},
		{(*Request)(nil).Saying(Header("x"), missing), "not *", false},
		{(*Request)(nil).Saying(Header("x"), tooMany), "evil", false},
		{(*Request)(nil).Saying(Header("x"), ""), "not *", true},
		{NewRequest(query, "", "", ""), "rm", true},
		{NewRequest("/a?%63md=rm", "", "", ""), "rm", true},
		{NewRequest("/a?cmd", "", "", ""), "*", true},
		{NewRequest("/a?b=1", "", "", ""), "not *", true},
		{NewRequest("/a", "", "", ""), "not *", false},
		{NewRequest("/a", "", "", "").SayingQuery(), "not *", true},
		{NewRequest("/a?cmd=rm", "", "", "").Saying(Query("cmd"), "ls"), "rm", false},
	} {
		attribute := "header:x"
		if test.request.Value(Path) != "" {
			attribute = "query:cmd"
		}
		w := parse(t, Texts{attribute: {test.pattern}})
		found := false
		NewIndex([]When{w}).Find(test.request, func(int) { found = true })
		if got := w.Meets(test.request); got != test.want || found != test.want {
			t.Errorf("%s %q of %.40v: Meets returns %v, the index %v, want %v", attribute, test.pattern, test.request, got, found, test.want)
		}
	}
}

// What every client may send with each of its requests, and what every request asks for, narrows nothing.
func TestConditionsOnWhatEverybodySendsAreNotNarrow(t *testing.T) {
	for _, c := range []struct {
		texts Texts
		want  bool
	}{
		{Texts{"path": {"/login"}}, true}, {Texts{"path": {"@secrets"}}, true}, {Texts{"path": {"/"}}, true}, {Texts{"path": {"*.php"}}, true},
		{Texts{"path": {"/*"}}, false}, {Texts{"path": {"*"}}, false}, {Texts{"path": {"*/*"}}, false}, {Texts{"path": {"/.env", "/*"}}, false}, {Texts{"path": {"not /a"}}, false},
		{Texts{"query:cmd": {"*"}}, true}, {Texts{"query:cmd": {"not *"}}, false},
		{Texts{"agent": {"Mozilla/*"}}, false}, {Texts{"agent": {"*sqlmap*"}}, false}, {Texts{"agent": {"*sqlmap*"}, "path": {"/a"}}, true},
		{Texts{"header:accept": {"*"}}, false}, {Texts{"header:accept": {"*/*"}}, false}, {Texts{"header:user-agent": {"*"}}, false}, {Texts{"cookie:sid": {"*"}}, false},
		{Texts{"method": {"GET"}}, false}, {Texts{"bot": {"*"}}, false}, {nil, false},
	} {
		w, err := Parse(c.texts)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.IsNarrow(); got != c.want {
			t.Errorf("%v is narrow: %v, want %v", c.texts, got, c.want)
		}
	}
}
