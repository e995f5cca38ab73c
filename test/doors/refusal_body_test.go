package doors

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"testing"

	stintclient "github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/test/testnode"
)

// TestRefusalHasOneBody: /v1/forward and the middleware for Go and Node.js answer one refusal alike.
func TestRefusalHasOneBody(t *testing.T) {
	for name, refuse := range map[string]func(s *site){
		"limited":             func(s *site) { s.put("site", `{"match":["ip:*"],"rules":["0/1s"]}`) },
		"limited for a while": func(s *site) { s.put("site", `{"match":["ip:*"],"rules":["1/30d"]}`) },
		"blocked":             func(s *site) { s.node.AddEntry(t, "blocks", `{"pattern":"ip:127.0.0.1","reason":"a test"}`) },
		"blocked for a while": func(s *site) {
			s.node.AddEntry(t, "blocks", `{"pattern":"ip:127.0.0.1","reason":"a test","expires_in":"1h"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &site{T: t, node: testnode.Start(t), app: new(application)}
			refuse(s)
			s.program(frameworks[0].run, configuration(t, frameworks[0], 0))
			s.until("requests are refused", func() bool { return s.get("/").status != http.StatusOK })
			stint, err := stintclient.New(s.node.Check)
			if err != nil {
				t.Fatal(err)
			}
			d, err := stint.Check(t.Context(), stintclient.Check{Key: "ip:127.0.0.1", Detail: stintclient.DetailRules, Fresh: true})
			response, getErr := http.Get(s.node.Check + "/v1/forward")
			if getErr != nil {
				t.Fatal(getErr)
			}
			defer response.Body.Close()
			forward, _ := io.ReadAll(response.Body)
			bodies := map[string][]byte{"/v1/forward": forward, "Go": stintclient.ReplyTo(d, err).Body, "Node.js": []byte(s.get("/").body)}
			want := membersOf(t, forward)
			for from, body := range bodies {
				got := membersOf(t, body)
				if !reflect.DeepEqual(got, want) || got["code"] == nil {
					t.Errorf("%s answers\n%s\nwant, as /v1/forward,\n%s", from, body, forward)
				}
			}
		})
	}
}

// membersOf returns the members of a body but those of one request; it must have an id.
func membersOf(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(body, &members); err != nil || members["id"] == nil {
		t.Fatalf("%v, or no id: %s", err, body)
	}
	for _, own := range []string{"id", "request_id", "detail"} { // the detail has the seconds, which pass
		delete(members, own)
	}
	return members
}
