package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/test/testnode"
)

// long is a request whose texts, which visitors choose, are as long as Stint takes them.
var long = client.Request{Path: "/" + strings.Repeat(`\`, 9000), Method: "GET", Agent: strings.Repeat(`"`, 3000)}

func longBatches(keys func(int) string) (checks []client.Check, reports []client.Report) {
	for n := range client.MaxBatch {
		checks = append(checks, client.Check{Key: keys(n), Request: long})
		reports = append(reports, client.Report{Key: keys(n), Outcome: "not_found", Request: long})
	}
	return checks, reports
}

func TestLongTextsDoNotFailTheirBatch(t *testing.T) {
	c := connect(t)
	checks, reports := longBatches(func(int) string { return fresh("user") })
	items, err := c.Batch(t.Context(), checks)
	if err != nil {
		t.Fatal("Batch:", err)
	}
	for i, item := range items {
		if item.Err != nil || !item.Decision.Allowed || item.Decision.Key != checks[i].Key {
			t.Fatalf("check %d: got %+v", i, item)
		}
	}
	reported, err := c.ReportBatch(t.Context(), reports)
	if err != nil {
		t.Fatal("ReportBatch:", err)
	}
	for i, item := range reported {
		if item.Err != nil || item.Reported.Key != reports[i].Key {
			t.Fatalf("report %d: got %+v", i, item)
		}
	}
}

// failingAfter returns the URL of a proxy to a server that answers so many requests, and 500 from then on.
func failingAfter(t *testing.T, target string, answered int64) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	var count atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if count.Add(1) > answered {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestOutageInTheMiddleOfALongBatch(t *testing.T) {
	checks, reports := longBatches(func(int) string { return fresh("user") })
	var outage *client.OutageError
	c := connectTo(t, failingAfter(t, os.Getenv(testnode.CheckURL), 1))
	items, err := c.Batch(t.Context(), checks)
	if err != nil {
		t.Fatal("after the first part:", err)
	}
	if items[0].Err != nil || !items[0].Decision.Allowed || !errors.As(items[len(items)-1].Err, &outage) || items[len(items)-1].Decision != nil {
		t.Errorf("after the first part: got %+v and %+v", items[0], items[len(items)-1])
	}
	if _, err := c.Batch(t.Context(), checks); !errors.As(err, &outage) {
		t.Errorf("before the first part: got %v, want an outage", err)
	}
	c = connectTo(t, failingAfter(t, os.Getenv(testnode.CheckURL), 1), client.WithOutage(client.FailClosed))
	items, err = c.Batch(t.Context(), checks)
	if err != nil || !items[0].Decision.Allowed || items[len(items)-1].Decision.Outcome != client.Unavailable {
		t.Errorf("under FailClosed: got %+v and %+v, %v", items[0], items[len(items)-1], err)
	}
	c = connectTo(t, failingAfter(t, os.Getenv(testnode.CheckURL), 1))
	reported, err := c.ReportBatch(t.Context(), reports)
	if err != nil || reported[0].Err != nil || !errors.As(reported[len(reported)-1].Err, &outage) {
		t.Errorf("reports: got %+v and %+v, %v", reported[0], reported[len(reported)-1], err)
	}
}
