package adminui_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// chromium starts the browser that all tests share; each has a context of its
// own in it, which shares no cookie, cache or storage with another.
var chromium = sync.OnceValues(func() (context.Context, error) {
	profile, err := os.MkdirTemp("", "stint-chromium-")
	if err != nil {
		return nil, err
	}
	options := chromedp.DefaultExecAllocatorOptions[:]
	// Debian's build of Chromium without windows takes half of the processor time.
	if path, err := exec.LookPath("chromium-headless-shell"); err == nil {
		options = append(options, chromedp.ExecPath(path))
	}
	options = append(options,
		chromedp.UserDataDir(profile), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(stepTimeout),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	servers.AtExit(func() {
		_ = chromedp.Cancel(ctx) // waits until the browser has gone, so that its profile can be removed
		cancel()
		stop()
		os.RemoveAll(profile)
	})
	return ctx, chromedp.Do(ctx) // which starts it
})

// browser is one tab of a real Chromium.
type browser struct {
	t       testing.TB
	node    *node
	ctx     context.Context
	console func() []string // the messages so far
}

func newBrowser(t testing.TB, n *node) *browser {
	t.Helper()
	shared, err := chromium()
	must(t, err)
	ctx, cancel := chromedp.NewContext(shared, chromedp.WithNewBrowserContext())
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until the tab is closed
		cancel()
	})
	b := &browser{t: t, node: n, ctx: ctx}
	b.listen()
	return b
}

// another returns a tab that shares nothing with b, so that another can log in.
func (b *browser) another(t testing.TB) *browser { return newBrowser(t, b.node) }

// listen collects the messages of the console.
func (b *browser) listen() {
	received := make(chan string, 10_000)
	messages := chromedp.Console(b.ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			received <- m.String()
		}
	}()
	b.console = func() []string {
		var all []string
		for {
			select {
			case m := <-received:
				all = append(all, m)
			default:
				return all
			}
		}
	}
}

// consoleIsClean fails if the console has a message that contains none of the expected texts.
func (b *browser) consoleIsClean(expected ...string) {
	b.t.Helper()
	// Logged for a field with autofocus if something was focused before the
	// page had loaded, which a quick test does and which is harmless.
	expected = append(expected, "Autofocus processing was blocked")
	for _, m := range b.console() {
		if !slices.ContainsFunc(expected, func(text string) bool { return strings.Contains(m, text) }) {
			b.t.Errorf("the console has the message: %s", m)
		}
	}
}

// stepTimeout bounds one step of a test, so that a missing button ends
// the test soon.
const stepTimeout = time.Minute

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%v; the page shows %s", err, b.text())
	}
}

func run[T any](b *browser, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	got, err := chromedp.Run(ctx, a)
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

// text returns what the page shows.
func (b *browser) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.title + ': ' + document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return got
}

func (b *browser) logIn(name string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.node.url + "/login?next=/blocks"))
	b.write("#name", name)
	b.write("#password", password+"\r")
	b.waitFor(`document.querySelector("#list")`)
}

// waitFor waits until an expression is true on the page, whichever page that is
// by then.
func (b *browser) waitFor(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	for {
		// Between two pages there is no document to evaluate.
		done, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("document.readyState === 'complete' && Boolean("+expression+")"))
		if err == nil && done {
			return
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("waiting for %s: %v; the page shows %s", expression, err, b.text())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// write replaces the value of a field by typing text.
func (b *browser) write(selector, text string) {
	b.t.Helper()
	b.do(
		chromedp.WaitVisible(chromedp.CSS(selector)),
		chromedp.Evaluate[chromedp.Void]("(e => { e.focus(); e.select() })(document.querySelector("+strconv.Quote(selector)+"))"),
		chromedp.KeyEvent(text),
	)
}

// settle waits for the answers that replace a part of the page: what is to be clicked may be in it.
func (b *browser) settle() {
	b.t.Helper()
	b.waitFor(`!document.querySelector(".htmx-request:not([data-refresh])")`)
}

// press clicks an element and waits for another one.
func (b *browser) press(selector, then string) {
	b.t.Helper()
	b.settle()
	b.do(chromedp.Click(chromedp.CSS(selector)))
	b.waitFor("document.querySelector(" + strconv.Quote(then) + ")")
}

// emulate sets the colour scheme of the system.
func emulate(theme string) func(context.Context, *chromedp.Target) error {
	return func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
		return err
	}
}
