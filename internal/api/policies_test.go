package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
)

func TestDiffPolicyComparesVersions(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		putPolicy(n, "default", `{"match":["*"],"rules":["1/s","20/m"]}`, "If-Match: *")
		d := read[wire.PolicyDiff](t, n.must(n.as(reader, get, "/v1/policies/default/diff", ""), http.StatusOK))
		if d.From != 1 || d.To != 2 || d.Text != "- rules: 200/1h 800/1d" {
			t.Errorf("got %+v", d)
		}
		d = read[wire.PolicyDiff](t, n.must(n.as(reader, get, "/v1/policies/default/diff?from=0&to=1", ""), http.StatusOK))
		if len(d.Fields) != 5 || len(d.Fields[0].Before) != 0 {
			t.Errorf("got %+v", d)
		}
		n.wantProblem(n.as(reader, get, "/v1/policies/default/diff?to=3", ""), http.StatusNotFound, "")
		n.wantProblem(n.as(reader, get, "/v1/policies/nobody/diff", ""), http.StatusNotFound, "")
		n.wantProblem(n.as(reader, get, "/v1/policies/default/diff?from=x", ""), http.StatusUnprocessableEntity, "from")
	})
}

func TestRollbackRestoresVersionAsNewOne(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		const path = "/v1/policies/search"
		putPolicy(n, "search", `{"match":["token:*"],"rules":["1/s"]}`)
		n.wantProblem(n.as(administer, post, path+"/rollback", "", "If-Match: *"), http.StatusConflict, "")
		putPolicy(n, "search", `{"match":["token:*"],"rules":["2/s"]}`, n.ifMatch(path))
		putPolicy(n, "search", `{"match":["token:*"],"rules":["3/s"]}`, n.ifMatch(path))
		// Without a version, the one before the newest is used.
		for i, c := range []struct{ body, rule string }{{"", "2/1s"}, {`{"version":1}`, "1/1s"}} {
			p := read[wire.Policy](t, n.must(n.as(administer, post, path+"/rollback", c.body, n.ifMatch(path)), http.StatusOK))
			if p.Version != int64(4+i) || len(p.Rules) != 1 || p.Rules[0] != c.rule {
				t.Errorf("rollback %s: got %+v, want version %d with the rule %s", c.body, p, 4+i, c.rule)
			}
		}
		n.wantProblem(n.as(operate, post, path+"/rollback", "", "If-Match: *"), http.StatusForbidden, "")
	})
}

// Whatever needs a deleted policy names the change whose undo brings it back.
func TestDeletedPolicyNamesWayBack(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		const path = "/v1/policies/search"
		putPolicy(n, "search", `{"match":["token:*"],"rules":["1/s"]}`)
		tag := n.ifMatch(path)
		n.must(n.as(administer, del, path, "", tag), http.StatusNoContent)
		deletion := read[wire.Page[wire.AuditEntry]](t, n.must(n.as(reader, get, "/v1/audit?action=policy.delete", ""), http.StatusOK)).Items[0].ID
		for _, ask := range []func() answer{
			func() answer { return n.as(reader, get, path, "") },
			func() answer { return n.as(reader, get, path+"/usage", "") },
			func() answer { return n.as(administer, put, path, `{"match":["token:*"],"rules":["2/s"]}`, tag) },
			func() answer { return n.as(administer, del, path, "", "If-Match: *") },
			func() answer { return n.as(administer, post, path+"/rollback", "", "If-Match: *") },
			func() answer { return n.as(administer, post, path+"/rollback", `{"version":1}`, tag) },
		} {
			p := n.wantProblem(ask(), http.StatusNotFound, "")
			if string(p.More["undo"]) != fmt.Sprint(deletion) || !strings.Contains(p.Detail, fmt.Sprintf("Undoing entry %d of the audit brings it back", deletion)) {
				t.Errorf("got %+v, want the deletion %d", p, deletion)
			}
		}
		undone := read[wire.AuditEntry](t, n.must(n.as(administer, post, fmt.Sprintf("/v1/audit/%d/undo", deletion), ""), http.StatusCreated))
		if !strings.Contains(undone.Summary, "It begins at version 1: its earlier versions, counts and levels of escalation do not come back.") {
			t.Errorf("the undo says %q", undone.Summary)
		}
		n.must(n.as(administer, del, path, "", "If-Match: *"), http.StatusNoContent)
		if p := read[wire.Policy](t, n.must(n.as(administer, post, path+"/rollback", `{"version":1}`, "If-Match: *"), http.StatusOK)); p.Version != 1 || p.Rules[0] != "1/1s" {
			t.Errorf("the rollback of a deleted policy made %+v", p)
		}
	})
}

