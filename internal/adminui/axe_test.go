package adminui_test

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// axe is axe-core 4.14.1 by Deque Systems, under the Mozilla Public License
// 2.0, unchanged out of its npm package. It is used in tests only.
//
//go:embed testdata/axe-4.14.1.min.js
var axe string

// violation is one of axe's rules that a page breaks.
type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

func (v violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.ID, v.Help)
	for i, n := range v.Nodes {
		if i == 3 {
			fmt.Fprintf(&b, "\n  and %d more", len(v.Nodes)-3)
			break
		}
		fmt.Fprintf(&b, "\n  %s\n    %s", n.HTML, strings.ReplaceAll(n.Summary, "\n", " "))
	}
	return b.String()
}

// withAxe adds axe to every page that is loaded from now on, which costs
// less than adding it in audit.
func (b *browser) withAxe() {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: axe})
		return err
	}))
}

// audit runs every rule of axe on the page.
func (b *browser) audit(name string) {
	b.t.Helper()
	b.auditBy("{}", name)
}

// auditColours runs those of audit's rules that are about colour on a page that
// audit has seen in another theme, in which nothing else differs.
func (b *browser) auditColours(name string) {
	b.t.Helper()
	b.auditBy(`{ runOnly: ["cat.color"], rules: { "color-contrast-enhanced": { enabled: false } } }`, name)
}

func (b *browser) auditBy(rules, name string) {
	b.t.Helper()
	if !run(b, chromedp.Evaluate[bool]("'axe' in window")) {
		b.do(chromedp.Evaluate[chromedp.Void](axe))
	}
	// Passed rules are not described, which would take most of the time.
	found := run(b, chromedp.Evaluate[[]violation](
		`axe.run({ ...`+rules+`, resultTypes: ["violations"], selectors: false }).then(r => r.violations)`, chromedp.EvalAwaitPromise))
	for _, v := range found {
		b.t.Errorf("%s: %s", name, v)
	}
}
