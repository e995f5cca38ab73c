package adminui_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// paste pastes into the focused field.
func paste(ctx context.Context, t *chromedp.Target) error {
	_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Commands: []string{"paste"}})
	return err
}

// allowClipboard lets pages write to the clipboard, as a browser with windows does by
// default after a click.
func (b *browser) allowClipboard() {
	b.t.Helper()
	_, err := chromedp.CallBrowser(b.ctx, cdpbrowser.SetPermission, cdpbrowser.SetPermissionParams{
		Permission:       &cdpbrowser.PermissionDescriptor{Name: "clipboard-write"},
		Setting:          cdpbrowser.PermissionSettingGranted,
		BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID,
	})
	must(b.t, err)
}

func TestConnectPageCopiesConfigurationInBrowser(t *testing.T) {
	b := newBrowser(t, newNode(t))
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("maria")
	b.allowClipboard()
	b.do(chromedp.Navigate(b.node.url + "/connect/nginx"))
	b.press(`form[action="/connect/nginx/token"] button`, "section.secret")
	for _, what := range []string{".secret", "section.section"} {
		button := what + " [data-copy]"
		b.waitFor(`!document.querySelector("` + button + `").hidden`)
		b.do(chromedp.Click(chromedp.CSS(button)))
		b.waitFor(`document.querySelector("` + button + ` span").innerText === "Copied"`)
		b.do(chromedp.Click(chromedp.CSS(button))) // a second time
		shown := run(b, chromedp.Evaluate[string](`document.querySelector("`+what+` .code pre").textContent`))
		if !strings.Contains(shown, "stint_check_") {
			t.Errorf("%s does not contain the token: %s", what, shown)
		}
		b.do(
			chromedp.Evaluate[chromedp.Void](`(e => { e.id = "pasted"; document.querySelector("#pasted")?.remove(); document.querySelector("main").append(e); e.focus() })(document.createElement("textarea"))`),
			chromedp.Func(paste),
		)
		b.waitFor(`document.querySelector("#pasted").value !== ""`)
		if pasted := run(b, chromedp.Evaluate[string](`document.querySelector("#pasted").value`)); pasted != shown {
			t.Errorf("%s: pasted %q, want %q", what, pasted, shown)
		}
		b.waitFor(`document.querySelector("` + button + ` span").innerText === "Copy"`)
	}
	b.consoleIsClean()
}

func TestConnectPageShowsTokenOnce(t *testing.T) {
	n := newNode(t)
	maria, vic := n.as(t, "maria"), n.as(t, "vic")
	at := strings.TrimPrefix(n.checks, "http://")
	maria.get("/connect").is(http.StatusOK).holds("auth_request").holds("server " + at).holds("Create token").lacks("stint_check_")
	maria.get("/connect/nginx").holds(`<a href="/connect/follow" rel="noreferrer"><code>docs/doors/follow.md</code></a>`).
		holds(`/docs/CHALLENGE.md" rel="noreferrer"><code>docs/CHALLENGE.md</code></a>`)
	maria.get("/connect/haproxy").is(http.StatusOK).holds("lua.stint http://" + at)
	maria.get("/connect/nothing").is(http.StatusNotFound)
	maria.get("/connect/README").is(http.StatusNotFound)
	maria.get("/connect/..%2Fdoors").is(http.StatusNotFound)

	made := maria.post("/connect/nginx/token", nil).is(http.StatusOK)
	secret := regexp.MustCompile(`stint_check_\w{49}`).FindString(made.body)
	if secret == "" || strings.Count(made.body, secret) < 2 {
		t.Fatalf("the configuration does not contain the token: %s", made.body)
	}
	maria.get("/connect/nginx").is(http.StatusOK).lacks(secret)
	maria.get("/tokens").holds(">nginx<").lacks(secret)
	maria.post("/connect/nginx/token", nil).is(http.StatusOK).holds("nginx-2")
	maria.post("/connect/fail2ban/token", nil).is(http.StatusOK).holds("stint_operate_")
	maria.post("/connect/nothing/token", nil).is(http.StatusNotFound)

	vic.get("/connect/nginx").is(http.StatusOK).holds("an admin").lacks("Create token")
	vic.post("/connect/nginx/token", nil).is(http.StatusForbidden)
}

// Browsers have a clipboard for pages that came by TLS or from the same machine only.
func TestCopyButtonsNeedClipboard(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.logIn("maria")
	hidden := func() bool {
		b.show(1440, "/key?key=ip:192.0.2.1")
		return run(b, chromedp.Evaluate[bool](`document.querySelector("[data-copy]").hidden`))
	}
	if hidden() {
		t.Error("the copy button is hidden where there is a clipboard")
	}
	b.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: `Object.defineProperty(Navigator.prototype, "clipboard", { value: undefined })`,
		})
		return err
	}))
	if !hidden() {
		t.Error("the copy button is shown where it can copy nothing")
	}
}
