package adminui_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/identity"
)

// ask sends a check and returns the status.
func (n *node) ask(t testing.TB, key string) int {
	t.Helper()
	return n.askFor(t, key, "")
}

// askFor is ask about a request for a path.
func (n *node) askFor(t testing.TB, key, path string) int {
	t.Helper()
	if path == "" {
		return n.askWith(t, key, nil)
	}
	return n.askWith(t, key, map[string]string{"path": path})
}

// askWith is ask about a request that is described.
func (n *node) askWith(t testing.TB, key string, request map[string]string) int {
	t.Helper()
	check := map[string]any{"key": key}
	if request != nil {
		check["request"] = request
	}
	body, err := json.Marshal(check)
	must(t, err)
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, n.checks+"/v1/check", strings.NewReader(string(body)))
	must(t, err)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	must(t, err)
	defer response.Body.Close()
	return response.StatusCode
}

func TestBlockIsAddedEndedAndRestoredInBrowser(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("olu")
	b.do(chromedp.Navigate(n.url + "/blocks/new"))
	b.write("#pattern", "203.0.113.7")
	b.write("#reason", `<img src=x onerror=alert(1)>`)
	b.waitFor(`document.querySelector("#add-button")?.innerText.includes("1 address")`) // the preview has loaded
	b.press("#add-button", "[data-toast]")
	if status := n.ask(t, "ip:203.0.113.7"); status != http.StatusForbidden {
		t.Fatalf("a blocked key: got %d, want 403", status)
	}
	b.press(`a[aria-label^="Edit"]`, "#edit-reason") // loaded by htmx, which also changes the URL
	b.waitFor(`location.search.includes("edit=")`)
	b.write("#edit-reason", "scraping")
	b.press(`button[form="edit-form"]`, "[data-toast]")
	b.waitFor(`document.querySelector("#list").innerText.includes("scraping") && !document.querySelector("#edit-reason")`)
	b.do(chromedp.Click(chromedp.CSS(`button[name="only"]`)))
	b.waitFor(`document.querySelector("[data-toast]")?.innerText.includes("Ended")`)
	if status := n.ask(t, "ip:203.0.113.7"); status != http.StatusOK {
		t.Fatalf("a key whose block was ended: got %d, want 200", status)
	}
	b.do(chromedp.Click(chromedp.CSS(`[data-toast] button`)))
	b.waitFor(`document.querySelector("[data-toast]")?.innerText.includes("Restored")`)
	if status := n.ask(t, "ip:203.0.113.7"); status != http.StatusForbidden {
		t.Fatalf("a key whose block was restored: got %d, want 403", status)
	}
	b.consoleIsClean()
}

func TestBlockingBroadRangeRequiresTypedConfirmationInBrowser(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("olu")
	b.do(
		chromedp.Navigate(n.url+"/blocks/new?pattern=ip:127.0.0.0/8"),
		chromedp.WaitVisible(chromedp.CSS("#confirm")),
	)
	if text := b.text(); !strings.Contains(text, "You would block your own address") || !strings.Contains(text, "16,777,216 addresses") {
		t.Errorf("got the preview %s", text)
	}
	b.write("#confirm", "ip:127.0.0.0/9")
	b.do(chromedp.Click(chromedp.CSS("#add-button")))
	b.waitFor(`document.querySelector("#confirm")?.getAttribute("aria-invalid") === "true"`)
	b.write("#confirm", "ip:127.0.0.0/8")
	b.waitFor(`document.querySelector("#add-button").getAttribute("aria-disabled") === "false"`)
	b.press("#add-button", "[data-toast]")
	if page, err := n.store.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, At: n.clock.Now()}); err != nil || page.Total != 1 {
		t.Errorf("got %d blocks, want 1; %v", page.Total, err)
	}
}

func TestPolicyEditorShowsErrorsThenSavesInBrowser(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("maria")
	const limit, save = `input[name="limit"]`, `button[value="save"]`
	b.do(chromedp.Navigate(n.url + "/policies/default"))
	b.write(limit, "2x")
	b.waitFor(`document.querySelector("#rule-note-0").innerText.includes("in digits")`)
	b.do(chromedp.Click(chromedp.CSS(save)))
	b.waitFor(`document.querySelector('input[name="limit"]').getAttribute("aria-invalid") === "true"`)
	if p, err := n.store.Policies.FindPolicyByName(t.Context(), "default"); err != nil || p.Version != 1 {
		t.Fatalf("an invalid policy was saved as version %d, %v", p.Version, err)
	}
	b.write(limit, "2")
	b.waitFor(`document.querySelector("#meaning").innerText.includes("At most 2 in any second")`)
	b.waitFor(`document.querySelector("#rule-note-0").innerText.includes("was 1")`)
	b.press(save, "[data-toast]")
	p, err := n.store.Policies.FindPolicyByName(t.Context(), "default")
	must(t, err)
	if p.Version != 2 || p.Rules.String() != "2/1s 20/1m 200/1h 800/1d" {
		t.Errorf("got version %d: %s", p.Version, p.Rules)
	}
	b.waitFor(`!document.querySelector("[data-toast]").remove()`)
	b.press(`button[name="version"][value="1"]`, "[data-toast]")
	if p, err = n.store.Policies.FindPolicyByName(t.Context(), "default"); err != nil || p.Version != 3 || p.Rules.String() != "1/1s 20/1m 200/1h 800/1d" {
		t.Errorf("the rollback created version %d: %s, %v", p.Version, p.Rules, err)
	}
	for _, m := range b.console() {
		if !strings.Contains(m, "422") { // the response to the invalid form
			t.Errorf("the console has the message: %s", m)
		}
	}
}

