package api

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

// BenchmarkCheckHandler is one check from the parsed request to the written
// answer, its log in memory.
func BenchmarkCheckHandler(b *testing.B) {
	store, err := sqlstore.Open(b.Context(), filepath.Join(b.TempDir(), "stint.db"), sqlstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	known := catalog.New(store, time.Now)
	if err := known.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	rest := New(Deps{Gate: gate.New(gate.Options{View: known, Log: memlog.New(memlog.Options{})}), Catalog: known})
	handler := httpserver.New(httpserver.Options{Credentials: known}, rest.Routes()).CheckApp().Handler()
	for name, body := range map[string]string{
		"one":          `{"key":"ip:203.0.113.7"}`,
		"one, no more": `{"key":"ip:203.0.113.8","detail":"none"}`,
	} {
		b.Run(name, func(b *testing.B) {
			var rc fasthttp.RequestCtx
			b.ReportAllocs()
			for b.Loop() {
				rc.Request.Reset()
				rc.Request.Header.SetMethod("POST")
				rc.Request.SetRequestURI("/v1/check")
				rc.Request.Header.SetContentType("application/json")
				rc.Request.SetBodyString(body)
				rc.Response.Reset()
				handler(&rc)
			}
			if code := rc.Response.StatusCode(); code != 200 && code != 429 {
				b.Fatalf("got %d: %s", code, rc.Response.Body())
			}
		})
	}
}
