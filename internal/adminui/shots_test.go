package adminui_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/adminui"
)

// Screenshots of every page are saved by
//
//	go test ./internal/adminui -run Screens -shots DIR
var shots = flag.String("shots", "", "the folder that TestScreens saves a picture of every page in")

// TestScreens looks at every page in both themes, narrow and wide: nothing may
// reach beyond the screen's edge, and nothing may be said on the console.
func TestScreens(t *testing.T) {
	n := newNode(t, func(d *adminui.Deps) { d.Entries.Traffic = trafficOf{"ip:198.51.100.2": 0.42, "ip:192.0.2.1": 0.58} })
	n.fill(t)
	b := newBrowser(t, n)
	b.logIn("maria")
	for _, width := range []int64{390, 1440, 2560} {
		for name, path := range n.pages(t) {
			b.screen(name, path, width, "light", "dark")
		}
	}
	b.consoleIsClean()
}

// screen loads a page at a width and looks at it in each theme, which it follows
// without being loaded again.
func (b *browser) screen(name, path string, width int64, themes ...string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 900), chromedp.Func(emulate(themes[0])), chromedp.Navigate(b.node.url+path))
	for _, theme := range themes {
		b.do(chromedp.Func(emulate(theme)))
		over := run(b, chromedp.Evaluate[int]("document.documentElement.scrollWidth - innerWidth"))
		if over > 0 {
			b.t.Errorf("%s at %d, %s: the page is %d pixels too wide", name, width, theme, over)
		}
		b.picture(name, width, theme)
	}
}

// picture saves what the page looks like, where pictures are asked for.
func (b *browser) picture(name string, width int64, theme string) {
	b.t.Helper()
	if *shots == "" {
		return
	}
	must(b.t, os.MkdirAll(*shots, 0o755))
	picture := run(b, chromedp.FullScreenshot(100))
	must(b.t, os.WriteFile(filepath.Join(*shots, fmt.Sprintf("%s-%d-%s.png", name, width, theme)), picture, 0o644))
}
