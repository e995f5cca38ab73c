package adminui_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// browser is one tab of a real Chromium.
type browser struct {
	t       testing.TB
	node    *node
	ctx     context.Context
	console func() []string // what was said so far
}

func newBrowser(t testing.TB, n *node) *browser {
	t.Helper()
	profile, err := os.MkdirTemp(t.TempDir(), "profile")
	must(t, err)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.UserDataDir(profile), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until the browser has gone, so that its profile can be removed
		cancel()
		stop()
	})
	b := &browser{t: t, node: n, ctx: ctx}
	b.listen()
	return b
}

// another returns a tab of its own login in a browser of its own.
func (b *browser) another(t testing.TB) *browser { return newBrowser(t, b.node) }

// listen gathers what is said on the console.
func (b *browser) listen() {
	said := make(chan string, 10_000)
	messages := chromedp.Console(b.ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			said <- m.String()
		}
	}()
	b.console = func() []string {
		var all []string
		for {
			select {
			case m := <-said:
				all = append(all, m)
			default:
				return all
			}
		}
	}
}

func (b *browser) consoleIsClean() {
	b.t.Helper()
	for _, m := range b.console() {
		b.t.Errorf("the console says: %s", m)
	}
}

// patience bounds one step of a test, so that a button that is not there ends
// the test and not the day.
const patience = 20 * time.Second

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%v; the page is %s", err, b.text())
	}
}

func run[T any](b *browser, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	got, err := chromedp.Run(ctx, a)
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

// text returns what the page shows.
func (b *browser) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.title + ': ' + document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return got
}

func (b *browser) logIn(name string) {
	b.t.Helper()
	b.do(
		chromedp.Navigate(b.node.url+"/login?next=/blocks"),
		chromedp.SendKeys(chromedp.CSS("#name"), name),
		chromedp.SendKeys(chromedp.CSS("#password"), password+"\n"),
		chromedp.WaitVisible(chromedp.CSS("#list")),
	)
}

// waitFor waits until an expression is true on the page.
func (b *browser) waitFor(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression)); err != nil {
		b.t.Fatalf("%s: %v; the page is %s", expression, err, b.text())
	}
}

// emulate has the system ask for a theme.
func emulate(theme string) func(context.Context, *chromedp.Target) error {
	return func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
		return err
	}
}
