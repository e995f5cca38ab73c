package doors

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// startHAProxy starts HAProxy with the n-th configuration of its page and the script as it is,
// with its own timeout.
func startHAProxy(t *testing.T, n int) *site {
	t.Helper()
	s := &site{T: t, node: direct(t).node, app: new(application), asPrinted: true}
	return s.program(runHAProxy, configuration(t, gateways[2], n))
}

// HAProxy's client sends a request again that is not answered within the timeout of the script. It
// gives up while Stint hangs, which reads all attempts afterwards.
func TestHAProxyChargesOnceWhatItAsksAgain(t *testing.T) {
	s := startHAProxy(t, 1)
	s.node.Freeze(t)
	s.expect("while Stint hangs", s.get("/"), http.StatusServiceUnavailable)
	s.node.Continue()
	// The node reads this request after all attempts.
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.node.Check+"/v1/forward?policy=site&by=ip", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Forwarded-For", client)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	s.until("Stint has read the attempts", func() bool { return s.used("ip:"+client) > 1 })
	if used := s.used("ip:" + client); used != 2 {
		t.Errorf("two requests are charged %d times", used)
	}
}

// The id of a request is the one of the configuration, whatever a client sends under a similar name: requests of one id are
// charged once.
func TestHAProxySendsNoIDOfAClient(t *testing.T) {
	s := &site{T: t, node: direct(t).node, app: new(application)}
	s.program(runHAProxy, configuration(t, gateways[2], 1))
	for n, names := range [][]string{{"X_Stint_Request"}, {"X-Stint_Request"}, {"X_Stint-Request"}, {"X_Stint_Request", "X-Stint_Request", "X_Stint-Request"}} {
		address := fmt.Sprintf("198.51.100.%d", 20+n)
		headers := []string{"X-Real-IP: " + address}
		for _, name := range names {
			headers = append(headers, name+": mine")
		}
		for range 3 {
			s.expect("with an id of its own", s.get("/", headers...), http.StatusOK)
		}
		if used := s.used("ip:" + address); used != 3 {
			t.Errorf("three requests with %q are charged %d times", names, used)
		}
	}
}

// While Stint is down, HAProxy does not ask about each request, which would take seconds: its client
// waits a second before each of three further attempts to connect.
func TestHAProxyDoesNotAskAboutEachRequestWhileStintIsDown(t *testing.T) {
	s := startHAProxy(t, 0)
	s.expect("before", s.get("/"), http.StatusOK)
	s.node.Crash()
	down, err := net.Listen("tcp", strings.TrimPrefix(s.node.Check, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	go func() {
		for {
			c, err := down.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			c.Close()
		}
	}()
	for range 30 {
		s.expect("while Stint is down", s.get("/"), http.StatusOK)
	}
	if n := asked.Load(); n == 0 || n >= 100 {
		t.Errorf("HAProxy connected %d times for 30 requests, want less than the 120 of four attempts each", n)
	}
	down.Close()
	s.node.Restart(t)
	s.until("HAProxy asks Stint again", func() bool { return s.get("/").status == http.StatusTooManyRequests })
}
