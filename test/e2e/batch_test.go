package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
)

func TestBatchIsDecidedInOrder(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) *node{
		"in memory": func(t *testing.T) *node { return startNode(t) },
		"on Redis":  func(t *testing.T) *node { return shared(t).start(t, 1)[0] },
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			n.put("default", `{"match":["*"],"rules":["3/h"]}`)
			n.must(http.StatusCreated, post, wire.PathBlocks, `{"pattern":"token:bad"}`)
			items := []struct{ check, want string }{
				{`{"key":"token:a","cost":2}`, "allowed"},
				{`{"key":"token:b"}`, "allowed"},
				{`{"key":"token:a","cost":2}`, "limited"},
				{`{"key":"token:bad"}`, "blocked"},
				{`{"key":"ip:nowhere"}`, "key"},
				{`{"key":"token:a","peek":true}`, "allowed"},
				{`{"key":"token:a"}`, "allowed"},
				{`{"key":"token:a"}`, "limited"},
				{`{"key":"token:b","cost":4}`, "cost"},
				{`{"key":"token:b","cost":2}`, "allowed"},
			}
			var checks, want, got []string
			for _, item := range items {
				checks, want = append(checks, item.check), append(want, item.want)
			}
			a := n.send(post, n.check+wire.PathBatch, `{"checks":[`+strings.Join(checks, ",")+`]}`)
			for _, d := range read[wire.BatchAnswer](t, a).Decisions {
				if d.Problem != nil {
					got = append(got, d.Problem.Field)
				} else {
					got = append(got, d.Decision.Decision)
				}
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}
