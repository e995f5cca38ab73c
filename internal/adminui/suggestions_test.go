package adminui_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/storetest"
)

// manyPolicies adds shop-000 to shop-299, each with a rule and a pattern of its own.
func (n *node) manyPolicies(t testing.TB) {
	t.Helper()
	var all []*rules.Policy
	for i := range 300 {
		all = append(all, storetest.NewPolicy(t, fmt.Sprintf("shop-%03d", i), fmt.Sprintf("token:customer_%03d*", i), fmt.Sprintf("%d/h", 1000+i)))
	}
	n.addPolicies(t, all...)
}

func (n *node) addPolicies(t testing.TB, all ...*rules.Policy) {
	t.Helper()
	var changes []rules.PolicyChange
	for _, p := range all {
		changes = append(changes, rules.PolicyChange{Name: p.Name, Policy: p, Expect: etag.New})
	}
	_, err := n.store.Policies.ApplyPolicies(t.Context(), audit.SystemActor("test"), changes)
	must(t, err)
	must(t, n.catalog.Refresh(t.Context()))
}

var suggestedOption = regexp.MustCompile(`<option value="([^"]*)">([^<]*)</option>`)

// suggestions returns the suggested values and their descriptions.
func (a *answer) suggestions() (values, descriptions []string) {
	a.t.Helper()
	a.is(http.StatusOK)
	for _, m := range suggestedOption.FindAllStringSubmatch(a.body, -1) {
		values, descriptions = append(values, html.UnescapeString(m[1])), append(descriptions, html.UnescapeString(m[2]))
	}
	return values, descriptions
}

// policyFields are the pages with a field for a policy.
var policyFields = []string{"/live", "/offenders", "/key?key=token:a&ask=reset"}

// A page with an option for each of thousands of policies is loaded slowly, and nobody finds one.
func TestPagesDoNotListAllPolicies(t *testing.T) {
	n := newNode(t)
	n.manyPolicies(t)
	olu := n.as(t, "olu")
	for _, page := range policyFields {
		olu.get(page).is(http.StatusOK).lacks("shop-").lacks("1150").holds(`name="policy"`).holds(`hx-get="/go/policies"`)
	}
	olu.get("/offenders?policy=shop-150").is(http.StatusOK).holds(`value="shop-150"`).lacks("shop-151")
	olu.get("/live?policy=shop-150").is(http.StatusOK).holds(`value="shop-150"`).lacks("shop-151")
}

func TestPoliciesAndRulesAreSuggested(t *testing.T) {
	n := newNode(t)
	n.manyPolicies(t)
	vic := n.as(t, "vic")
	for typed, want := range map[string][]string{
		"shop-15":  {"shop-150", "shop-151", "shop-152", "shop-153", "shop-154", "shop-155", "shop-156", "shop-157", "shop-158", "shop-159"},
		"SHOP-299": {"shop-299"}, " shop-299 ": {"shop-299"}, "customer_042": {"shop-042"}, "none": nil,
	} {
		if got, _ := vic.get("/go/policies?policy=" + url.QueryEscape(typed)).suggestions(); !slices.Equal(got, want) {
			t.Errorf("typing %q suggests %q, want %q", typed, got, want)
		}
	}
	for _, path := range []string{"/go/policies", "/go/policies?policy=", "/go/policies?policy=shop"} {
		got, _ := vic.get(path).suggestions()
		if len(got) != 20 || !slices.IsSorted(got) {
			t.Errorf("%s suggests %q, want the first 20 by name", path, got)
		}
	}
	// A browser shows only what contains the typed text.
	if _, why := vic.get("/go/policies?policy=customer_042").suggestions(); len(why) != 1 || why[0] != "token:customer_042*" {
		t.Errorf("the description is %q, want the pattern", why)
	}
	for typed, want := range map[string]string{"1150": "1150/1h", "1150/1h": "1150/1h", "1150/h": "1150/1h", "1,150": "1150/1h"} {
		if got, _ := vic.get("/go/rules?rule=" + url.QueryEscape(typed)).suggestions(); len(got) != 1 || got[0] != want {
			t.Errorf("typing %q suggests the rules %q, want %s", typed, got, want)
		}
	}
	if got, _ := vic.get("/go/rules").suggestions(); len(got) != 20 {
		t.Errorf("got %d rules, want 20", len(got))
	}
	// What begins with the typed text comes before what contains it.
	n.addPolicies(t, storetest.NewPolicy(t, "a-shop-2", "token:shop_2*", "7/h"))
	if got, _ := vic.get("/go/policies?policy=shop-2").suggestions(); len(got) != 20 || got[0] != "shop-200" {
		t.Errorf("got %q, want the policies whose names begin with the text first", got)
	}
}

