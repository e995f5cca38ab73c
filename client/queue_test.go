package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/test/testnode"
)

func TestGuardReportsTheStatusOfAnswers(t *testing.T) {
	testnode.Shared().Do(t, "PUT", "/v1/policies/status-missing", `{"match":["statusguard:*"],"outcome":"not_found","rules":["2/d distinct path"]}`, 201)
	// ExampleClient_Report shows a node without a policy that counts missing pages.
	defer testnode.Shared().Do(t, "DELETE", "/v1/policies/status-missing", "", 204)
	testnode.Shared().Do(t, "PUT", "/v1/policies/status-plain", `{"match":["statusguard:*"],"rules":["100/d"]}`, 201)
	c, me := connect(t), fresh("statusguard")
	g := &client.Guard{Client: c, Key: func(*http.Request) string { return me }, ReportStatus: true}
	s := httptest.NewServer(g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/missing") {
			w.WriteHeader(http.StatusEarlyHints)
			http.NotFound(w, r)
		}
	})))
	defer s.Close()
	for i, step := range []struct {
		path string
		want int
	}{{"/", 200}, {"/missing/1", 404}, {"/missing/1", 404}, {"/missing/2?x=1", 404}, {"/", 429}, {"/missing/3", 429}} {
		if a := visit(t, s.URL+step.path); a.status != step.want {
			t.Errorf("visit %d, %s: %+v, want the status %d", i, step.path, a, step.want)
		}
		c.Close() // once all reports are sent
	}
	if n := c.DroppedReports(); n != 0 {
		t.Errorf("%d reports were dropped", n)
	}
}

// statuses is a server in Stint's place that allows all, and keeps the statuses of reports.
type statuses struct {
	mu       sync.Mutex
	all      []int
	requests []int // how many reports each request had
}

func (s *statuses) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path != "/v1/report/batch" {
		_, _ = io.WriteString(w, `{"key":"k","decision":"allowed","allowed":true,"policy":"p","mode":"enforce","retry_after_ms":0}`)
		return
	}
	var batch struct {
		Reports []struct {
			Status int `json:"status"`
		} `json:"reports"`
	}
	_ = json.UnmarshalRead(r.Body, &batch)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, len(batch.Reports))
	for _, one := range batch.Reports {
		s.all = append(s.all, one.Status)
	}
	_, _ = io.WriteString(w, `{"answers":[`+strings.TrimSuffix(strings.Repeat(`{"key":"k","outcomes":[],"policies":[]},`, len(batch.Reports)), ",")+`]}`)
}

// What handlers find out about their writer, and the status that is reported, are the same over HTTP/1 and HTTP/2.
func TestGuardLeavesWritersAsTheyAre(t *testing.T) {
	stint := &statuses{}
	server := httptest.NewServer(stint)
	defer server.Close()
	c := connectTo(t, server.URL)
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hijacks":
			connection, buffer, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = buffer.WriteString("HTTP/1.1 101 Switching Protocols\r\n\r\n")
			_ = buffer.Flush()
			_ = connection.Close()
		case "/panics":
			panic(http.ErrAbortHandler)
		case "/copies":
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.Copy(w, strings.NewReader("copied"))
			w.(http.Flusher).Flush()
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		case "/can":
			_, hijacks := w.(http.Hijacker)
			_, pushes := w.(http.Pusher)
			_, notifies := w.(http.CloseNotifier) //nolint:staticcheck // gin asserts it
			if is2 := r.ProtoMajor == 2; hijacks == is2 || pushes != is2 || !notifies {
				t.Errorf("over %s: hijacks %v, pushes %v, notifies %v", r.Proto, hijacks, pushes, notifies)
			}
		}
	}
	for _, version := range []int{1, 2} {
		guarded := (&client.Guard{Client: c, ReportStatus: true}).Handler(http.HandlerFunc(handler))
		var began, ended atomic.Int64
		site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began.Add(1)
			defer ended.Add(1)
			guarded.ServeHTTP(w, r)
		}))
		site.EnableHTTP2 = version == 2
		site.StartTLS()
		want := map[string]int{"/can": 200, "/copies": 418, "/panics": 500, "/hijacks": 101}
		if version == 2 {
			delete(want, "/hijacks")
		}
		for path, status := range want {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, site.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if response, err := site.Client().Do(r); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
			for ended.Load() < began.Load() { // a handler may end after its answer has
				runtime.Gosched()
			}
			c.Close()
			stint.mu.Lock()
			if seen := len(stint.all); seen == 0 || stint.all[seen-1] != status {
				t.Errorf("HTTP/%d %s: %v were reported, want %d", version, path, stint.all, status)
			}
			stint.all = nil
			stint.mu.Unlock()
		}
		site.Close()
	}
	// A writer that can do nothing more.
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	(&client.Guard{Client: c, ReportStatus: true}).Handler(http.NotFoundHandler()).ServeHTTP(struct{ http.ResponseWriter }{httptest.NewRecorder()}, r)
	c.Close()
	if stint.mu.Lock(); !slices.Equal(stint.all, []int{404}) {
		t.Errorf("got %v, want 404", stint.all)
	}
	stint.mu.Unlock()
}

func TestReportsWaitForOthersAndAreDroppedBeyondABound(t *testing.T) {
	stint, isDown := &statuses{}, atomic.Bool{}
	hold := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-hold
		if isDown.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		stint.ServeHTTP(w, r)
	}))
	defer server.Close()
	c := connectTo(t, server.URL, client.WithRetries(0))
	report := client.Report{Key: "ip:192.0.2.1", Status: 200, Request: client.Request{Path: "/"}}
	const more = 9000
	for range more {
		c.ReportSoon(report)
	}
	close(hold)
	c.Close()
	sent := 0
	for _, n := range stint.requests {
		if sent += n; n > client.MaxBatch {
			t.Errorf("a request had %d reports", n)
		}
	}
	// Of those that are in flight others may wait in their place.
	if dropped := int(c.DroppedReports()); sent+dropped != more || sent < 4096 || sent > 4096+client.MaxBatch {
		t.Errorf("%d reports were sent and %d dropped of %d", sent, dropped, more)
	}
	before := c.DroppedReports()
	isDown.Store(true)
	c.ReportSoon(report)
	c.ReportSoon(client.Report{Key: "", Status: 200})
	c.Close()
	if n := c.DroppedReports() - before; n != 2 {
		t.Errorf("%d reports were dropped in an outage, want 2", n)
	}
}
