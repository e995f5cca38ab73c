package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cases are clients/conformance/cases.json.
type cases struct {
	Policies      map[string]json.RawMessage `json:"policies"`
	Conversations []struct {
		Name  string          `json:"name"`
		Steps json.RawMessage `json:"steps"`
	} `json:"conversations"`
	Faults []struct {
		Name      string `json:"name"`
		Server    fault  `json:"server"`
		TimeoutMS int64  `json:"timeout_ms"`
		Want      want   `json:"want"`
	} `json:"faults"`
}

// fault is how a server misbehaves; with no kind it answers what is said.
type fault struct {
	Kind    string            `json:"kind"`
	Status  int               `json:"status"`
	Type    string            `json:"type"`
	Body    string            `json:"body"`
	Headers map[string]string `json:"headers"`
}

func readCases(t *testing.T) *cases {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "clients", "conformance", "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	c := new(cases)
	if err := json.Unmarshal(text, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// serveFaults serves each fault below /N, its index, and returns the URL.
func serveFaults(t *testing.T, c *cases) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the context ends with the connection only once the body was read
		text, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= len(c.Faults) {
			http.NotFound(w, r)
			return
		}
		c.Faults[n].Server.serve(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func (f *fault) serve(w http.ResponseWriter, r *http.Request) {
	flush := http.NewResponseController(w).Flush
	switch f.Kind {
	case "close":
		panic(http.ErrAbortHandler)
	case "hang":
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case "drip", "endless":
		part := " "
		if f.Kind == "endless" {
			part = strings.Repeat(" ", 1<<16)
		}
		w.Header().Set("Content-Type", "application/json")
		for pause := time.NewTicker(10 * time.Millisecond); ; {
			if _, err := io.WriteString(w, part); err != nil || flush() != nil {
				pause.Stop()
				panic(http.ErrAbortHandler)
			}
			if f.Kind == "endless" {
				continue
			}
			select {
			case <-pause.C:
			case <-r.Context().Done():
				pause.Stop()
				panic(http.ErrAbortHandler)
			}
		}
	case "raw":
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(connection, f.Body)
		_ = connection.Close()
		return
	}
	for name, value := range f.Headers {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", f.Type)
	if f.Kind == "half" {
		w.Header().Set("Content-Length", strconv.Itoa(2*len(f.Body)))
	}
	w.WriteHeader(f.Status)
	if f.Kind == "chunks" {
		for _, c := range f.Body {
			_, _ = fmt.Fprintf(w, "%c", c)
			_ = flush()
		}
		return
	}
	_, _ = io.WriteString(w, f.Body)
	if f.Kind == "half" {
		_ = flush()
		panic(http.ErrAbortHandler)
	}
}
