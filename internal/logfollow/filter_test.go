package logfollow_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/fail2ban"
)

// A failure that a filter of fail2ban finds is reported as an outcome, and charges no check.
func TestFailuresOfAFilterAreReported(t *testing.T) {
	s := newSite(t)
	s.do(http.MethodPut, "/v1/policies/sshd", fmt.Sprintf(`{"match":["ip:*"],"outcome":"sshd","rules":["%d/1d"]}`, limit), http.StatusCreated)
	filter, err := fail2ban.ReadFilter("/etc/fail2ban/filter.d/sshd.conf", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	s.options.Read, s.options.FromStart, s.options.OutcomesOnly = accesslog.Options{Filter: filter, FilterOutcome: "sshd"}, true, true
	at := time.Now().UTC().Format("Jan _2 15:04:05")
	for i := range 120 { // of one attacker, which is no proxy
		s.append(s.path, fmt.Sprintf("%s web1 sshd[%d]: Failed password for invalid user a from 198.51.100.98 port 1 from 203.0.113.9 port 4711 ssh2\n%s web1 sshd[%d]: Accepted password for alice from 203.0.113.8 port 4711 ssh2\n", at, i, at, 1000+i))
	}
	summary, err := s.once()
	if err != nil || summary.Reported != 120 || summary.Checked != 0 || summary.Bad > 0 || summary.Skipped != 120 {
		t.Fatalf("got %s, %v", summary, err)
	}
	for ip, want := range map[string]int{"203.0.113.9": 120, "203.0.113.8": 0, "198.51.100.98": 0} {
		d, err := newClient(t, s.check).Check(context.Background(), client.Check{Key: "ip:" + ip, Policy: "sshd", Peek: true})
		if err != nil || limit-d.Rules[0].Remaining != want {
			t.Errorf("%s: got %+v, %v, want %d", ip, d, err, want)
		}
	}
}
