package adminui_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/admin/operations"
)

// TestChannelFormShowsFieldsOfItsType chooses every type: the form has no field that the type does not
// have.
func TestChannelFormShowsFieldsOfItsType(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.logIn("maria")
	b.do(chromedp.EmulateViewport(1440, 900), chromedp.Navigate(n.url+"/notifications/channels"))
	fields := map[string]string{"webhook": "channel-signing", "email": "channel-from channel-to"}
	for _, of := range operations.ChannelTypes() {
		got := run(b, chromedp.Evaluate[string](`(() => {
			document.querySelector("[name=type][value=`+string(of.Type)+`]").click();
			return [...document.querySelectorAll("#channel-signing, #channel-from, #channel-to")].filter((e) => e.offsetParent).map((e) => e.id).join(" ");
		})()`))
		if got != fields[string(of.Type)] {
			t.Errorf("the form of %s has the fields %q, want %q", of.Type, got, fields[string(of.Type)])
		}
	}
}
