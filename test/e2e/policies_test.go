package e2e_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
)

func TestConcurrentPolicyEditsDoNotOverwriteEachOther(t *testing.T) {
	nodes := shared(t).start(t, 2)
	path := wire.PathPolicies + "/default"
	seen := nodes[0].must(http.StatusOK, get, path, "").header.Get("ETag")
	stack := func(rule string) string { return `{"match":["*"],"rules":["` + rule + `"]}` }

	problem(t, nodes[0].as(put, path, stack("7/h")), http.StatusPreconditionRequired)
	problem(t, nodes[0].as(del, path, ""), http.StatusPreconditionRequired)
	problem(t, nodes[0].as(put, path, stack("7/h"), `If-Match: "999-0123456789abcdef"`), http.StatusPreconditionFailed)

	// Both have read the same version, and both write at the same time.
	answers := make([]answer, 8)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() {
			answers[i], _ = try(put, nodes[i%2].admin+path, stack(string(rune('1'+i))+"/h"), "Authorization: Bearer "+adminToken, "If-Match: "+seen)
		})
	}
	group.Wait()
	won := ""
	for i, a := range answers {
		switch {
		case a.status == http.StatusOK && won == "":
			won = string(rune('1'+i)) + "/1h"
		case a.status == http.StatusOK:
			t.Error("two operators replaced the same version")
		default:
			problem(t, a, http.StatusPreconditionFailed)
		}
	}
	for _, n := range nodes {
		p := read[wire.Policy](t, n.must(http.StatusOK, get, path, ""))
		if strings.Join(p.Rules, " ") != won || p.Version != 2 {
			t.Errorf("the policy is %v in version %d, want %s in version 2", p.Rules, p.Version, won)
		}
	}
}

func TestShadowPolicyDoesNotReplaceTheDefault(t *testing.T) {
	n := startNode(t)
	n.put("default", `{"match":["*"],"rules":["2/h"]}`)
	n.put("trial", `{"match":["*"],"rules":["1/h"],"mode":"shadow"}`)
	want := []struct{ real, shadow string }{{wire.Allowed, wire.Allowed}, {wire.Allowed, wire.Limited}, {wire.Limited, wire.Limited}}
	for i, w := range want {
		d := n.about("token:a")
		if d.Policy != "default" || d.Mode != "enforce" || d.Decision != w.real {
			t.Errorf("request %d: got %s by the policy %s", i, d.Decision, d.Policy)
		}
		if d.Shadow == nil || d.Shadow.Policy != "trial" || d.Shadow.Decision != w.shadow {
			t.Errorf("request %d: got the shadow decision %+v, want %s", i, d.Shadow, w.shadow)
		}
	}
	// In the mode enforce, two policies would apply to every key.
	problem(t, n.as(put, wire.PathPolicies+"/trial", `{"match":["*"],"rules":["1/h"],"mode":"enforce"}`, "If-Match: *"), http.StatusConflict)
	n.must(http.StatusNoContent, del, wire.PathPolicies+"/trial", "", "If-Match: *")
	if d := n.about("token:a"); d.Decision != wire.Limited || d.Shadow != nil {
		t.Errorf("a check after the trial: got %+v", d)
	}
}
