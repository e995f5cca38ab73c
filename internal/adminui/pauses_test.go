package adminui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/rules"
)

// pauseEscalation makes the policy default refuse so many clients that its escalation is paused.
func (n *node) pauseEscalation(t testing.TB) {
	t.Helper()
	p := *n.policy(t)
	p.Escalation = &rules.Escalation{Threshold: 2, Window: 10 * time.Minute, Duration: time.Hour, Factor: 2, MaxDuration: 72 * time.Hour, DecayAfter: 48 * time.Hour}
	_, err := n.store.Policies.PutPolicy(t.Context(), audit.SystemActor("test"), &p, etag.Any)
	must(t, err)
	for i := range 20 {
		n.send(t, slices.Repeat([]string{fmt.Sprintf("ip:198.51.%d.7", i)}, 4)...)
	}
	n.flush(t)
}

func TestPausedEscalationNoticeExplainsAndResumes(t *testing.T) {
	n := newNode(t)
	olu, vic := n.as(t, "olu"), n.as(t, "vic")
	n.pauseEscalation(t)
	for _, path := range []string{"/", "/offenders"} {
		vic.get(path).is(http.StatusOK).says("it would block 20 of about 20 keys, and 10 are allowed").lacks(`action="/escalations/resume"`)
		olu.get(path).is(http.StatusOK).says("it would block 20 of about 20 keys, and 10 are allowed").holds(`action="/escalations/resume"`).holds("policy=default")
	}
	olu.post("/escalations/resume", url.Values{"policy": {"default"}, "back": {"/offenders"}}).is(http.StatusSeeOther)
	vic.get("/").is(http.StatusOK).lacks("it would block 20")
	n.clock.advance(time.Minute)
	// The pause of a removed escalation is not shown.
	n.pauseEscalation(t)
	vic.get("/").is(http.StatusOK).says("it would block")
	p := *n.policy(t)
	p.Escalation = nil
	_, err := n.store.Policies.PutPolicy(t.Context(), audit.SystemActor("test"), &p, etag.Any)
	must(t, err)
	vic.get("/").is(http.StatusOK).lacks("it would block")
}

// TestPausedEscalationNoticeInBrowser inspects the notice.
func TestPausedEscalationNoticeInBrowser(t *testing.T) {
	n := newNode(t)
	n.pauseEscalation(t)
	b := newBrowser(t, n)
	b.withAxe()
	b.do(chromedp.Navigate(n.url + "/login"))
	b.logIn("maria")
	b.screens("paused-overview", "/")
	b.screens("paused-offenders", "/offenders")
	b.consoleIsClean()
}
