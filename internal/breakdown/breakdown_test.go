package breakdown

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
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
		{{0, "1", false}}, {{0, "1", true}}, {{0, "1", false}, {0, "2", false}}, {{0, "1*", true}},
		{{0, "1", false}, {1, "2", true}}, {{2, "0", false}, {1, "2", true}, {0, "0", true}},
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
