package adminui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/test/storetest"
)

const mixedKeys = "key,plan,labels,note\ntoken:new,gold,region=eu vip,Contract 17\ntoken:known,glod,,\ntoken:same,free,,\ntoken:new,free,,\nip:300.1.1.1,gold,,\n"

// profileOf returns the profile of a key, nil for none.
func (n *node) profileOf(t testing.TB, key string) *profiles.Profile {
	t.Helper()
	p, err := n.store.Profiles.FindProfile(t.Context(), key)
	must(t, err)
	return p
}

func TestKeyImportIsPreviewedThenConfirmed(t *testing.T) {
	n := newNode(t)
	for key, plan := range map[string]string{"token:known": "gold", "token:same": "free"} {
		_, err := n.store.Profiles.PutProfile(t.Context(), storetest.Operator, profiles.Profile{Key: key, Plan: plan}, etag.Any)
		must(t, err)
	}
	olu := n.as(t, "olu")
	olu.get("/keys?plan=gold&limited=1").holds(`href="/keys/import"`).holds(`href="/v1/profiles/export?limited=true&amp;plan=gold"`)
	olu.get("/v1/profiles/export?plan=gold").is(http.StatusOK).holds("token:known,gold")
	tried := olu.upload("/keys/import", "customers.csv", mixedKeys, nil).is(http.StatusOK).
		holds("5 rows of <bdi>customers.csv</bdi>, as CSV").holds("<dt>New</dt><dd><b>1</b>").holds("<dt>Replaced</dt><dd><b>1</b>").
		holds("<dt>Unchanged</dt><dd>1<").holds("it has the key of line 2; leave one of the two").holds(`<td class="num fit" data-label="Line">6</td>`).
		holds("No policy applies to plan:free, plan:glod and plan:gold. Such a plan").
		holds("<bdi>gold, region=eu vip, Contract 17</bdi>").holds("What is kept of 1 key is replaced.").
		holds("Skip 2 invalid rows and change 2 keys").lacks(">Change 2 keys<")
	if n.profileOf(t, "token:new") != nil {
		t.Fatal("the dry run stored a profile")
	}
	form := url.Values{"file": {tried.held()}}
	olu.post("/keys/import/confirm", form).is(http.StatusUnprocessableEntity).holds("2 of the 5 rows are invalid")
	form.Set("skip_bad", "yes")
	olu.post("/keys/import/confirm", form).is(http.StatusOK).holds("2 keys").lacks("Undo it in the audit")
	if p := n.profileOf(t, "token:new"); p == nil || p.Plan != "gold" || strings.Join(p.Labels, " ") != "region=eu vip" || p.Note != "Contract 17" {
		t.Errorf("got the profile %+v", p)
	}
	if p := n.profileOf(t, "token:known"); p == nil || p.Plan != "glod" {
		t.Errorf("got the profile %+v", p)
	}
	olu.post("/keys/import/confirm", form).is(http.StatusOK).holds("2 keys").holds("Nothing was imported again")

	created := olu.upload("/keys/import", "", "", url.Values{"list": {`{"key":"token:json","labels":["a"]}`}, "skip_bad": {"yes"}}).
		is(http.StatusOK).holds("1 row, as JSON").holds(">Change").lacks("What is kept of")
	olu.post("/keys/import/confirm", url.Values{"file": {created.held()}}).is(http.StatusOK).holds("Undo it in the audit")
	olu.upload("/keys/import", "", "", url.Values{"list": {"key,labels,limit\ntoken:json,a,\ntoken:b,,5/s\n"}}).is(http.StatusOK).
		says("1 row has a limit, which is not imported").holds("Nothing would change.")
	olu.upload("/keys/import", "", "", url.Values{"list": {"key,labels\ntoken:json,a\n"}}).is(http.StatusOK).holds("Nothing would change.").lacks(`id="confirm"`)
}

func TestUploadedKeyImportIsPrivateAndExpires(t *testing.T) {
	n := newNode(t)
	olu, list := n.as(t, "olu"), url.Values{"list": {"key,plan\ntoken:a,gold\n"}}
	first := olu.upload("/keys/import", "", "", list).held()
	n.as(t, "maria").post("/keys/import/confirm", url.Values{"file": {first}}).is(http.StatusConflict)
	olu.post("/blocks/import/confirm", url.Values{"file": {first}}).is(http.StatusConflict)
	second := olu.upload("/keys/import", "", "", list).held()
	olu.post("/keys/import/confirm", url.Values{"file": {first}}).is(http.StatusConflict)
	n.clock.advance(15 * time.Minute)
	olu.post("/keys/import/confirm", url.Values{"file": {second}}).is(http.StatusConflict)
	if n.profileOf(t, "token:a") != nil {
		t.Error("the refused confirmation imported the key")
	}
}