func TestApplyPolicySetIsAllOrNothingAndIdempotent(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		file := `{"policies":[{"name":"default","match":["*"],"rules":["20/m","1/s"]},{"name":"search","match":["token:*"],"rules":["5/10s"],"mode":"shadow"}]%s}`
		plain := fmt.Sprintf(file, "")
		plan := read[wire.PolicyPlan](t, n.must(n.as(reader, post, wire.PathPolicySet+"/plan", plain), http.StatusOK))
		if !plan.DryRun || !plan.Changed || len(plan.Changes) != 2 || plan.Changes[0].Action != wire.PolicyReplace || plan.Changes[1].Action != wire.PolicyCreate ||
			*plan.Changes[0].Version != 1 || len(plan.Changes[0].Fields) != 1 || plan.Changes[0].Fields[0].Field != "rules" {
			t.Fatalf("got %+v", plan)
		}
		n.wantProblem(n.as(reader, post, wire.PathPolicySet, plain), http.StatusForbidden, "")
		n.wantProblem(n.as(administer, post, wire.PathPolicySet, fmt.Sprintf(file, `,"expect":{"default":"9-0123456789abcdef"}`)), http.StatusPreconditionFailed, "")
		n.wantProblem(n.as(administer, post, wire.PathPolicySet, fmt.Sprintf(file, `,"expect":{}`)), http.StatusPreconditionRequired, "")
		n.wantProblem(n.as(administer, post, wire.PathPolicySet, fmt.Sprintf(file, `,"expect":{"default":"1"}`)), http.StatusUnprocessableEntity, "expect.default")
		if a := n.as(reader, get, "/v1/policies/search", ""); a.status != http.StatusNotFound {
			t.Fatalf("a refused plan was partly applied: %s", a.body)
		}
		n.must(n.as(administer, post, wire.PathPolicySet, fmt.Sprintf(file, `,"expect":{"default":"`+string(plan.Changes[0].ETag)+`"}`)), http.StatusOK)
		again := read[wire.PolicyPlan](t, n.must(n.as(administer, post, wire.PathPolicySet+"?prune=true", plain), http.StatusOK))
		if again.Changed {
			t.Fatalf("applying again changes %+v, want nothing", again)
		}
		exported := n.must(n.as(reader, get, wire.PathPolicySet, ""), http.StatusOK).body
		same := read[wire.PolicyPlan](t, n.must(n.as(administer, post, wire.PathPolicySet+"?prune=true", exported), http.StatusOK))
		if same.Changed {
			t.Fatalf("applying the export changes %+v, want nothing", same)
		}
		yaml := n.must(n.as(reader, get, wire.PathPolicySet+"?format=yaml", ""), http.StatusOK)
		if !strings.HasPrefix(yaml.body, "policies:\n  - name: default\n") || yaml.header.Get("Content-Type") != "application/yaml" {
			t.Errorf("got %s", yaml.body)
		}
		pruned := read[wire.PolicyPlan](t, n.must(n.as(administer, post, wire.PathPolicySet+"?prune=true", `{"policies":[{"name":"search","match":["*"],"rules":["5/10s"]}]}`), http.StatusOK))
		if len(pruned.Changes) != 2 || pruned.Changes[1].Action != wire.PolicyDelete {
			t.Fatalf("got %+v", pruned)
		}
		n.must(n.as(reader, get, "/v1/policies/default", ""), http.StatusNotFound)
		n.wantProblem(n.as(administer, post, wire.PathPolicySet, `{}`), http.StatusUnprocessableEntity, "policies")
		n.wantProblem(n.as(administer, post, wire.PathPolicySet, `{"policies":[{"name":"a","match":["*"],"rules":["x"]}]}`), http.StatusUnprocessableEntity, "policies[0].rules[0]")
		n.wantProblem(n.as(administer, post, wire.PathPolicySet, `{"policies":[{"name":"a","match":["a:*"],"rules":[]},{"name":"a","match":["*"],"rules":[]}]}`), http.StatusUnprocessableEntity, "policies[1].name")
	})
}
