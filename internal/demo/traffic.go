package demo

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// request is one request that a client of the demo makes.
type request struct {
	At           time.Time
	Address      string // the client's, as 203.0.113.7
	Key          string // counted instead of the address, "" for none
	Method, Path string // "" for GET
	Agent        string
	Status       int // with which the site answers it if it may pass, 0 for 200
	// Account is at which the client logs in, "" for other requests. Status says whether it succeeds.
	Account string
	// Estimate and Used are tokens of a language model, and Took is until Used is known.
	Estimate, Used int
	Took           time.Duration
	Handle         string // of a hold that is to be settled, "" for a request
}

// The agents of the demo's clients.
const (
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	safari  = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1"
	chrome  = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
	googler = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
	gptBot  = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; +https://openai.com/gptbot"
	curl    = "curl/8.14.1"
)

// site is the name of the site that the demo protects.
const site = "shop.example"

// traffic makes the requests of the demo, minute by minute: the same for the same minute and began.
type traffic struct {
	*rand.Rand
	began  time.Time // when the live traffic begins; attacks are planned from then, backwards too
	minute time.Time
	add    func(request)
}

// kinds are the clients of the demo.
var kinds = []func(*traffic){
	(*traffic).visitors, (*traffic).office, (*traffic).crawlers, (*traffic).apps, (*traffic).models,
	(*traffic).scanner, (*traffic).guesser, (*traffic).scrapers,
}

// arrivals adds what the clients that come within a minute ask for, some of it in later minutes.
func arrivals(minute, began time.Time, add func(request)) {
	t := &traffic{Rand: rand.New(rand.NewPCG(1, uint64(minute.Unix()))), began: began, minute: minute, add: add}
	for _, kind := range kinds {
		kind(t)
	}
}

// each reports whether the minute is the given one of each period, in minutes.
func (t *traffic) each(period, at int) bool { return t.since(period, at) == 0 }

// since returns how many minutes ago the given minute of the period was last.
func (t *traffic) since(period, at int) int {
	return ((int(t.minute.Sub(t.began)/time.Minute)-at)%period + period) % period
}

// run returns the number of the period, by which attacks differ.
func (t *traffic) run(period int) int { return int(t.minute.Unix() / 60 / int64(period)) }

// some returns how many come in this minute if it is perHour on average, more by day than by night.
func (t *traffic) some(perHour float64) int {
	hour := t.minute.UTC().Hour()
	busy := []float64{0.3, 0.2, 0.2, 0.2, 0.3, 0.5, 0.8, 1.1, 1.4, 1.5, 1.5, 1.4, 1.3, 1.4, 1.5, 1.4, 1.3, 1.3, 1.4, 1.6, 1.5, 1.2, 0.8, 0.5}[hour]
	mean := perHour * busy / 60
	n := int(mean)
	if t.Float64() < mean-float64(n) {
		n++
	}
	return n
}

// within returns a time of the minute.
func (t *traffic) within() time.Time {
	return t.minute.Add(time.Duration(t.Int64N(int64(time.Minute))))
}

func (t *traffic) seconds(least, most int) time.Duration {
	return time.Duration(least+t.IntN(most-least+1)) * time.Second
}

func pick[T any](t *traffic, of ...T) T { return of[t.IntN(len(of))] }

// product is the path of one of the site's pages that scrapers are after.
func (t *traffic) product() string { return fmt.Sprintf("/products/%d", 1+t.IntN(4000)) }

// browse reads some pages with their files, as browsers do, from an address.
func (t *traffic) browse(address, agent string) {
	at := t.within()
	for range 1 + t.IntN(5) {
		page := pick(t, "/", "/products", t.product(), t.product(), "/cart", "/about", "/search?q=lamp")
		status := http.StatusOK
		if t.IntN(60) == 0 {
			page, status = "/products/sale-2019", http.StatusNotFound
		}
		t.add(request{At: at, Address: address, Path: page, Agent: agent, Status: status})
		for _, file := range []string{"/static/app.css", "/static/app.js", "/static/logo.svg"} {
			at = at.Add(time.Duration(20+t.IntN(80)) * time.Millisecond)
			t.add(request{At: at, Address: address, Path: file, Agent: agent})
		}
		at = at.Add(t.seconds(5, 50))
	}
}

func (t *traffic) visitors() {
	for range t.some(150) {
		t.browse(fmt.Sprintf("198.18.%d.%d", t.IntN(250), 1+t.IntN(254)), pick(t, firefox, safari, chrome, chrome))
	}
}

