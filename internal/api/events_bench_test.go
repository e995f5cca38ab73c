package api

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/wire"
)

// BenchmarkEventStreams publishes decisions at the rate to which a hub bounds them, for clients
// that read nothing but the beginning of their stream. cpu-µs/event is the processor time of
// the process, of which the requests of other clients get none; record-µs/event is what a check
// waits for. cpu-ms/s of "idle" is the processor time of streams without events.
func BenchmarkEventStreams(b *testing.B) {
	for _, form := range []string{"identity", "gzip"} {
		for _, listeners := range []int{1, 500} {
			b.Run(fmt.Sprintf("%s/%d", form, listeners), func(b *testing.B) {
				hub := streamTo(b, listeners, form)
				recorded, before := time.Duration(0), processorTime(b)
				tick := time.NewTicker(time.Second / (2 * events.DefaultPerSecond))
				defer tick.Stop()
				for i := 0; b.Loop(); i++ {
					<-tick.C
					d := &gate.Decision{
						Check: gate.Check{Key: benchKey}, Outcome: []gate.Outcome{gate.Allowed, gate.Limited}[i%2],
						Policy: &rules.Policy{Name: "default"}, Answer: gate.Answer{At: time.Now(), Rule: -1},
					}
					began := time.Now()
					hub.Record(d)
					recorded += time.Since(began)
				}
				b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/event")
				b.ReportMetric(float64(recorded.Nanoseconds())/1000/float64(b.N), "record-µs/event")
			})
		}
	}
	for _, listeners := range []int{1, 500} {
		b.Run(fmt.Sprintf("idle/%d", listeners), func(b *testing.B) {
			streamTo(b, listeners, "identity")
			began, before := time.Now(), processorTime(b)
			for b.Loop() {
				time.Sleep(10 * time.Millisecond)
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/time.Since(began).Seconds(), "cpu-ms/s")
		})
	}
}

var benchKey, _ = keys.Parser{}.Key("ip:203.0.113.7")

// streamTo returns a hub whose events a node streams to clients, which do not read them.
func streamTo(b *testing.B, clients int, encoding string) *events.Hub {
	store, err := sqlstore.Open(b.Context(), filepath.Join(b.TempDir(), "stint.db"), sqlstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	token := identity.Token{Name: "streams", Scopes: []identity.Access{identity.Read}}
	secret := identity.NewSecret(token.Scopes)
	token.Hint, token.Hash = secret.Hint, secret.Hash[:]
	if _, err := store.Identities.AddToken(b.Context(), audit.SystemActor("bench"), token); err != nil {
		b.Fatal(err)
	}
	known := catalog.New(store, time.Now)
	if err := known.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	hub := events.New(events.Options{})
	s := httpserver.New(httpserver.Options{
		Credentials: known, Tokens: store.Identities, Throttle: httpserver.NewThrottle(httpserver.ThrottleOptions{}),
	}, New(Deps{Catalog: known, Events: hub}).Routes())
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	listener, served := httpserver.FramingListener(plain, nil), make(chan error, 1)
	go func() { served <- s.AdminApp().Listener(listener) }()
	b.Cleanup(func() {
		hub.Close()
		_ = s.AdminApp().ShutdownWithTimeout(time.Second)
		<-served
	})
	for range clients {
		conn, err := net.Dial("tcp", plain.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nAccept-Encoding: %s\r\n\r\n", wire.PathEvents, secret.Text, encoding); err != nil {
			b.Fatal(err)
		}
		if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil || !strings.Contains(line, fmt.Sprint(http.StatusOK)) {
			b.Fatalf("got %q, %v", line, err)
		}
	}
	return hub
}
