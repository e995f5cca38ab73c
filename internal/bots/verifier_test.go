package bots_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/servers"
)

// dnsServer answers DNS queries over UDP on loopback from its records.
type dnsServer struct {
	mu      sync.Mutex
	records map[string]string // "PTR 4.3.2.1.in-addr.arpa." to a name, "A name." or "AAAA name." to an address
	fails   bool
	failing dnsmessage.Type // whose queries fail; 0 for none
	asked   int
	address string
}

func startDNS(t *testing.T, records map[string]string) *dnsServer {
	t.Helper()
	listener, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dnsServer{records: records, address: listener.LocalAddr().String()}
	t.Cleanup(func() { listener.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := listener.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := s.answer(buffer[:n]); answer != nil {
				_, _ = listener.WriteTo(answer, from)
			}
		}
	}()
	return s
}

func (s *dnsServer) answer(question []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	value, found := s.records[strings.TrimPrefix(q.Type.String(), "Type")+" "+strings.ToLower(q.Name.String())]
	header := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60}
	switch {
	case s.fails || q.Type == s.failing:
		m.RCode = dnsmessage.RCodeServerFailure
	case !found:
		m.RCode = dnsmessage.RCodeNameError
		for known := range s.records { // the name exists, with records of another type
			if strings.HasSuffix(known, " "+strings.ToLower(q.Name.String())) {
				m.RCode = dnsmessage.RCodeSuccess
			}
		}
	case q.Type == dnsmessage.TypePTR:
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.PTRResource{PTR: dnsmessage.MustNewName(value)}})
	case q.Type == dnsmessage.TypeA:
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: [4]byte(net.ParseIP(value).To4())}})
	case q.Type == dnsmessage.TypeAAAA:
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: [16]byte(net.ParseIP(value))}})
	}
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}

func (s *dnsServer) set(do func(*dnsServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s)
}

func (s *dnsServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *dnsServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", s.address)
	}}
}

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// start runs a verifier of some operators until the test ends.
func start(t *testing.T, s *dnsServer, c *clock, operators string) *bots.Verifier {
	t.Helper()
	named, err := bots.ParseOperators(operators)
	if err != nil {
		t.Fatal(err)
	}
	v := bots.New(bots.Options{Operators: named, Resolver: s.resolver(), Now: c.Now})
	run(t, v)
	return v
}

// run has a verifier look up what waits until the test ends.
func run(t *testing.T, v *bots.Verifier) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { v.Run(ctx); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
}

var key = keytest.Key

// records are those of a crawler by IPv4 and by IPv6, of an address that only claims the name of
// a crawler, of a name with a similar ending, and of another operator.
var records = map[string]string{
	"PTR 1.64.249.66.in-addr.arpa.": "crawl-1.googlebot.com.",
	"A crawl-1.googlebot.com.":      "66.249.64.1",
	"PTR 7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.8.4.1.0.0.2.ip6.arpa.": "crawl-7.googlebot.com.",
	"AAAA crawl-7.googlebot.com.":  "2001:4860::7",
	"PTR 2.64.249.5.in-addr.arpa.": "crawl-1.googlebot.com.",
	"PTR 3.64.249.5.in-addr.arpa.": "crawl.notgooglebot.com.",
	"A crawl.notgooglebot.com.":    "5.249.64.3",
	"PTR 4.64.249.5.in-addr.arpa.": "msnbot-1.search.msn.com.",
	"A msnbot-1.search.msn.com.":   "5.249.64.4",
}

