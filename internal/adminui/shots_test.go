package adminui_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// Screenshots of every page are saved by
//
//	go test ./internal/adminui -run Screens -shots DIR
var shots = flag.String("shots", "", "the folder that TestScreens and TestMonitorScreens save a picture of every page in")

// TestScreens tests every page in both themes, narrow and wide: nothing may
// reach beyond the screen's edge, axe must find no violation, and nothing may be
// logged on the console.
func TestScreens(t *testing.T) {
	n := newNode(t, func(d *adminui.Deps) { d.Entries.Traffic = trafficOf{"ip:198.51.100.2": 0.42, "ip:192.0.2.1": 0.58} })
	n.fill(t)
	b := newBrowser(t, n)
	b.withAxe()
	b.do(chromedp.EmulateViewport(1440, 900), chromedp.Navigate(n.url+"/login"))
	b.audit("login")
	b.logIn("maria")
	for name, path := range n.pages(t) {
		b.screens(name, path)
	}
	b.consoleIsClean()
}

// TestBacktestReportInBrowser tests the page that "admin backtest --html" writes as
// the others, with keys that an attacker chose.
func TestBacktestReportInBrowser(t *testing.T) {
	rule, err := rules.ParseStack([]string{"2/1m"})
	must(t, err)
	other, err := rules.ParseStack([]string{"1/1h"})
	must(t, err)
	truth, against := backtest.NewTruth(), backtest.StackPlan(other)
	var records []accesslog.Record
	for i := range 200 {
		text := "ip:192.0.2." + strconv.Itoa(i%5)
		if i%7 == 0 {
			text = "token:<img/src=x:onerror=alert(1)>" + strings.Repeat("long", i%20)
		}
		key, err := keys.Parser{}.Key(text)
		must(t, err)
		records = append(records, accesslog.Record{Time: int64(i) * 5000, Key: key, Cost: 1})
		if i < 2 {
			must(t, truth.Add(key, []string{"</td><script>alert(1)</script>", "office"}[i], time.UnixMilli(int64(1-i))))
		}
	}
	report, err := backtest.Run(t.Context(), accesslog.Slice(records), backtest.Options{Plan: backtest.StackPlan(rule), Against: &against, Truth: truth})
	must(t, err)
	folder := t.TempDir()
	var out bytes.Buffer
	must(t, report.WriteHTML(&out, 0))
	must(t, os.WriteFile(filepath.Join(folder, "report.html"), out.Bytes(), 0o600))
	b := newBrowser(t, &node{url: "file://" + folder})
	b.withAxe()
	b.screens("backtest", "/report.html")
	if got := b.text(); !strings.Contains(got, "<img/src=x") || !strings.Contains(got, "</td><script>") {
		t.Errorf("the page shows %s, want the hostile texts as text", got)
	}
	b.consoleIsClean()
}

// screens loads a page narrow and inspects it at every width, and wide in both themes,
// without loading it again: no style or script of ours reads
// the width when a page is loaded. axe checks it narrow and wide, and its
// colours wide in the dark, since narrow pages differ in shape and not in colour,
// and themes in colour and not in shape.
func (b *browser) screens(name, path string) {
	b.t.Helper()
	const narrow, wide = 390, 1440
	widths := []int64{narrow, wide, 2560}
	if *shots != "" {
		widths = []int64{narrow, 768, 1024, wide, 1920, 2560}
	}
	for i, width := range widths {
		b.do(chromedp.EmulateViewport(width, 900), chromedp.Func(emulate("light")))
		if i == 0 {
			b.do(chromedp.Navigate(b.node.url + path))
		}
		look := fmt.Sprintf("%s at %d", name, width)
		b.fits(look)
		if width == narrow || width == wide {
			b.audit(look + ", light")
		}
		b.picture(name, width, "light")
		if width != wide && *shots == "" {
			continue
		}
		b.do(chromedp.Func(emulate("dark")))
		if width == wide {
			b.auditColours(look + ", dark")
		}
		b.picture(name, width, "dark")
	}
}

// fits fails if the page is wider than the window.
func (b *browser) fits(look string) {
	b.t.Helper()
	if over := run(b, chromedp.Evaluate[int]("document.documentElement.scrollWidth - innerWidth")); over > 0 {
		b.t.Errorf("%s: the page is %d pixels too wide", look, over)
	}
}

// picture saves a picture of the page if the flag -shots is set.
func (b *browser) picture(name string, width int64, theme string) {
	b.t.Helper()
	if *shots == "" {
		return
	}
	must(b.t, os.MkdirAll(*shots, 0o755))
	picture := run(b, chromedp.FullScreenshot(100))
	must(b.t, os.WriteFile(filepath.Join(*shots, fmt.Sprintf("%s-%d-%s.png", name, width, theme)), picture, 0o644))
}

// inspect tests a page at every width, and wide in both themes, without loading it again; path
// is "" for the current page.
func (b *browser) inspect(name, path string) {
	b.t.Helper()
	b.do(chromedp.Func(emulate("light")))
	if path != "" {
		b.do(chromedp.Navigate(b.node.url + path))
	}
	for _, width := range []int64{390, 768, 1920, 1440} {
		b.do(chromedp.EmulateViewport(width, 900))
		b.fits(fmt.Sprintf("%s at %d", name, width))
		b.picture(name, width, "light")
	}
	b.audit(name + ", light")
	b.do(chromedp.Func(emulate("dark")))
	b.auditColours(name + ", dark")
	b.picture(name, 1440, "dark")
}
