package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

// reported reports an outcome of a key.
func (n *node) reported(key, outcome, id string) wire.ReportedOutcome {
	n.Helper()
	body := `{"key":"` + key + `","outcome":"` + outcome + `","request":{"path":"/login","method":"POST"},"source":"app","id":"` + id + `"}`
	a := n.send(post, n.check+wire.PathReport, body)
	if a.status != http.StatusOK {
		n.Fatalf("the report: got %d: %s", a.status, a.body)
	}
	return read[wire.ReportedOutcome](n, a)
}

func TestReportsLimitChecksOnAnotherNodeAndEscalate(t *testing.T) {
	onBothBackends(t, func(t *testing.T, nodes [2]*node) {
		nodes[0].put("users", `{"match":["user:*"],"rules":["1000/d"]}`)
		nodes[0].put("guessing", `{"match":["user:*"],"when":{"path":["/login"]},"outcome":"login_failed","rules":["3/d"],
			"escalation":{"threshold":2,"window":"10m","duration":"1h","factor":2,"max_duration":"1d","decay_after":"1d"}}`)
		servers.Await(t, "both nodes know the policies", func() bool {
			x := nodes[1].explain("user:nobody")
			return x.Policy != nil && x.Policy.Name == "users" && len(x.Conditional) == 1
		})
		for i, n := range []*node{nodes[0], nodes[1], nodes[0]} {
			if !n.about("user:a").Allowed {
				t.Fatalf("check %d was refused", i)
			}
			id := string(rune('x' + i))
			r := n.reported("user:a", "login_failed", id)
			if len(r.Policies) != 1 || r.Policies[0].Result != wire.ReportCharged || r.Policies[0].Refuses != (i == 2) {
				t.Fatalf("report %d: got %+v", i, r)
			}
			if r := nodes[1].reported("user:a", "login_failed", id); r.Policies[0].Result != wire.ReportReplayed || r.Policies[0].Rules[0].Remaining != 2-i {
				t.Errorf("report %d again: got %+v", i, r)
			}
		}
		d := nodes[1].about("user:a") // the first offence
		if d.Decision != wire.Limited || d.Policy != "guessing" || time.Until(d.RetryAt.Time) < 23*time.Hour {
			t.Fatalf("the check on the other node: got %+v", d)
		}
		if used := len(nodes[0].logged("user:a")); used != 3 {
			t.Errorf("the policy users has %d requests, want 3 without the refused check", used)
		}
		if r := nodes[0].reported("user:a", "login_failed", "again"); r.Policies[0].Result != wire.ReportFull || r.Policies[0].ID == "" { // the second
			t.Errorf("a report into a full limit: got %+v", r)
		}
		// A peek, since each refused check would be an offence.
		servers.Await(t, "the block refuses checks", func() bool { return nodes[1].ask(`{"key":"user:a","peek":true}`).Decision == wire.Blocked })
		x := nodes[1].explain("user:a")
		if c := x.Conditional[0]; x.Decision != wire.Blocked || c.Outcome != "login_failed" || c.Rules[0].Used != 3 || c.Escalation == nil || c.Escalation.Level != 1 || len(x.Blocks) != 1 {
			t.Errorf("got the explanation %+v", x)
		}
		if nodes[1].about("user:b").Decision != wire.Allowed {
			t.Error("a check of another user was refused")
		}
	})
}