func TestCrawlerIsVerifiedByReverseAndForwardDNS(t *testing.T) {
	s, c := startDNS(t, records), &clock{now: time.Now()}
	v := start(t, s, c, "google")
	strangers := []string{"ip:5.249.64.2", "ip:5.249.64.3", "ip:5.249.64.4", "ip:5.249.64.5"}
	for _, k := range append([]string{"ip:66.249.64.1", "ip:2001:4860::7", "token:x", "ip:192.168.1.1"}, strangers...) {
		if v.OperatorOf(key(t, k)) != "" {
			t.Errorf("%s is a crawler before Notice", k)
		}
		v.Notice(key(t, k))
	}
	servers.Await(t, "verifying both", func() bool { return len(v.Verified()) == 2 })
	// The queue is worked off in order, concurrently: the last address is looked up soon.
	servers.Await(t, "asking about all", func() bool { return s.count() >= 2+2+4 })
	for _, k := range []string{"ip:66.249.64.1", "ip:2001:4860::7"} {
		if got := v.OperatorOf(key(t, k)); got != "google" {
			t.Errorf("OperatorOf(%s) = %q, want google", k, got)
		}
	}
	for _, k := range strangers {
		if got := v.OperatorOf(key(t, k)); got != "" {
			t.Errorf("OperatorOf(%s) = %q, want none", k, got)
		}
	}
	if all := v.Verified(); all[0].Name != "crawl-1.googlebot.com." || all[0].Address.String() != "66.249.64.1" || !all[0].Verified.Equal(c.Now()) {
		t.Errorf("verified is %+v", all)
	}
}

func TestAnswersAreCachedThroughAFailureOfDNS(t *testing.T) {
	s, c := startDNS(t, records), &clock{now: time.Now()}
	v := start(t, s, c, "google,bing")
	google, stranger := key(t, "ip:66.249.64.1"), key(t, "ip:5.249.64.3")
	v.Notice(google)
	v.Notice(stranger)
	servers.Await(t, "verifying", func() bool { return v.OperatorOf(google) == "google" && s.count() >= 3 })
	// While an answer is valid nothing is asked.
	c.move(5 * time.Hour)
	before := s.count()
	v.Notice(google)
	if got := s.count(); got != before {
		t.Errorf("%d DNS queries were sent again, want 0", got-before)
	}
	// Later it is asked again, and after a failure the crawler stays verified.
	s.set(func(s *dnsServer) { s.fails = true })
	c.move(20 * time.Hour)
	if v.OperatorOf(google) != "" || len(v.Verified()) != 0 {
		t.Error("an answer is still used after its lifetime")
	}
	v.Notice(google)
	servers.Await(t, "asking again", func() bool { return s.count() > before })
	servers.Await(t, "keeping the crawler", func() bool { return v.OperatorOf(google) == "google" })
	// An address that no longer belongs to the operator is then no crawler.
	s.set(func(s *dnsServer) { s.fails, s.records = false, map[string]string{} })
	c.move(time.Hour)
	v.Notice(google)
	servers.Await(t, "removing the crawler", func() bool { return v.OperatorOf(google) == "" && len(v.Verified()) == 0 })
}

// The name of a crawler has addresses of one family: that it has none of the other one must not
// hide that DNS failed.
func TestForwardLookupThatFailsMakesNoStranger(t *testing.T) {
	s, c := startDNS(t, records), &clock{now: time.Now()}
	v := start(t, s, c, "google")
	google := key(t, "ip:66.249.64.1")
	v.Notice(google)
	servers.Await(t, "verifying", func() bool { return v.OperatorOf(google) == "google" })
	s.set(func(s *dnsServer) { s.failing = dnsmessage.TypeA })
	c.move(25 * time.Hour)
	v.Notice(google)
	// A failure counts for ten minutes, and a stranger is not looked up again for six hours.
	servers.Await(t, "the end of the failure", func() bool {
		c.move(11 * time.Minute)
		return v.OperatorOf(google) == ""
	})
	s.set(func(s *dnsServer) { s.failing = 0 })
	v.Notice(google)
	servers.Await(t, "verifying again", func() bool { return v.OperatorOf(google) == "google" })
}

// outdated returns a verifier that looks nothing up any more, and the key of a crawler that it
// verified more than a day ago.
func outdated(t *testing.T) (*bots.Verifier, *clock, keys.Key) {
	t.Helper()
	s, c := startDNS(t, records), &clock{now: time.Now()}
	named, _ := bots.ParseOperators("google")
	v := bots.New(bots.Options{Operators: named, Resolver: s.resolver(), Now: c.Now})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { v.Run(ctx); close(ended) }()
	google := key(t, "ip:66.249.64.1")
	v.Notice(google)
	servers.Await(t, "verifying", func() bool { return v.OperatorOf(google) == "google" })
	stop()
	<-ended
	c.move(25 * time.Hour)
	return v, c, google
}

