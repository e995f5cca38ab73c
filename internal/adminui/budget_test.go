package adminui_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/algorithms"
)

func TestKeyPageDrawsTheBudgetOfAmountsInBrowser(t *testing.T) {
	n := newNode(t)
	n.count(t, algorithms.AmountLog, algorithms.Options{}, "10/h")
	b := newBrowser(t, n)
	b.logIn("maria")
	for range 3 {
		n.ask(t, waitingKey)
		n.clock.advance(10 * time.Minute)
	}
	n.flush(t)
	n.as(t, "maria").get("/key?key=" + waitingKey).is(http.StatusOK).holds("Budget of ").holds("3 of 10 count now")
	b.do(chromedp.EmulateViewport(1440, 900), chromedp.Navigate(n.url+"/key?key="+waitingKey))
	if columns := run(b, chromedp.Evaluate[int](`document.querySelectorAll(".over-time .area-allowed").length`)); columns < 40 {
		t.Errorf("%d columns are drawn", columns)
	}
	b.look("key-budget")
	b.consoleIsClean()
}
