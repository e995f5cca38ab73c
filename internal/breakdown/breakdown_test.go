package breakdown

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
)

func TestTemplate(t *testing.T) {
	for path, want := range map[string]string{
		"":                         "",
		"/":                        "/",
		"/login":                   "/login",
		"/login/":                  "/login/",
		"/users/12345":             "/users/{id}",
		"/users/7/orders/8":        "/users/{id}/orders/{id}",
		"/api/v1/items":            "/api/v1/items",
		"/order-123456.html":       "/order-{id}.html",
		"/page2":                   "/page2",
		"/2026/11/29":              "/{id}/{id}/{id}",
		"/2026-11-29":              "/{id}",
		"/static/app.3f9ac01b.css": "/static/app.{id}.css",
		"/t/3F2504E0-4F89-41D3-9A0C-0305E82C3301": "/t/{id}",
		"/t/3f2504e04f8941d39a0c0305e82c3301":     "/t/{id}",
		"/s/xK9d2mQ7p4Lw":                         "/s/{id}",
		"/u/ann@example.com":                      "/u/{id}",
		"/wp-login.php":                           "/wp-login.php",
		"/deadbeef":                               "/deadbeef",
		"/find/q=secret":                          "/find/q={id}",
		"/find?q=secret":                          "/find",
		"/find#q=secret":                          "/find",
		"/a/b/c/d/e/f/g/h/i/j":                    "/a/b/c/d/e/f/g/h/…",
		"/how-to-build-a-garden-shed":             "/how-to-build-a-garden-shed",
		"/" + strings.Repeat("x", 65):             "/{id}",
		"/reset/eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3": "/reset/{id}.{id}",
	} {
		if got := Template(path); got != want {
			t.Errorf("Template(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestFamily(t *testing.T) {
	for agent, want := range map[string]string{
		"": "",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36":                  "chrome",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36 Edg/131.0.0.0":    "edge",
		"Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0":                                                           "firefox",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile Safari/604.1": "safari",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)":                           "gptbot",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot":                        "chatgpt-user",
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)":                                                         "googlebot",
		"Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; Bytespider; x@y.com)":   "bytespider",
		"curl/8.5.0":                           "curl",
		"python-requests/2.31.0":               "python-requests",
		"Go-http-client/1.1":                   "go-http-client",
		"Mozilla/5.0 (X11) HeadlessChrome/120": "headlesschrome",
		"3f2504e04f8941d39a0c0305e82c3301":     "{id}",
		strings.Repeat("x", 200):               "other",
	} {
		if got := Family(agent); got != want {
			t.Errorf("Family(%q) = %q, want %q", agent, got, want)
		}
	}
}

// TestValueOfIsStorable cuts what is too long without breaking a character, and replaces what no
// database stores.
func TestValueOfIsStorable(t *testing.T) {
	host, _ := Find("host")
	for raw, want := range map[string]string{
		"a\x00b\xffc":                  "a\uFFFDb\uFFFDc",
		strings.Repeat("x", 127) + "é": strings.Repeat("x", 127),
		"www.example.com":              "www.example.com",
	} {
		if got := ValueOf(host, raw); got != want {
			t.Errorf("ValueOf(%q) = %q, want %q", raw, got, want)
		}
	}
}

// some returns a random request: some values often, others nearly never again.
func some(r *rand.Rand) Values {
	var v Values
	for i := range v {
		if n := r.IntN(40); n < 30 {
			v[i] = fmt.Sprint(n % 3)
		} else {
			v[i] = fmt.Sprint(r.IntN(1000))
		}
	}
	return v
}

// TestEveryDimensionHasAllRequests merges and trims tables in any order: no request is lost or
// counted twice in any dimension, and no value has more than is said.
func TestEveryDimensionHasAllRequests(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	limits := Limits{Rows: 20, Rest: 5}
	for range 4 {
		truth := [count]map[string]int64{}
		for i := range truth {
			truth[i] = map[string]int64{}
		}
		sum := &Table{}
		var total int64
		for range 30 {
			part := &Table{}
			for range 100 {
				v := some(r)
				part.Row(v).Counts.Allowed++
				total++
				for i, value := range v {
					truth[i][value]++
				}
				if r.IntN(30) == 0 {
					part.Trim(limits)
				}
			}
			stored, err := Decode(part.Encode())
			if err != nil {
				t.Fatal(err)
			}
			sum.Merge(stored)
			sum.Trim(limits)
		}
		if len(sum.Rows) > limits.Rows {
			t.Fatalf("a table of %d rows", len(sum.Rows))
		}
		for i := range Dimensions {
			q := Query{By: []int{i}}
			q.Add(time.Time{}, sum)
			got := q.Result(1 << 20)
			b := got.Breakdowns[0]
			n := b.Unnamed.Sum()
			for _, g := range b.Groups {
				n += g.Sum()
				if most := g.Sum() + b.Overcount; g.Sum() > truth[i][g.Value] || most < truth[i][g.Value] {
					t.Errorf("%s %s: %d to %d, in truth %d", Dimensions[i].Name, g.Value, g.Sum(), most, truth[i][g.Value])
				}
				delete(truth[i], g.Value)
			}
			for value, true := range truth[i] {
				if true > b.Overcount {
					t.Errorf("%s %s is missing with %d, at most %d may be", Dimensions[i].Name, value, true, b.Overcount)
				}
			}
			if n != total || got.Total.Sum() != total {
				t.Errorf("%s has %d requests, in all %d, want %d", Dimensions[i].Name, n, got.Total.Sum(), total)
			}
		}
	}
}

// TestFiltersAreTruthful compares the answers with filters on one, on the same and on several
// dimensions with the requests themselves, from tables that were trimmed.
func TestFiltersAreTruthful(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var all []Values
	sum := &Table{}
	for range 3000 {
		v := some(r)
		all = append(all, v)
		sum.Row(v).Counts.Allowed++
		if len(all)%50 == 0 {
			sum.Trim(Limits{Rows: 300, Rest: 30})
		}
	}
	for _, filters := range []Filters{
		{{Value: "1"}}, {{Value: "1", Not: true}}, {{Value: "1"}, {Value: "2"}}, {{Value: "1", IsPrefix: true, Not: true}},
		{{Value: "1"}, {Dimension: 1, Value: "2", Not: true}}, {{Dimension: 2, Value: "0"}, {Dimension: 1, Value: "2", Not: true}, {Value: "0", Not: true}},
	} {
		truth, total := map[string]int64{}, int64(0)
	requests:
		for _, v := range all {
			for _, i := range filters.dimensions() {
				if !filters.selects(i, v[i]) {
					continue requests
				}
			}
			truth[v[1]]++
			total++
		}
		q := Query{Filters: filters, By: []int{1}}
		q.Add(time.Time{}, sum)
		got := q.Result(1 << 20)
		if n := got.Total.Sum(); n > total || n+got.Unsure < total {
			t.Errorf("%v: %d to %d, in truth %d", filters, n, n+got.Unsure, total)
		}
		b := got.Breakdowns[0]
		n := b.Unnamed.Sum()
		for _, g := range b.Groups {
			n += g.Sum()
			if g.Sum() > truth[g.Value] || g.Sum()+b.Overcount < truth[g.Value] {
				t.Errorf("%v: %s has %d, at most %d more, in truth %d", filters, g.Value, g.Sum(), b.Overcount, truth[g.Value])
			}
		}
		if n != got.Total.Sum() {
			t.Errorf("%v: the groups have %d, in all %d", filters, n, got.Total.Sum())
		}
	}
}

// TestFiltersAreReadAsTheyAreWritten writes filters with any values, and reads the same ones.
func TestFiltersAreReadAsTheyAreWritten(t *testing.T) {
	want := Filters{}
	for _, value := range []string{"", "/a", "/a,b", "/a,path=/b", "/a,path", "/a*", "*", `/a\`, `/a\,host=b`, "/a ", "/a b", `/a\s`, `\*`, "/a*b=c,not"} {
		for _, isPrefix := range []bool{false, true} {
			for _, not := range []bool{false, true} {
				f := Filter{Value: value, IsPrefix: isPrefix, Not: not}
				want = append(want, f)
				if got, err := ParseFilters(Filters{f}.Texts()); err != nil || !reflect.DeepEqual(got, Filters{f}) {
					t.Errorf("%+v: got %+v, %v", f, got, err)
				}
			}
		}
	}
	for at := 0; at < len(want); at += MaxFilters {
		some := want[at:min(len(want), at+MaxFilters)]
		if got, err := ParseFilters(some.Texts()); err != nil || len(got) != len(some) {
			t.Errorf("%+v: got %+v, %v", some, got, err)
		}
	}
	for text, want := range map[string]string{
		"method=get": "method=GET", "agent=cURL": "agent=curl", "country=nl": "country=NL", "asn=64500": "asn=AS64500", "asn=as64500*": "asn=AS64500*",
		"host=WWW.example.com": "host=www.example.com", "path=/A": "path=/A", "path=/a,b": `path=/a\,b`, "path=/a,host=b": "path=/a,host=b", `path=a\b`: `path=a\\b`,
	} {
		all, err := ParseFilters(text, "")
		if is, _ := all.Texts(); err != nil || is != want {
			t.Errorf("%s: got %s, %v, want %s", text, is, err, want)
		}
	}
}

// TestConditionsSelectNoMoreThanFilters makes conditions of filters, and compares what requests meet
// with what the filters select of them, but for those that are said to be wider.
func TestConditionsSelectNoMoreThanFilters(t *testing.T) {
	chrome := "Mozilla/5.0 (X11) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
	var requests []*conditions.Request
	for _, path := range []string{"", "/", "/prices/4711", "/prices/4711/reviews", "/prices/4711/reviews/12", "/prices/", "/login", "/a*b", "/axb", "/4711", "/a/b/c/d/e/f/g/h", "/a/b/c/d/e/f/g/h/i/j", "/prices/today", "/…", "/a/…", "/{id}x", "/{id}/x"} {
		for _, agent := range []string{"", chrome, chrome + " Edg/131.0", "curl/8.5.0", "Mozilla/5.0 (compatible; GPTBot/1.2)", "3f2504e04f8941d39a0c0305e82c3301", "scraper", "go", "go/1.0", "Go-http-client/1.1", "google/1", "GPTBot-Extended/1.0", "curl/8 (EvilBot)"} {
			for _, method := range []string{"GET", "POST"} {
				requests = append(requests, conditions.NewRequest(path, method, agent, "www.example.com"))
			}
		}
	}
	beyond := []string{"/prices/today", "/prices/{id}", "evilbot"} // values of which those that are wider select some too
	for _, c := range []struct{ is, not, left, wider string }{
		{is: "path=/login"},
		{is: "path=/…"},
		{is: "path=/a/…"},
		{is: "path=/p*", wider: "path=/p*"},
		{is: "path=/prices/{id}", wider: "path=/prices/{id}"},
		{is: "path=/prices/4711", wider: "path=/prices/4711"},
		{is: "path=/prices/{id},path=/login", wider: "path=/prices/{id}"},
		{is: "path=/prices/{id}/reviews/{id},path=/prices/{id}/reviews", wider: "path=/prices/{id}/reviews,path=/prices/{id}/reviews/{id}"},
		{is: "path=/prices/{id},path=/prices/{id}/reviews", left: "path=/prices/{id}", wider: "path=/prices/{id}/reviews"},
		{is: "path=/prices/{id}*", wider: "path=/prices/{id}*"},
		{is: "path=/prices/*,method=post", not: "path=/prices/{id}/reviews"},
		{is: `path=/a\*b`},
		{is: "path=/a/b/c/d/e/f/g/h/…"},
		{is: "agent=curl", not: "method=GET", wider: "agent=curl"},
		{is: "agent=go", wider: "agent=go"},
		{is: "agent=gptbot", not: "path=/prices/{id}", wider: "agent=gptbot"},
		{not: "agent=go"},
		{not: "agent=chrome"},
		{is: "host=www.example.com", not: "agent=gptbot,agent=curl"},
		{is: "path=/{id}", left: "path=/{id}"},
		{is: "path=/login,agent=chrome", left: "agent=chrome"},
		{is: "agent={id},agent=curl*", left: "agent=curl*,agent={id}"},
		{is: "path=", left: "path="},
		{is: "policy=4,rule=1/s", left: "policy=4,rule=1/s"},
		{is: "host=@hosts", left: "host=@hosts"},
	} {
		filters, err := ParseFilters(c.is, c.not)
		if err != nil {
			t.Fatal(err)
		}
		texts, rest, wide := filters.Conditions()
		if left, _ := rest.Texts(); left != c.left {
			t.Errorf("%s not %s: %q has no condition, want %q", c.is, c.not, left, c.left)
		}
		if wider, _ := wide.Texts(); wider != c.wider {
			t.Errorf("%s not %s: %q is wider, want %q", c.is, c.not, wider, c.wider)
		}
		if len(rest) > 0 {
			continue
		}
		when, err := conditions.Parse(texts)
		if err != nil {
			t.Errorf("%s not %s: %v of %v", c.is, c.not, err, texts)
			continue
		}
		met := 0
		for _, r := range requests {
			if !when.Meets(r) {
				continue
			}
			met++
			for i := range Dimensions {
				seen := Seen{Request: r}
				if value := ValueOf(i, Dimensions[i].Find(&seen)); !filters.selects(i, value) && !(slices.Contains(wide.dimensions(), i) && slices.Contains(beyond, value)) {
					t.Errorf("%s not %s: %v are met by a request with the %s %q", c.is, c.not, texts, Dimensions[i].Name, value)
				}
			}
		}
		if met == 0 {
			t.Errorf("%s not %s: %v are never met", c.is, c.not, texts)
		}
	}
}

// TestConditionsOfNames has patterns that go on behind a name, or far before the end of a path: they
// select the value, and not those that only begin or end like it.
func TestConditionsOfNames(t *testing.T) {
	for _, c := range []struct {
		filter, is string
		not        []string
	}{
		{"path=/…", "/…", []string{"/", "/login", "/a/b/c/d/e/f/g/h/i"}},
		{"path=/a/b/c/d/e/f/g/h/…", "/a/b/c/d/e/f/g/h/i/j", []string{"/a/b/c/d/e/f/g/h", "/a/b/c"}},
		{"path=/a/b/c/d/e/f/g/…", "/a/b/c/d/e/f/g/…", []string{"/a/b/c/d/e/f/g/h"}},
		{"agent=go", "go", []string{"Go-http-client/1.1", "google/1"}},
		{"agent=go", "Go/1.0 (linux)", []string{"curl go/1"}},
		{"agent=applebot", "Mozilla/5.0 (Macintosh) (Applebot/0.1; +http://www.apple.com/go/applebot)", []string{"Mozilla/5.0 (compatible; Applebot-Extended/0.1)"}},
		{"agent=bytespider", "Mozilla/5.0 (compatible; Bytespider)", nil},
	} {
		filters, err := ParseFilters(c.filter, "")
		if err != nil {
			t.Fatal(err)
		}
		texts, _, _ := filters.Conditions()
		when, err := conditions.Parse(texts)
		if err != nil {
			t.Fatal(err)
		}
		meets := func(text string) bool {
			if strings.HasPrefix(text, "/") {
				return when.Meets(conditions.NewRequest(text, "", "", ""))
			}
			return when.Meets(conditions.NewRequest("", "", text, ""))
		}
		if !meets(c.is) {
			t.Errorf("%s: %q is not met by %q", c.filter, texts, c.is)
		}
		for _, other := range c.not {
			if meets(other) {
				t.Errorf("%s: %q is met by %q", c.filter, texts, other)
			}
		}
	}
}

// TestQueryKeepsItsValuesInBounds reads more values and clients than it keeps: the heavy ones stay, and
// what is missing is said.
func TestQueryKeepsItsValuesInBounds(t *testing.T) {
	q := Query{By: []int{0}}
	total := int64(0)
	for part := range 20 {
		table := &Table{}
		table.Row(Values{"/heavy"}).Counts.Allowed = 5
		table.Row(Values{"/heavy"}).Clients = Clients{{"heavy", 5}}
		for i := range 4000 {
			row := table.Row(Values{fmt.Sprint("/", part, "/", i)})
			row.Counts.Allowed, row.Clients = 1, Clients{{fmt.Sprint(part, i), 1}}
		}
		total += 4005
		q.Add(time.Time{}, table)
		if len(q.groups[0]) > MaxValues || len(q.clients) > MaxValues {
			t.Fatalf("%d values and %d clients are kept", len(q.groups[0]), len(q.clients))
		}
	}
	r := q.Result(1 << 20)
	b := r.Breakdowns[0]
	n := b.Unnamed.Sum()
	for _, g := range b.Groups {
		n += g.Sum()
	}
	if n != total || r.Total.Sum() != total || b.Unnamed.Sum() == 0 || b.Overcount == 0 || b.Overcount > 5 || r.ClientsMissing == 0 {
		t.Errorf("%d of %d requests, %d unnamed, overcount %d, %d missing", n, total, b.Unnamed.Sum(), b.Overcount, r.ClientsMissing)
	}
	if b.Groups[0].Value != "/heavy" || b.Groups[0].Allowed != 100 || r.Clients[0] != (Client{"heavy", 100}) {
		t.Errorf("the first value is %+v, the first client %+v", b.Groups[0], r.Clients[0])
	}
}

// TestQueryKeepsWhatItRanks has more values than are kept: those with most requests of the ranked decision
// stay, however many others there are.
func TestQueryKeepsWhatItRanks(t *testing.T) {
	q, table := Query{By: []int{0}, Of: "refused"}, &Table{}
	for i := range MaxValues + 1 {
		table.Row(Values{fmt.Sprint("/", i)}).Counts.Allowed = 10
	}
	table.Row(Values{"/attacked"}).Counts.Limited = 5
	q.Add(time.Time{}, table)
	if got := q.Result(1).Breakdowns[0].Groups; len(got) != 1 || got[0].Value != "/attacked" {
		t.Errorf("the first value is %+v, want /attacked", got)
	}
}

// TestOvercountIsNoMoreThanUnnamed has a value that was not kept, of checks that were reported too: they
// are not counted twice.
func TestOvercountIsNoMoreThanUnnamed(t *testing.T) {
	q, table := Query{By: []int{0}}, &Table{}
	table.Row(Values{"/rare"}).Counts = Counts{Allowed: 5, Reported: 5}
	table.Trim(Limits{})
	q.Add(time.Time{}, table)
	if b := q.Result(1).Breakdowns[0]; b.Unnamed.Requests() != 5 || b.Overcount != 5 {
		t.Errorf("one value may have %d of %d requests", b.Overcount, b.Unnamed.Requests())
	}
}

// TestClientsAreTruthful merges the heaviest clients of many rows: no count is too high, and none
// more than Missing too low.
func TestClientsAreTruthful(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	truth, total := map[string]int64{}, int64(0)
	var merged Clients
	for range 200 {
		var part Clients
		for range 50 {
			key := fmt.Sprint("k", r.IntN(20)*r.IntN(20))
			if r.IntN(2) == 0 {
				key = "heavy"
			}
			part.Merge(Clients{{key, 1}})
			truth[key]++
			total++
		}
		merged.Merge(part)
	}
	if len(merged) == 0 || merged[0].Key != "heavy" {
		t.Fatalf("got %v", merged)
	}
	for _, c := range merged {
		if missing := merged.Missing(total); c.Count > truth[c.Key] || c.Count+missing < truth[c.Key] {
			t.Errorf("%s has %d, at most %d more, in truth %d", c.Key, c.Count, missing, truth[c.Key])
		}
	}
}

// TestDecodeOfOtherDimensions reads a table of a version that knew another dimension and not all of
// these: what is common stays, and nothing is lost.
func TestDecodeOfOtherDimensions(t *testing.T) {
	e := encoder{places: map[string]uint64{}}
	e.number(1) // a row of two dimensions
	e.text("/a")
	e.text("moon")
	e.counts(Counts{Allowed: 3})
	e.clients(Clients{{"ip:192.0.2.1", 3}})
	e.clients(nil)
	for _, value := range []string{"/b", "mars"} {
		e.number(1)
		e.text(value)
		e.counts(Counts{Limited: 2})
		e.counts(Counts{})
		e.number(0)
	}
	head := encoder{}
	head.number(format)
	head.list([]string{"path", "planet"})
	head.list(e.texts)
	got, err := Decode(append(head.data, e.data...))
	if err != nil {
		t.Fatal(err)
	}
	for i := range Dimensions {
		q := Query{By: []int{i}}
		q.Add(time.Time{}, got)
		r := q.Result(10)
		want := []Group{{"", Counts{Allowed: 3, Limited: 2}}}
		if i == 0 {
			want = []Group{{"/a", Counts{Allowed: 3}}, {"/b", Counts{Limited: 2}}}
		}
		if !reflect.DeepEqual(r.Breakdowns[0].Groups, want) || r.Total.Sum() != 5 {
			t.Errorf("%s: got %+v of %d", Dimensions[i].Name, r.Breakdowns[0].Groups, r.Total.Sum())
		}
	}
}

func FuzzDecode(f *testing.F) {
	t := &Table{}
	t.Row(Values{"/a"}).Counts.Allowed = 1
	t.Trim(Limits{})
	f.Add(t.Encode())
	t.Row(Values{"/b"}).Clients = Clients{{"k", 1}}
	f.Add(t.Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if table, err := Decode(data); err == nil {
			if again, err := Decode(table.Encode()); err != nil || !reflect.DeepEqual(again.Encode(), table.Encode()) {
				t.Errorf("decoded differently again: %v", err)
			}
		}
	})
}
