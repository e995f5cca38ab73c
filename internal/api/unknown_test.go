package api

import (
	"net/http"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
)

// Programs can recognize from the code alone that a field names something that does not exist.
func TestProblemMarksUnknownReferences(t *testing.T) {
	n := startNode(t)
	const silence = `{"reason":"ours","expires_in":"1h","channel":`
	for name, test := range map[string]struct {
		answer  answer
		field   string
		unknown bool
	}{
		"the policy of a check":                   {n.ask(`{"key":"a","policy":"nobody"}`), "policy", true},
		"a bad policy of a check":                 {n.ask(`{"key":"a","policy":"A B"}`), "policy", false},
		"the policy of a reset":                   {n.as(operate, del, wire.PathKeys+"?key=a&policy=nobody", ""), "policy", true},
		"the policy of the offenders":             {n.as(reader, get, wire.PathOffenders+"?policy=nobody", ""), "policy", true},
		"a bad time range of the offenders":       {n.as(reader, get, wire.PathOffenders+"?policy=default&last=x", ""), "last", false},
		"the policy of the traffic":               {n.as(reader, get, wire.PathTraffic+"?policy=nobody", ""), "policy", true},
		"the policy of the escalations":           {n.as(reader, get, wire.PathEscalations+"/events?policy=nobody", ""), "policy", true},
		"the channel of a test":                   {n.as(administer, post, wire.PathNotifications+"/test", `{"channel":"nobody"}`), "channel", true},
		"the channel of a silence":                {n.as(operate, post, wire.PathSilences, silence+`"nobody"}`), "channel", true},
		"a silence that is longer than permitted": {n.as(operate, post, wire.PathSilences, `{"reason":"ours","expires_in":"99d"}`), "expires_in", false},
	} {
		if p := n.wantProblem(test.answer, http.StatusUnprocessableEntity, test.field); p.Unknown != test.unknown || p.Code != "invalid" {
			t.Errorf("%s: got %s, want unknown %v", name, test.answer.body, test.unknown)
		}
	}
}