func TestSuggestionsOfHostileTexts(t *testing.T) {
	n := newNode(t)
	for i, text := range hostile {
		n.addPolicies(t, storetest.NewPolicy(t, fmt.Sprintf("hostile-%d", i), "token:"+strings.ReplaceAll(text, "*", ""), "7/h"))
	}
	vic := n.as(t, "vic")
	got := vic.get("/go/policies?policy=hostile").lacks("<script").lacks("<img").lacks("\u202E").holds("U&#43;202E")
	if values, _ := got.suggestions(); len(values) != len(hostile) {
		t.Errorf("got %q, want %d policies", values, len(hostile))
	}
	for _, text := range hostile {
		for _, path := range []string{"/go/policies?policy=", "/go/rules?rule="} {
			vic.get(path + url.QueryEscape(text)).is(http.StatusOK).lacks("<script").lacks("<img")
		}
		for _, page := range []string{"/live?policy=", "/offenders?policy=", "/offenders?rule="} {
			vic.get(page + url.QueryEscape(text)).is(http.StatusUnprocessableEntity).lacks("<script>alert").lacks("<img src=x")
		}
	}
	for _, text := range []string{"\x00", "\xff\xfe", strings.Repeat("x", 5000), "a\nb", "%", "_"} {
		for _, path := range []string{"/go/policies?policy=", "/go/rules?rule="} {
			vic.get(path + url.QueryEscape(text)).is(http.StatusOK)
		}
	}
}

func TestUnknownPolicyIsAnErrorOfItsField(t *testing.T) {
	n := newNode(t)
	n.send(t, "token:a", "token:a")
	n.flush(t)
	olu := n.as(t, "olu")
	const message = "There is no policy of that name"
	for _, page := range []string{"/live?policy=defalt&show=refused", "/offenders?policy=defalt&last=24h"} {
		olu.get(page).is(http.StatusUnprocessableEntity).holds(message).holds(`value="defalt"`).holds(`aria-invalid="true"`).
			lacks("token:a").lacks("data-refresh").lacks("data-stream")
	}
	olu.get("/offenders?policy=default").is(http.StatusOK).holds("token:a").lacks("aria-invalid")
	olu.get("/live?policy=default").is(http.StatusOK).lacks("aria-invalid")
	olu.get("/offenders?rule=20+per+minute").is(http.StatusUnprocessableEntity).holds(`aria-invalid="true"`).holds("20/min")
	for query, says := range map[string]string{
		"min_offences=many": "Must be a whole number from 1 to 1,000,000,000", "pattern=ip:10.9.0.999": "Looks like an IPv4 address and is none: 999 is above 255", "source=" + strings.Repeat("x", 1025): "at most",
	} {
		olu.get("/offenders?" + query).is(http.StatusUnprocessableEntity).holds(`aria-invalid="true"`).holds(says).holds("No offenders are shown.")
	}
	olu.get("/offenders?rule=20&policy=defalt").is(http.StatusUnprocessableEntity).holds(message).holds("Must be a rule such as 20/min")
	for _, rule := range []string{"1/1s", "1/s", "3/5m", "0190b8a2-7c4e-7cc3-98c4-dc0c0c07398f", "other"} {
		olu.get("/offenders?rule=" + url.QueryEscape(rule)).is(http.StatusOK).lacks("aria-invalid")
	}
	typed := url.Values{"key": {"token:a"}, "policy": {"defalt"}, "back": {"/key?key=token%3Aa"}}
	olu.post("/key/reset", typed).is(http.StatusUnprocessableEntity).holds(message).holds(`value="defalt"`).holds("Reset the counters of this key?")
	olu.post("/key/reset?key=token%3Aa&last=24h", typed).is(http.StatusUnprocessableEntity).holds(`href="/key?key=token%3Aa&amp;last=24h"`)
	typed.Set("policy", "default")
	done := func() *answer {
		return olu.get(olu.post("/key/reset", typed).is(http.StatusSeeOther).header.Get("Location"))
	}
	done().holds("Counts reset under one policy.").lacks("All limits start from zero")
	typed.Set("policy", "")
	done().holds("Counts reset. All limits start from zero.")
}

