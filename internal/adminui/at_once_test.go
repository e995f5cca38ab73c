package adminui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// TestPagesAtOnce has several visitors read and change pages concurrently while requests are
// checked and counted. It is the test that the race detector runs of this package, whose
// other tests make one request after another.
func TestPagesAtOnce(t *testing.T) {
	n := newNode(t)
	n.fill(t)
	n.fillMonitor(t)
	paths := n.pages(t)
	for _, path := range []string{"/", "/offenders?last=24h", "/key?key=ip:203.0.113.6", "/live", "/reports"} {
		paths[path] = path
	}
	for i, user := range []string{"maria", "olu", "vic", "maria"} {
		t.Run(fmt.Sprint(user, i), func(t *testing.T) {
			t.Parallel()
			v := n.as(t, user)
			for name, path := range paths {
				if name == "login" {
					continue
				}
				if got := v.get(path); got.status != http.StatusOK && got.status != http.StatusForbidden {
					t.Errorf("GET %s as %s: got %d, want 200 or 403", path, user, got.status)
				}
			}
		})
	}
	t.Run("changes", func(t *testing.T) {
		t.Parallel()
		v := n.as(t, "maria")
		for i := range 10 {
			v.post("/blocks", url.Values{"pattern": {fmt.Sprintf("ip:192.0.2.%d", 200+i)}, "for": {"1h"}}).is(http.StatusSeeOther)
		}
	})
	t.Run("checks", func(t *testing.T) {
		t.Parallel()
		for range 20 {
			n.clock.advance(time.Second)
			n.send(t, "ip:203.0.113.77", "token:another", "ip:192.0.2.201")
			n.flush(t)
		}
	})
}
