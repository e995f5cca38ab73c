package doors

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

// What a policy and a block challenge, as the command line sets them up, is "challenged" in checks, events, traffic, requests of
// keys and metrics; a caller that does not know the word is refused.
func TestChallengedIsADecision(t *testing.T) {
	n := testnode.Start(t)
	command := func(args ...string) *exec.Cmd {
		c := exec.Command(testnode.AdminProgram(t), append(args, "--url", n.Admin)...)
		c.Env = append(os.Environ(), "STINT_ADMIN_TOKEN="+testnode.AdminToken)
		return c
	}
	admin := func(args ...string) string {
		t.Helper()
		text, err := command(args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, text)
		}
		return string(text)
	}
	admin("policy", "set", "shop", "--match", "shop:*", "--rule", "1/1d", "--on-limit", "challenge")
	admin("block", "add", "shop:blocked", "--action", "challenge", "--reason", "scraping", "--for", "1h")

	var events strings.Builder
	follow := command("events", "--decision", "challenged", "--count", "2", "-o", "json")
	follow.Stdout, follow.Stderr = &events, &events
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	followed := make(chan error, 1)
	go func() { followed <- follow.Wait() }()

	asked := map[string]int{}
	check := func(key, decision string) {
		t.Helper()
		response, err := http.Post(n.Check+"/v1/check", "application/json", strings.NewReader(fmt.Sprintf(`{"key":%q}`, key))) //nolint:noctx // of a node of this test
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Allowed                     bool
			Decision, Reason, Challenge string
		}
		if decision == wire.Allowed {
			if !strings.Contains(string(text), `"allowed":true`) {
				t.Fatalf("%s: got %s", key, text)
			}
			return
		}
		if err := json.Unmarshal(text, &answer); err != nil || answer.Allowed || answer.Decision != decision || answer.Reason != wire.Challenged || answer.Challenge != challenge.Path {
			t.Fatalf("%s: got %s, %v", key, text, err)
		}
		asked[key]++
	}
	check("shop:a", wire.Allowed)
	servers.Await(t, "the events show what is challenged", func() bool {
		check("shop:a", wire.Limited)
		check("shop:blocked", wire.Blocked)
		select {
		case err := <-followed:
			if err != nil || strings.Count(events.String(), `"challenged"`) < 2 {
				t.Fatalf("events ends with %v:\n%s", err, events.String())
			}
			return true
		default:
			return false
		}
	})

	total := asked["shop:a"] + asked["shop:blocked"]
	servers.Await(t, "traffic has them", func() bool {
		var traffic wire.Traffic
		if err := json.Unmarshal(n.Do(t, http.MethodGet, "/v1/traffic?last=1h&step=1m", "", http.StatusOK), &traffic); err != nil {
			t.Fatal(err)
		}
		challenged := 0
		for _, p := range traffic.Points {
			challenged += int(p.Challenged)
		}
		return challenged == total
	})
	for _, want := range []string{
		fmt.Sprintf(`stint_checks_total{additional="false",decision="challenged",policy="shop"} %d`, total),
		`stint_challenges_total{outcome="shown"} 0`,
	} {
		if text := string(n.Do(t, http.MethodGet, "/metrics", "", http.StatusOK)); !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics have no %s", want)
		}
	}
	if text := admin("key", "requests", "shop:a", "-o", "json"); strings.Count(text, `"challenged"`) == 0 {
		t.Errorf("the requests of the key are:\n%s", text)
	}
}