// office is one address with 40 people behind it, who work by day. Some mistype their passwords.
func (t *traffic) office() {
	const address = "198.51.100.20"
	if hour := t.minute.UTC().Hour(); hour < 7 || hour > 18 {
		return
	}
	for range t.some(90) {
		t.browse(address, pick(t, firefox, chrome))
	}
	for range t.some(12) {
		at, account := t.within(), fmt.Sprintf("employee%02d", 1+t.IntN(40))
		if t.IntN(4) == 0 {
			t.logIn(at, address, account, chrome, http.StatusUnauthorized)
			at = at.Add(t.seconds(4, 15))
		}
		t.logIn(at, address, account, chrome, http.StatusOK)
	}
}

func (t *traffic) logIn(at time.Time, address, account, agent string, status int) {
	t.add(request{At: at, Address: address, Method: http.MethodPost, Path: "/login", Agent: agent, Account: account, Status: status})
}

func (t *traffic) crawlers() {
	for i := range 3 {
		t.add(request{At: t.within(), Address: fmt.Sprintf("192.0.2.%d", 33+i), Path: t.product(), Agent: googler})
	}
	if t.since(360, 40) < 45 { // a visit
		for range 24 {
			t.add(request{At: t.within(), Address: fmt.Sprintf("192.0.2.%d", 129+t.IntN(6)), Path: t.product(), Agent: gptBot})
		}
	}
}

// apps are customers of the API. One has a loop without a pause for a quarter of an hour.
func (t *traffic) apps() {
	calls := []string{"/api/v1/products", "/api/v1/stock", "/api/v1/orders", "/api/v1/prices"}
	for i, name := range []string{"northwind", "acme", "globex"} {
		for range 3 + 4*i {
			t.add(request{At: t.within(), Address: fmt.Sprintf("198.51.100.%d", 140+i), Key: "key:" + name, Path: pick(t, calls...), Agent: "okhttp/4.12.0"})
		}
	}
	if t.since(210, -9) < 15 {
		for range 150 {
			t.add(request{At: t.within(), Address: "198.51.100.160", Key: "key:initech", Path: calls[1], Agent: "python-requests/2.32.4"})
		}
	}
}

// models are teams that ask a language model. The team research asks for more than its budget.
func (t *traffic) models() {
	for i, name := range []string{"search", "support", "research"} {
		for range t.some([]float64{60, 90, 150}[i]) {
			used := 800 + t.IntN([]int{1200, 2500, 9000}[i])
			t.add(request{At: t.within(), Address: "192.0.2.10", Key: "team:" + name, Method: http.MethodPost, Path: "/v1/chat/completions", Agent: "openai-python/1.99.0",
				Estimate: used + t.IntN(2000), Used: used, Took: t.seconds(2, 25)})
		}
	}
}

// scanner comes from another address each time and asks for what no page links to.
func (t *traffic) scanner() {
	if !t.each(45, 1) {
		return
	}
	paths := []string{"/wp-login.php", "/xmlrpc.php", "/.env", "/.git/config", "/phpmyadmin/index.php", "/vendor/phpunit/phpunit/src/Util/PHP/eval-stdin.php", "/admin.php", "/backup.zip",
		"/actuator/env", "/cgi-bin/luci", "/server-status", "/config.json.bak", "/old/index.php", "/test.php", "/HNAP1/"}
	address, at := fmt.Sprintf("198.19.%d.7", t.run(45)%250), t.within()
	for i := range 60 {
		at = at.Add(time.Duration(300+t.IntN(1500)) * time.Millisecond)
		t.add(request{At: at, Address: address, Path: paths[(i+t.run(45))%len(paths)], Agent: pick(t, curl, firefox), Status: http.StatusNotFound})
	}
}

// guesser tries stolen passwords, one account after the other.
func (t *traffic) guesser() {
	if !t.each(130, 4) {
		return
	}
	address, at := fmt.Sprintf("198.19.%d.131", t.run(130)%250), t.within()
	for i := range 45 {
		at = at.Add(t.seconds(2, 6))
		t.logIn(at, address, fmt.Sprintf("user%03d", (i*17+t.run(130))%500), firefox, http.StatusUnauthorized)
	}
}

// The scrapers come each eight hours, the last time a while before the live traffic begins.
const scrapePeriod, scrapeAt, scrapeFor = 480, -18, 34

// isAttacked reports whether the scrapers are at work or have just left.
func isAttacked(minute, began time.Time) bool {
	return (&traffic{minute: minute, began: began}).since(scrapePeriod, scrapeAt) < scrapeFor+3
}

// scrapers are the addresses of one range, which take the pages of all products at once.
func (t *traffic) scrapers() {
	if t.since(scrapePeriod, scrapeAt) >= scrapeFor {
		return
	}
	for host := range 20 {
		for range 24 + t.IntN(24) {
			t.add(request{At: t.within(), Address: fmt.Sprintf("203.0.113.%d", 66+host), Path: t.product(), Agent: chrome})
		}
	}
}
