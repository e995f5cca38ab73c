package bots_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestMain(m *testing.M) { servers.Main(m) }

// runSharing runs the verifier of a node until stop is called. It uses the clock of the database.
func runSharing(t *testing.T, s *dnsServer, f *storetest.Fixture, o bots.Options) (v *bots.Verifier, stop func()) {
	t.Helper()
	named, err := bots.ParseOperators("google,bing")
	if err != nil {
		t.Fatal(err)
	}
	if o.Operators == nil {
		o.Operators = named
	}
	o.Resolver, o.Now = s.resolver(), f.Clock.Now
	v = bots.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { v.Run(ctx); close(ended) }()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return v, stop
}

func TestNodesShareVerifiedCrawlers(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		s := startDNS(t, records)
		first, stop := runSharing(t, s, f, bots.Options{Store: f.Crawlers})
		for _, k := range []string{"ip:66.249.64.1", "ip:5.249.64.4", "ip:5.249.64.2"} { // the last is a stranger
			first.Notice(key(t, k))
		}
		servers.Await(t, "the crawlers are verified", func() bool { return len(first.Verified()) == 2 && first.Waiting() == 0 })
		stop() // writes them

		unusedDNS := startDNS(t, records)
		file := filepath.Join(t.TempDir(), "crawlers.json")
		second, stop := runSharing(t, unusedDNS, f, bots.Options{Store: f.Another(t).Crawlers, File: file})
		servers.Await(t, "another node knows them", func() bool { return len(second.Verified()) == 2 })
		second.Notice(key(t, "ip:66.249.64.1"))
		if got := second.OperatorOf(key(t, "ip:66.249.64.1")); got != "google" || second.Waiting() != 0 || unusedDNS.count() != 0 {
			t.Errorf("OperatorOf returns %q, %d wait, and DNS was asked %d times; want google, 0 and 0", got, second.Waiting(), unusedDNS.count())
		}
		stop()
		if v, _ := known(t, file, "google,bing", f.Clock.Now); len(v.Verified()) != 2 {
			t.Errorf("its file has %v", v.Verified())
		}
		google, err := bots.ParseOperators("google")
		if err != nil {
			t.Fatal(err)
		}
		third, _ := runSharing(t, s, f, bots.Options{Store: f.Crawlers, Operators: google})
		servers.Await(t, "a node of one operator knows its crawler", func() bool { return len(third.Verified()) == 1 })

		f.Clock.Advance(25 * time.Hour)
		if got := second.OperatorOf(key(t, "ip:66.249.64.1")); got != "" {
			t.Errorf("after a day OperatorOf returns %s, want none", got)
		}
	})
}

func TestCrawlersOfOtherNodesAreValidatedAndBounded(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		now := f.Clock.Now().UTC().Truncate(time.Millisecond)
		crawler := func(address, operator, name string, verified time.Time) bots.Crawler {
			return bots.Crawler{Address: netip.MustParseAddr(address), Operator: operator, Name: name, Verified: verified}
		}
		put := func(all ...bots.Crawler) {
			t.Helper()
			if err := f.Crawlers.PutCrawlers(t.Context(), all, now.Add(-24*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		good := crawler("66.249.64.9", "google", "crawl.googlebot.com.", now)
		put(good, crawler("66.249.64.10", "google", "crawl.googlebot.com.evil.example.", now), crawler("66.249.64.11", "nobody", "crawl.googlebot.com.", now),
			crawler("10.0.0.1", "google", "crawl.googlebot.com.", now), crawler("66.249.64.12", "google", "crawl.googlebot.com.", now.Add(time.Hour)),
			crawler("66.249.64.13", "google", "crawl.googlebot.com.", now.Add(-25*time.Hour)))
		put(crawler("66.249.64.9", "google", "older.googlebot.com.", now.Add(-time.Hour))) // is older than the stored one
		v, _ := runSharing(t, startDNS(t, records), f, bots.Options{Store: f.Crawlers})
		servers.Await(t, "it knows one", func() bool { return len(v.Verified()) > 0 })
		if got := v.Verified(); len(got) != 1 || got[0] != good {
			t.Errorf("Verified: got %+v, want only %+v", got, good)
		}

		many := make([]bots.Crawler, bots.MaxShared+50)
		for i := range many {
			many[i] = crawler(fmt.Sprintf("2001:4860::%x", i+1), "google", "crawl.googlebot.com.", now.Add(time.Duration(i)*time.Millisecond))
		}
		put(many...)
		all, err := f.Crawlers.Crawlers(t.Context(), time.Time{})
		if err != nil || len(all) != bots.MaxShared || all[len(all)-1].Verified.Before(now) {
			t.Errorf("%d crawlers are stored, %v; want the newest %d", len(all), err, bots.MaxShared)
		}
	})
}

func TestVerifierWorksWithoutTheDatabase(t *testing.T) {
	f := storetest.OpenSQLite(t)
	gone := f.Another(t)
	gone.Close()
	var log bytes.Buffer
	v, stop := runSharing(t, startDNS(t, records), f, bots.Options{Store: gone.Crawlers, Log: slog.New(slog.NewTextHandler(&log, nil))})
	v.Notice(key(t, "ip:66.249.64.1"))
	servers.Await(t, "the crawler is verified", func() bool { return v.OperatorOf(key(t, "ip:66.249.64.1")) == "google" })
	stop()
	if n := strings.Count(log.String(), "cannot be shared"); n != 1 {
		t.Errorf("the failure was logged %d times, want once: %s", n, &log)
	}
}