func TestCrawlerStaysVerifiedWhileItIsQueuedOnce(t *testing.T) {
	v, c, google := outdated(t)
	for range 3 {
		v.Notice(google)
		c.move(time.Hour)
		if got := v.OperatorOf(google); got != "google" || v.Waiting() != 1 || len(v.Verified()) != 1 {
			t.Fatalf("while it is queued OperatorOf returns %q, %d wait, %d are verified; want google, 1 and 1", got, v.Waiting(), len(v.Verified()))
		}
	}
}

// Unknown clients must not be able to end the verification of a crawler.
func TestCrawlerStaysVerifiedWhileUnknownClientsFillTheQueue(t *testing.T) {
	v, c, google := outdated(t)
	for i := range 2000 {
		v.Notice(key(t, "ip:"+net.IPv4(20, byte(i>>8), byte(i), 1).String()))
	}
	for range 3 {
		v.Notice(google)
		if got := v.OperatorOf(google); got != "google" {
			t.Fatalf("OperatorOf returns %q, want google", got)
		}
		c.move(time.Hour)
	}
}

func TestParseOperators(t *testing.T) {
	all, err := bots.ParseOperators(" Google, bing,google ")
	if err != nil || len(all) != 2 || all[0].Name != "google" || all[1].Name != "bing" {
		t.Errorf("the operators are %+v, %v", all, err)
	}
	if _, err := bots.ParseOperators("google,altavista"); err == nil || !strings.Contains(err.Error(), "bing") {
		t.Errorf("ParseOperators with an unknown operator: got %v, want an error that lists the known ones", err)
	}
	if v := bots.New(bots.Options{}); v != nil || v.OperatorOf(key(t, "ip:66.249.64.1")) != "" || v.Verified() != nil {
		t.Error("New without operators returns a verifier, or it has crawlers")
	}
	names := map[string]bool{}
	for _, o := range bots.Operators() {
		if o.Title == "" || len(o.Suffixes) == 0 || names[o.Name] || slices.ContainsFunc(o.Suffixes, func(s string) bool {
			return strings.HasPrefix(s, ".") || strings.Count(s, ".") < 1 || s != strings.ToLower(s)
		}) {
			t.Errorf("the operator %+v lacks a title or valid suffixes, or its name is not unique", o)
		}
		names[o.Name] = true
	}
}

func TestQueueIsBounded(t *testing.T) {
	s, c := startDNS(t, nil), &clock{now: time.Now()}
	named, _ := bots.ParseOperators("google")
	v := bots.New(bots.Options{Operators: named, Resolver: s.resolver(), Now: c.Now}) // which looks nothing up
	for i := range 50_000 {
		v.Notice(key(t, "ip:"+net.IPv4(byte(20+i>>16), byte(i>>8), byte(i), 1).String()))
	}
	if v.Waiting() != 1000 {
		t.Errorf("%d addresses wait, want 1000", v.Waiting())
	}
}

// An attacker with a network has more addresses than the queue has room, and its servers of DNS
// need not answer.
func TestCrawlerDoesNotWaitForAllAddressesOfAnUnknownNetwork(t *testing.T) {
	for _, network := range []string{"ip:2001:db8:0:%x::1", "ip:2001:db8::%x", "ip:20.0.0.%d"} {
		s, c := startDNS(t, records), &clock{now: time.Now()}
		v := bots.New(bots.Options{Operators: bots.Operators(), Resolver: s.resolver(), Now: c.Now}) // which looks nothing up yet
		for i := range 250 {
			v.Notice(key(t, fmt.Sprintf(network, i+1)))
		}
		if v.Waiting() == 0 || v.Waiting() > 8 {
			t.Fatalf("%d addresses of %s wait, want 1 to 8", v.Waiting(), network)
		}
		v.Notice(key(t, "ip:66.249.64.1"))
		run(t, v)
		servers.Await(t, "verifying the crawler", func() bool { return v.OperatorOf(key(t, "ip:66.249.64.1")) == "google" && v.Waiting() == 0 })
		// There is room for the network again.
		before := s.count()
		servers.Await(t, "looking another up", func() bool {
			v.Notice(key(t, fmt.Sprintf(network, 251)))
			return s.count() > before
		})
	}
}
