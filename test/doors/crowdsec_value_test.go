package doors

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A bouncer that asks about one value takes any answer for a ban of it.
func TestCrowdSecDoorAnswersOneValueOnly(t *testing.T) {
	b := startBanned(t)
	b.add("blocks", "ip:192.0.2.1", "1h")
	b.add("blocks", "ip:198.51.100.0/24", "1h")
	b.add("blocks", "user:alice", "1h")
	for target, want := range map[string]string{
		"?value=192.0.2.1":                 "192.0.2.1",
		"?value=192.0.2.2":                 "",
		"?value=198.51.100.7":              "198.51.100.0/24",
		"?value=198.51.100.0/25":           "198.51.100.0/24",
		"?scopes=ip&value=192.0.2.2":       "",
		"?value=alice":                     "",
		"?scopes=ip,user,USER&value=alice": "alice",
		"?scopes=user&value=bob":           "",
		"?scope=user&value=alice":          "alice",
		"?scope=user&value=":               "",
		"?scope=user":                      "alice",
		"?scope=range":                     "198.51.100.0/24",
		"?value=":                          "",
		"":                                 "192.0.2.1 198.51.100.0/24",
	} {
		r := b.ask(b.node.Check, http.MethodGet, "/v1/decisions"+target, "test/v1", "")
		var found []struct{ Value string }
		if err := json.Unmarshal([]byte(r.body), &found); err != nil || r.status != http.StatusOK {
			t.Errorf("%s: got %d %s", target, r.status, r.body)
		}
		var values []string
		for _, d := range found {
			values = append(values, d.Value)
		}
		slices.Sort(values)
		if got := strings.Join(values, " "); got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
}
