package api

import (
	"net/http"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
)

func TestTwoVersionsOfAPolicyAreCompared(t *testing.T) {
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
