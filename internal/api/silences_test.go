package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/wire"
)

// TestOperatorsCannotSilenceEverything tries to silence everything at once, kind by kind, and
// with the only channel: an operator whose token was stolen must not be able to hide an attack
// from everybody.
func TestOperatorsCannotSilenceEverything(t *testing.T) {
	n := startNode(t)
	const silences = wire.PathSilences
	silence := func(kind, channel string) string {
		return fmt.Sprintf(`{"kind":%q,"channel":%q,"reason":"maintenance","expires_in":"1h"}`, kind, channel)
	}
	n.wantProblem(n.as(operate, post, silences, silence("", "")), http.StatusForbidden, "kind")
	n.wantProblem(n.as(operate, post, silences, silence("", "desk")), http.StatusForbidden, "kind") // the only channel
	// The last alarm of an attack and the last of a fault cannot be silenced, in any order.
	last := map[string]string{"escalation.paused": "an attack that is still sent (attack.began, attack.source, block.automatic, proposal, escalation.paused)", "outage": "a fault that is still sent (outage, redis.eviction, job.failed)"}
	made := 0
	for _, kind := range operations.NotificationKinds() {
		if last[string(kind)] != "" {
			continue
		}
		made++
		n.must(n.as(operate, post, silences, silence(string(kind), "")), http.StatusCreated)
	}
	for kind, alarm := range last {
		for _, channel := range []string{"", "desk"} {
			a := n.as(operate, post, silences, silence(kind, channel))
			n.wantProblem(a, http.StatusForbidden, "kind")
			if !strings.Contains(a.body, alarm) {
				t.Errorf("silencing %s: got %s, want it to contain %q", kind, a.body, alarm)
			}
		}
	}
	all := read[wire.Silence](t, n.must(n.as(administer, post, silences, silence("", "")), http.StatusCreated))
	n.wantProblem(n.as(operate, del, silences+"/"+all.ID, ""), http.StatusForbidden, "")
	if active := read[wire.Page[wire.Silence]](t, n.as(reader, get, silences, "")); len(active.Items) != made+1 {
		t.Errorf("%d silences apply, want %d", len(active.Items), made+1)
	}
	n.must(n.as(administer, del, silences+"/"+all.ID, ""), http.StatusNoContent)
	for _, s := range read[wire.Page[wire.Silence]](t, n.as(reader, get, silences, "")).Items {
		n.must(n.as(operate, del, silences+"/"+s.ID, ""), http.StatusNoContent)
	}
}

// TestOperatorsCannotExtendSilenceOfAdmin checks that operators cannot extend, kind by kind,
// a silence of an admin that lasts an hour.
func TestOperatorsCannotExtendSilenceOfAdmin(t *testing.T) {
	n := startNode(t)
	silence := func(kind, length string) string {
		return fmt.Sprintf(`{"kind":%q,"reason":"maintenance","expires_in":%q}`, kind, length)
	}
	n.must(n.as(administer, post, wire.PathSilences, silence("", "1h")), http.StatusCreated)
	for _, kind := range []string{"report", "attack.began", "attack.source", "block.automatic", "proposal"} {
		n.must(n.as(operate, post, wire.PathSilences, silence(kind, "24h")), http.StatusCreated)
	}
	n.wantProblem(n.as(operate, post, wire.PathSilences, silence("escalation.paused", "2h")), http.StatusForbidden, "kind")
	n.must(n.as(operate, post, wire.PathSilences, silence("escalation.paused", "1h")), http.StatusCreated)
	n.clock.Add(2 * time.Hour)
	n.wantProblem(n.as(operate, post, wire.PathSilences, silence("escalation.paused", "1h")), http.StatusForbidden, "kind")
}