func TestPolicyEditorShowsConflictingEditInBrowser(t *testing.T) {
	n := newNode(t)
	first := newBrowser(t, n)
	second := first.another(t)
	const limit, save = `input[name="limit"]`, `button[value="save"]`
	for b, text := range map[*browser]string{first: "2", second: "3"} {
		b.do(chromedp.EmulateViewport(1440, 900))
		b.logIn("maria")
		b.do(chromedp.Navigate(n.url + "/policies/default"))
		b.write(limit, text)
	}
	first.press(save, "[data-toast]")
	second.do(chromedp.Click(chromedp.CSS(save)))
	second.waitFor(`document.querySelector("h1").innerText.includes("saved version 2 while you were editing 1")`)
	text := second.text()
	for _, part := range []string{"2/s 20/min", "3/s 20/min"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), part) {
			t.Errorf("the page does not show %q: %s", part, text)
		}
	}
	second.audit("conflict")
	second.press(save, "[data-toast]")
	p, err := n.store.Policies.FindPolicyByName(t.Context(), "default")
	must(t, err)
	if p.Version != 3 || p.Rules[0].Limit != 3 {
		t.Errorf("got version %d: %s", p.Version, p.Rules)
	}
}

func TestPolicyDraftIsBacktestedOnAccessLogInBrowser(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("maria")
	var log strings.Builder
	for range 30 {
		log.WriteString(`203.0.113.7 - - [20/Nov/2026:13:00:01 +0000] "GET / HTTP/1.1" 200 1` + "\n")
	}
	for range 3 {
		log.WriteString(`203.0.113.8 - - [20/Nov/2026:13:00:02 +0000] "GET / HTTP/1.1" 200 1` + "\n")
	}
	file := filepath.Join(t.TempDir(), "access.log")
	must(t, os.WriteFile(file, []byte(log.String()), 0o600))
	const limit = `input[name="limit"]`
	b.do(chromedp.Navigate(n.url + "/policies/default"))
	b.write(limit, "3")
	b.do(
		chromedp.SetUploadFiles(chromedp.CSS("#log"), []string{file}),
		chromedp.Click(chromedp.CSS(`button[value="try-log"]`)),
	)
	b.waitFor(`document.querySelector("#try")?.innerText.includes("access.log")`)
	text := strings.Join(strings.Fields(b.text()), " ")
	for _, part := range []string{"of 33 requests", "0 keys newly refused, 0 refused more, 1 refused less, 1 no longer refused", "ip:203.0.113.8"} {
		if !strings.Contains(text, part) {
			t.Errorf("the page does not show %q: %s", part, text)
		}
	}
	if p, err := n.store.Policies.FindPolicyByName(t.Context(), "default"); err != nil || p.Version != 1 {
		t.Errorf("the trial created version %d, %v", p.Version, err)
	}
	b.audit("tried")
	b.consoleIsClean()
}

func TestKeyboardShortcutsFocusSearchField(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("vic")
	b.do(chromedp.Focus(chromedp.CSS("#main")), chromedp.KeyEvent("/"))
	b.waitFor(`document.activeElement.matches("[data-goto]")`)
	b.do(chromedp.Focus(chromedp.CSS("#main")))
	b.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true, bubbles: true }))`))
	b.waitFor(`document.activeElement.matches("[data-goto]")`)
	for range 3 {
		n.ask(t, "token:"+hostile[0])
	}
	n.flush(t)
	b.write("[data-goto]", "alert")
	b.waitFor(`document.querySelector("#goto-keys option")?.value === "token:" + ` + strconv.Quote(hostile[0]))
	b.consoleIsClean()
	b.write("[data-goto]", "203.0.113.7\r")
	b.waitFor(`location.pathname === "/key" && new URLSearchParams(location.search).get("key") === "ip:203.0.113.7"`)
}

// On a phone a form is below its list, so a link leads to it, and a refused one has the focus.
func TestFormsBelowListsAreReachedAndSayTheirErrors(t *testing.T) {
	n := newNode(t)
	for i := range 20 {
		_, err := n.store.Identities.AddUser(t.Context(), audit.SystemActor("test"), identity.User{Name: fmt.Sprintf("user-%02d", i), Role: identity.Viewer, PasswordHash: hashed()})
		must(t, err)
	}
	b := newBrowser(t, n)
	b.logIn("maria")
	const isShown = `(box => box.top >= 0 && box.bottom <= innerHeight)(document.querySelector("#user-name").getBoundingClientRect())`
	b.show(390, "/users")
	b.waitFor("!" + isShown)
	b.do(chromedp.Click(chromedp.CSS(`.head [href="#new-user"]`)))
	b.waitFor(isShown)
	b.write("#user-name", "new")
	b.write("#user-password", "short")
	b.do(chromedp.Click(chromedp.CSS("#new-user .button.main")))
	b.waitFor(`document.activeElement.id === "user-password" && document.activeElement.matches("[aria-invalid=true]") &&
		document.getElementById(document.activeElement.getAttribute("aria-describedby")).innerText.includes("10")`)
	b.waitFor(isShown)
	b.show(390, "/tokens")
	b.do(chromedp.Click(chromedp.CSS(`.head [href="#new-token"]`)))
	b.write("#token-name", "ci")
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("#new-token [name=scopes]").forEach(box => { box.checked = false })`))
	b.do(chromedp.Click(chromedp.CSS("#new-token .button.main")))
	b.waitFor(`document.activeElement.name === "scopes" && document.activeElement.closest("fieldset").hasAttribute("aria-describedby")`)
	b.show(1440, "/tokens")
	b.waitFor(`document.querySelector(".head [href='#new-token']").checkVisibility() === false`)
}
