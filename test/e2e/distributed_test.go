package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

func TestFiveNodesStartTogetherOnAnEmptyDatabase(t *testing.T) {
	s := shared(t)
	nodes := make([]*node, 5)
	for i := range nodes {
		nodes[i] = launch(t, nil, append(s.args(), onFreePorts...)...)
	}
	token := ""
	for _, n := range nodes {
		n.awaitRunning()
		if printed := printedToken.FindStringSubmatch(n.out.String()); printed != nil {
			if token != "" {
				t.Error("two nodes print credentials")
			}
			token = printed[1]
		}
		if strings.Contains(n.out.String(), "@") && strings.Contains(n.out.String(), "password=") {
			t.Errorf("a password is printed: %s", n.out.String())
		}
	}
	if token == "" {
		t.Fatal("no node prints the credentials")
	}
	for _, n := range nodes {
		n.token = token
		servers.Await(t, "every node is ready and knows the token", func() bool {
			_, ready := n.ready()
			return ready && n.as(get, wire.PathWhoami, "").status == http.StatusOK
		})
	}
	// All nodes share one log.
	if !nodes[0].about("token:a").Allowed {
		t.Fatal("the first check is refused")
	}
	for i, n := range nodes {
		x := n.explain("token:a")
		if x.Policy == nil || x.Policy.Name != "default" || x.Policy.Rules[1].Used != 1 {
			t.Errorf("node %d: got the explanation %+v", i, x.Policy)
		}
	}
}

// checkChange makes a change on one node and checks that it applies to that node's next
// check and, soon, to the other's.
func checkChange(t *testing.T, nodes []*node, what string, change func(n *node), applies func(n *node) bool) {
	t.Helper()
	for _, n := range nodes {
		if applies(n) {
			t.Fatalf("%s: the change applies already", what)
		}
	}
	change(nodes[0])
	if !applies(nodes[0]) {
		t.Errorf("%s: the change does not apply on the node that made it", what)
	}
	servers.Await(t, what+" reaches the other node", func() bool { return applies(nodes[1]) })
}

func TestChangeAppliesAtOnceHereAndSoonOnOtherNodes(t *testing.T) {
	s := shared(t)
	nodes := s.start(t, 2)
	t.Run("with notifications", func(t *testing.T) { checkChanges(t, nodes, "a", func() {}) })
	t.Run("with the notifications cut", func(t *testing.T) {
		checkChanges(t, nodes, "b", func() {
			s.execute(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'LISTEN%'`)
		})
	})
}

// checkChanges makes one change of each kind, and calls disturb before each.
func checkChanges(t *testing.T, nodes []*node, name string, disturb func()) {
	key := "token:" + name
	peek := func(n *node) wire.Decision { return n.ask(`{"key":"` + key + `","peek":true}`) }
	step := func(what string, change func(n *node), applies func(n *node) bool) {
		t.Helper()
		disturb()
		checkChange(t, nodes, what, change, applies)
	}
	path := wire.PathPolicies + "/" + name
	step("a new policy", func(n *node) {
		n.must(http.StatusCreated, put, path, `{"match":["`+key+`"],"rules":["1/h"]}`)
	}, func(n *node) bool { return string(peek(n).Policy) == name })

	nodes[0].about(key)
	step("a raised limit, which frees a waiting key", func(n *node) {
		n.put(name, `{"match":["`+key+`"],"rules":["2/h"]}`)
	}, func(n *node) bool { return peek(n).Allowed })

	nodes[1].about(key)
	step("a reset", func(n *node) {
		n.must(http.StatusOK, del, wire.PathKeys+"?key="+key, "")
	}, func(n *node) bool { return peek(n).Allowed })

	var block wire.AddedEntry
	step("a block", func(n *node) {
		block = read[wire.AddedEntry](t, n.must(http.StatusCreated, post, wire.PathBlocks, `{"literal":true,"pattern":"`+key+`","reason":"scraping"}`))
	}, func(n *node) bool { return peek(n).Decision == wire.Blocked })
	var exemption wire.AddedEntry
	step("an exemption, which hides the block", func(n *node) {
		exemption = read[wire.AddedEntry](t, n.must(http.StatusCreated, post, wire.PathExemptions, `{"literal":true,"pattern":"`+key+`"}`))
	}, func(n *node) bool { return peek(n).Allowed })
	step("an exemption removed", func(n *node) {
		n.must(http.StatusOK, del, wire.PathExemptions+"/"+exemption.ID, "")
	}, func(n *node) bool { return !peek(n).Allowed })
	step("a block ended", func(n *node) {
		n.must(http.StatusOK, del, wire.PathBlocks+"/"+block.ID, "")
	}, func(n *node) bool { return peek(n).Allowed })

	var token wire.CreatedToken
	knows := func(n *node) bool {
		return n.send(get, n.admin+wire.PathPolicies, "", "Authorization: Bearer "+token.Secret).status == http.StatusOK
	}
	token.Secret = "none-yet"
	step("a token", func(n *node) {
		token = read[wire.CreatedToken](t, n.must(http.StatusCreated, post, wire.PathTokens, `{"name":"`+name+`","scopes":["read"]}`))
	}, knows)
	step("a token revoked", func(n *node) {
		a := n.as(del, wire.PathTokens+"/"+token.ID, "")
		if a.status/100 != 2 {
			t.Fatalf("got %d: %s", a.status, a.body)
		}
	}, func(n *node) bool { return !knows(n) })

	step("a policy deleted", func(n *node) {
		n.must(http.StatusNoContent, del, path, "", "If-Match: *")
	}, func(n *node) bool { return string(peek(n).Policy) != name })
}

func TestNodeAnswers503UntilTheDatabaseIsReachable(t *testing.T) {
	s := dedicated(t)
	s.postgres.Kill()
	n := s.start(t, 1)[0]
	if _, ready := n.ready(); ready {
		t.Error("the node is ready before it has reached its database")
	}
	problem(t, n.send(post, n.check+wire.PathCheck, `{"key":"token:a"}`), http.StatusServiceUnavailable)
	problem(t, n.send(post, n.check+wire.PathBatch, `{"checks":[{"key":"token:a"}]}`), http.StatusServiceUnavailable)
	problem(t, n.as(get, wire.PathPolicies, ""), http.StatusServiceUnavailable)
	if a := n.send(get, n.check+"/livez", ""); a.status != http.StatusOK {
		t.Errorf("/livez: got %d, want 200", a.status)
	}
	s.postgres.Restart(false)
	servers.Await(t, "the node is ready when the database is running", func() bool { _, ready := n.ready(); return ready })
	if d := n.about("token:a"); !d.Allowed || d.Policy != "default" || d.Degraded {
		t.Errorf("a check afterwards: got %+v", d)
	}
	servers.Await(t, "the token of the node is known", func() bool { return n.as(get, wire.PathPolicies, "").status == http.StatusOK })
}
