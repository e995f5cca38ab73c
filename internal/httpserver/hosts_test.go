package httpserver

import (
	"bufio"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestAllowedHostsMayChangeWhileServing changes them between two requests on one connection, as a
// node does that reads its settings again.
func TestAllowedHostsMayChangeWhileServing(t *testing.T) {
	onBothPaths(t, func(t *testing.T, fast FastHandler) {
		var allowed atomic.Pointer[AllowedHosts]
		allow := func(text string) {
			hosts, err := ParseAllowedHosts(text)
			if err != nil {
				t.Fatal(err)
			}
			allowed.Store(&hosts)
		}
		allow("other.example")
		s, _, here, there := fastPair(t, Options{CheckHosts: allowed.Load}, fast)
		_ = s.CheckApp().Handler()
		go func() { _ = s.CheckApp().Server().ServeConn(here) }()
		from := bufio.NewReader(there)
		request := fastLine + strings.Replace(fastHeaders, "a.example:80", "a.example", 1) + "\r\n{}"
		for _, step := range []struct {
			hosts string
			want  bool
		}{{"other.example", false}, {"other.example, a.example", true}, {"other.example", false}} {
			allow(step.hosts)
			got := ask(t, there, from, request)
			if refused := strings.Contains(got, http.StatusText(http.StatusMisdirectedRequest)); refused == step.want {
				t.Errorf("under %q: got %q", step.hosts, got)
			}
		}
	})
}
