package adminui_test

import (
	"context"
	"html"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/adminui/administration"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/rules"
)

var commandBlock = regexp.MustCompile(`(?s)<pre[^>]*>(.*?)</pre>`)

// commands returns the commands that a page shows.
func (a *answer) commands() []string {
	var all []string
	for _, m := range commandBlock.FindAllStringSubmatch(a.body, -1) {
		all = append(all, html.UnescapeString(m[1]))
	}
	return all
}

// shell runs a copied command.
func shell(t testing.TB, command string, env ...string) string {
	t.Helper()
	run := exec.CommandContext(t.Context(), "sh", "-c", command)
	run.Env = append(os.Environ(), env...)
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

func TestFirstRunCommandsWorkWhenCopied(t *testing.T) {
	n := newNode(t)
	secret := identity.NewSecret([]identity.Access{identity.Operate})
	_, err := n.store.Identities.AddToken(context.Background(), audit.SystemActor("test"), identity.Token{Name: "bootstrap", Hint: secret.Hint, Hash: secret.Hash[:], Scopes: []identity.Access{identity.Operate}})
	must(t, err)
	page := n.as(t, "maria").get("/start").is(http.StatusOK).holds("Prints 429").lacks("STINT_CHECK_TOKEN")
	commands := page.commands()
	if len(commands) != 3 {
		t.Fatalf("got %d commands, want 3: %q", len(commands), commands)
	}
	if out := shell(t, commands[0]); !strings.Contains(out, `"decision":"allowed"`) {
		t.Errorf("the first command printed %s, want an allowed decision", out)
	}
	if out := shell(t, commands[1]); out != strings.Repeat("429\n", 3) { // the first command used the one request of this second
		t.Errorf("the second command printed %q, want 429 three times", out)
	}
	if out := shell(t, commands[2], "STINT_ADMIN_TOKEN="+secret.Text); !strings.Contains(out, `"trying it out"`) {
		t.Errorf("the third command printed %s", out)
	}
	if status := n.ask(t, "ip:203.0.113.7"); status != http.StatusForbidden {
		t.Errorf("the next check: got %d, want 403", status)
	}
}

// The command that is to show a refusal does so under every preset for all addresses.
func TestSecondStepIsRefusedUnderHighLimits(t *testing.T) {
	n := newNode(t)
	n.put(t, rules.Policy{Name: "website"}, "50/s", "600/m")
	page := n.as(t, "maria").get("/start").is(http.StatusOK).holds("costs as much as 50 requests").holds("Prints 429")
	if out := shell(t, page.commands()[1]); out != "200\n429\n429\n" {
		t.Errorf("the second command printed %q, want 200 and then 429", out)
	}
}

// TestFirstStepsRemainAfterTheFirstCheck: they name Connect, and no longer say that nothing was checked.
func TestFirstStepsRemainAfterTheFirstCheck(t *testing.T) {
	checked := false
	n := newNode(t, func(d *adminui.Deps) {
		d.Checked = func(context.Context) (bool, error) { return checked, nil }
	})
	maria := n.as(t, "maria")
	maria.get("/start").is(http.StatusOK).holds("Nothing has been checked yet").holds(`hx-trigger="every 3s"`).holds(`href="/connect"`).lacks("No limits are enforced")
	checked = true
	n.send(t, "ip:203.0.113.7")
	n.flush(t)
	n.clock.advance(12 * time.Second)
	for range 10 { // until the sketch of the keys is written
		n.flush(t)
	}
	maria.get("/").is(http.StatusOK).holds("So far only one key was checked").holds(`<a href="/connect">Connect your gateway or application</a>`)
	maria.get("/start").is(http.StatusOK).holds("so far only one key was checked").lacks("Nothing has been checked yet")
	n.send(t, "ip:203.0.113.7", "ip:203.0.113.8", "ip:203.0.113.9")
	n.clock.advance(2 * time.Minute)
	n.flush(t)
	maria.get("/start").is(http.StatusOK).lacks("Nothing has been checked yet").lacks("every 3s").holds("answers the checks of your clients").holds("Connect your gateway")
	maria.get("/").is(http.StatusOK).holds(`<a href="/start">First steps</a>`).lacks("So far only one key").lacks("No limits are enforced")
	policy, err := n.store.Policies.FindPolicyByName(context.Background(), "default")
	must(t, err)
	counting := *policy
	counting.Mode = rules.Shadow
	_, err = n.store.Policies.PutPolicy(context.Background(), audit.SystemActor("test"), &counting, etag.Any)
	must(t, err)
	for _, page := range []string{"/start", "/"} {
		maria.get(page).is(http.StatusOK).holds("The policy default only counts").holds(`href="/presets/website"`)
	}
}

func TestFirstRunCommandsContainTokenIfChecksNeedIt(t *testing.T) {
	n := newNode(t, func(d *adminui.Deps) {
		d.Settings = func() []administration.Setting {
			return []administration.Setting{{Name: "check-auth", Variable: "STINT_CHECK_AUTH", Value: "token"}}
		}
	})
	commands := n.as(t, "maria").get("/start").is(http.StatusOK).holds(`href="/tokens"`).commands()
	for _, command := range commands[:2] {
		if !strings.Contains(command, `-H "Authorization: Bearer $STINT_CHECK_TOKEN" \`) {
			t.Errorf("the command has no token: %s", command)
		}
		shell(t, command, "STINT_CHECK_TOKEN=anything")
	}
}
