package api

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/wire"
)

// TestOperatorsCannotSilenceEverything tries it at once, kind by kind and by the only
// channel: an operator whose token was stolen must not hide an attack from everybody.
func TestOperatorsCannotSilenceEverything(t *testing.T) {
	n := startNode(t)
	const silences = wire.PathSilences
	silence := func(kind, channel string) string {
		return fmt.Sprintf(`{"kind":%q,"channel":%q,"reason":"maintenance","expires_in":"1h"}`, kind, channel)
	}
	n.wantProblem(n.as(operate, post, silences, silence("", "")), http.StatusForbidden, "kind")
	n.wantProblem(n.as(operate, post, silences, silence("", "desk")), http.StatusForbidden, "kind") // the only channel
	kinds := operations.NotificationKinds()
	last := len(kinds) - 1
	for _, kind := range kinds[:last] {
		n.must(n.as(operate, post, silences, silence(string(kind), "")), http.StatusCreated)
	}
	for _, channel := range []string{"", "desk"} {
		n.wantProblem(n.as(operate, post, silences, silence(string(kinds[last]), channel)), http.StatusForbidden, "kind")
	}
	all := read[wire.Silence](t, n.must(n.as(administer, post, silences, silence("", "")), http.StatusCreated))
	n.wantProblem(n.as(operate, del, silences+"/"+all.ID, ""), http.StatusForbidden, "")
	if active := read[wire.Page[wire.Silence]](t, n.as(reader, get, silences, "")); len(active.Items) != last+1 {
		t.Errorf("%d silences apply, want %d", len(active.Items), last+1)
	}
	n.must(n.as(administer, del, silences+"/"+all.ID, ""), http.StatusNoContent)
	for _, s := range read[wire.Page[wire.Silence]](t, n.as(reader, get, silences, "")).Items {
		n.must(n.as(operate, del, silences+"/"+s.ID, ""), http.StatusNoContent)
	}
}