func TestKeyImportExplainsUnreadableFiles(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	for name, c := range map[string]struct{ file, content, says string }{
		"an empty file":         {"keys.csv", "", "this one is empty"},
		"a header without keys": {"keys.csv", "plan\ngold\n", "no column key"},
		"truncated JSON":        {"keys.json", `[{"key":"token:a","plan":"gold"},{"key`, "The file"},
		"too many plans":        {"keys.csv", "key,plan\n" + manyPlans(), "1001 different plans; at most 1000"},
		"more than 64 MB":       {"keys.csv", "key,plan\n" + strings.Repeat("token:"+strings.Repeat("x", 120)+",gold\n", 1<<19+1<<16), "more than 64 MB"},
	} {
		t.Run(name, func(t *testing.T) {
			olu.t = t
			olu.upload("/keys/import", c.file, c.content, nil).is(http.StatusUnprocessableEntity).holds(c.says).lacks(`id="confirm"`)
		})
	}
	olu.t = t
	olu.upload("/keys/import", "keys.csv", "key,plan\ntoken:a,gold\n", url.Values{"list": {"key"}}).is(http.StatusUnprocessableEntity).holds("not both")
	vic := n.as(t, "vic")
	vic.get("/keys/import").is(http.StatusForbidden)
	vic.get("/keys").lacks("/keys/import")
	forged := n.as(t, "olu")
	forged.csrf = strings.Repeat("0", len(forged.csrf))
	forged.upload("/keys/import", "keys.csv", "key,plan\ntoken:a,gold\n", nil).is(http.StatusForbidden)
	if n.profileOf(t, "token:a") != nil {
		t.Error("a form with a forged CSRF token imported a key")
	}
}

func manyPlans() string {
	var rows strings.Builder
	for i := range profiles.MaxPlans + 1 {
		fmt.Fprintf(&rows, "token:%d,p%d\n", i, i)
	}
	return rows.String()
}

// TestImportOfHundredThousandKeysInBrowser uploads a file of a hundred thousand keys,
// the first of which are hostile, and inspects the page.
func TestImportOfHundredThousandKeysInBrowser(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("olu")
	var list strings.Builder
	list.WriteString("key,plan,labels,note\n")
	quoted := func(text string) string { return `"` + strings.ReplaceAll(escape.CSV(text), `"`, `""`) + `"` }
	for _, text := range hostile {
		list.WriteString(quoted("token:"+text) + ",gold,vip," + quoted(text) + "\n")
		list.WriteString(quoted("ip:10.1*"+text) + ",gold,,\n") // invalid, and reported with its text
	}
	for i := len(hostile); i < 100_000; i++ {
		fmt.Fprintf(&list, "token:customer-%d,%s,region=eu,Contract %d\n", i, []string{"gold", "silver", "free"}[i%3], i)
	}
	file := filepath.Join(t.TempDir(), `keys"><img src=x>.csv`)
	must(t, os.WriteFile(file, []byte(list.String()), 0o600))
	b.do(
		chromedp.Navigate(n.url+"/keys/import"),
		chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{file}),
	)
	b.press("#try", "#confirm")
	b.waitFor(fmt.Sprintf(`document.querySelector("#result").innerText.includes("Skip %d invalid rows and change 100,000 keys")`, len(hostile)))
	b.waitFor(`document.querySelectorAll("main img, main script").length === 0`)
	b.inspect("keys-import-tried", "")
	b.do(chromedp.EmulateViewport(1440, 900))
	b.press("#confirm", `a[href="/keys/import"].button`)
	b.inspect("keys-imported", "")
	for _, text := range hostile {
		if p := n.profileOf(t, "token:"+text); p == nil || p.Plan != "gold" {
			t.Errorf("the profile of %q is %+v, want the plan gold", text, p)
		}
	}
	page, err := n.store.Profiles.FindProfiles(t.Context(), profiles.Filter{Search: "customer-", Limit: 1})
	must(t, err)
	if page.Total != 100_000-len(hostile) {
		t.Errorf("got %d profiles of customers, want %d", page.Total, 100_000-len(hostile))
	}
	b.consoleIsClean()
}