// scripting switches scripts of pages on or off.
func (b *browser) scripting(on bool) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
		return err
	}))
}

func TestPolicyIsChosenFromSuggestionsInBrowser(t *testing.T) {
	n := newNode(t)
	n.manyPolicies(t)
	b := newBrowser(t, n)
	b.withAxe()
	b.logIn("olu")
	for _, width := range []int64{1440, 390} {
		b.show(width, "/live?show=refused")
		b.do(chromedp.Click(chromedp.CSS("#live-policy")))
		b.waitFor(`document.querySelector("#live-policy").list.options.length === 20`) // before anything is typed
		b.write("#live-policy", "shop-15")
		b.waitFor(`[...document.querySelector("#live-policy").list.options].map(o => o.value).join().startsWith("shop-150,shop-151,")`)
		b.audit("suggestions")
		// A browser sets the field to the chosen suggestion so.
		b.do(chromedp.Evaluate[chromedp.Void](`(field => { field.value = "shop-151";
			for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, { bubbles: true })) })(document.querySelector("#live-policy"))`))
		b.waitFor(`location.search === "?policy=shop-151&show=refused" || location.search === "?show=refused&policy=shop-151"`)
		b.waitFor(`document.querySelector("#live-policy").value === "shop-151"`)
		b.write("#live-policy", "defalt\t") // leaving the field sends nothing
		b.waitFor(`document.activeElement.id !== "live-policy" && location.search.includes("shop-151")`)
		b.write("#live-policy", "defalt\r")
		b.waitFor(`location.search.includes("policy=defalt")`)
		b.waitFor(`document.activeElement.id === "live-policy" && document.activeElement.matches("[aria-invalid=true]") &&
			document.getElementById(document.activeElement.getAttribute("aria-describedby")).innerText.includes("no policy")`)
		b.audit("unknown policy")
		b.write("#live-policy", "shop-007\r")
		b.waitFor(`location.search.includes("policy=shop-007") && !document.querySelector("[aria-invalid=true]")`)
	}
	b.show(1440, "/offenders")
	b.press(".filters details.menu > summary", "#f-policy")
	b.write("#f-rule", "1042")
	b.waitFor(`document.querySelector("#f-rule").list.options[0]?.value === "1042/1h"`)
	b.write("#f-rule", "1042/h")
	b.write("#f-policy", "customer_042")
	b.waitFor(`document.querySelector("#f-policy").list.options[0]?.value === "shop-042"`)
	b.write("#f-policy", "customer_042\r")
	b.waitFor(`document.activeElement.id === "f-policy" && document.activeElement.matches("[aria-invalid=true]") && document.activeElement.checkVisibility()`)
	b.audit("unknown policy of offenders")
	b.write("#f-policy", "shop-042\r")
	b.waitFor(`location.search.includes("policy=shop-042") && [...document.querySelectorAll(".chip")].some(c => c.innerText.includes("shop-042"))`)
	for _, width := range []int64{390, 768} {
		b.show(width, "/offenders?policy=defalt&rule=20")
		if over := run(b, chromedp.Evaluate[int]("document.documentElement.scrollWidth - innerWidth")); over > 0 {
			t.Errorf("the open filter makes the page %d pixels too wide for %d", over, width)
		}
	}
	b.show(1440, "/key?key=token:a&ask=reset")
	b.write("#reset-policy", "defalt")
	b.press("#reset .button.main", "#reset-policy[aria-invalid=true]")
	b.write("#reset-policy", "shop-042")
	b.waitFor(`document.querySelector("#reset-policy").list.options[0]?.value === "shop-042"`)
	b.press("#reset .button.main", "[data-toast]")
	b.consoleIsClean("422") // the status of the pages with an error
}

func TestPolicyFieldWithoutScripts(t *testing.T) {
	n := newNode(t)
	n.manyPolicies(t)
	b := newBrowser(t, n)
	b.logIn("olu")
	b.do(chromedp.EmulateViewport(1440, 900), chromedp.Navigate(n.url+"/live"))
	b.scripting(false)
	b.do(chromedp.Navigate(n.url + "/live"))
	b.do(chromedp.Click(chromedp.CSS("#live-policy")), chromedp.KeyEvent("shop-299\r"))
	b.scripting(true)
	b.waitFor(`location.search.includes("policy=shop-299") && document.querySelector("#live-policy").value === "shop-299"`)
	b.consoleIsClean()
}
