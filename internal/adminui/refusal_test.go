package adminui_test

import (
	"html"
	"net/http"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

func when(t testing.TB, path, method []string) conditions.When {
	t.Helper()
	w, err := conditions.Parse(conditions.Texts{"path": path, "method": method})
	must(t, err)
	return w
}

// Whoever opens the id of a refusal reads which condition met what, and finds what to press.
func TestRefusalSaysWhichConditionMetWhatOfTheRequest(t *testing.T) {
	n := newNode(t)
	n.put(t, rules.Policy{Name: "traps", Match: []keys.Pattern{pattern(t, "ip:*")}, When: when(t, []string{"/.env*", "/wp-*"}, nil)}, "0/s")
	n.put(t, rules.Policy{Name: "search", Match: []keys.Pattern{pattern(t, "ip:*")}, When: when(t, []string{"/search*"}, []string{"GET", "POST"})}, "1/h")
	if got := n.askFor(t, "ip:203.0.113.66", "/x/..%2fwp-login.php?a=1"); got != http.StatusTooManyRequests {
		t.Fatalf("a trap answers %d", got)
	}
	n.clock.advance(time.Second)
	n.askFor(t, "ip:203.0.113.66", "/.env")
	n.clock.advance(2 * time.Minute)
	for range 2 {
		n.clock.advance(2 * time.Second)
		n.askWith(t, "ip:203.0.113.67", map[string]string{"path": "/search/<b>", "method": "POST"})
	}
	n.flush(t)
	olu := n.as(t, "olu")
	refused := n.refusalOf(t, "ip:203.0.113.66")
	page := olu.get("/key?refusal=" + refused).is(http.StatusOK)
	page.says("Policy traps is a trap: it refuses every request that meets its conditions, and waiting does not help.").
		says(html.EscapeString(`In the request of ` + start.Format("15:04:05.000") + ` UTC the path "/wp-login.php" met the condition "/wp-*".`)).
		says("by a trap").says("waiting does not help").lacks("0/s").lacks(">never<")
	page.holds(`href="/policies/traps"`).holds(`href="/exemptions/new?literal=yes&amp;pattern=ip%3a203.0.113.66"`).holds(`href="/key?key=ip%3A203.0.113.66#block"`)
	n.as(t, "vic").get("/key?refusal=" + refused).says("met the condition").holds(`href="/policies/traps"`).lacks("/exemptions/new").lacks("#block")
	olu.get("/key?refusal=" + n.refusalOf(t, "ip:203.0.113.67")).says(html.EscapeString(`the path "/search/<b>" met the condition "/search*" and the method "post" met the condition "post".`))

	x, err := n.detection.ExplainRefusal(t.Context(), refused)
	must(t, err)
	met := x.Offences[0].First.Met
	if len(met) != 1 || met[0] != (conditions.Met{Attribute: "path", Pattern: "/wp-*", Value: "/wp-login.php"}) || len(x.Offences[0].First.Meta) == 0 {
		t.Errorf("recorded is %+v", x.Offences[0].First)
	}
	for name := range x.Offences[0].First.Meta {
		if name[0] < ' ' {
			t.Errorf("the meta has the name %q", name)
		}
	}
}
