package adminui_test

import (
	"bytes"
	"context"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/keys"
)

// upload sends a form with a file, the file last, as the page does.
func (v *visitor) upload(path, name, content string, fields url.Values) *answer {
	v.t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	must(v.t, w.WriteField("csrf", v.csrf))
	for field, values := range fields {
		for _, value := range values {
			must(v.t, w.WriteField(field, value))
		}
	}
	part, err := w.CreateFormFile("file", name)
	must(v.t, err)
	_, err = part.Write([]byte(content))
	must(v.t, err)
	must(v.t, w.Close())
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, v.node.url+path, &body)
	must(v.t, err)
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return v.send(r)
}

var heldField = regexp.MustCompile(`name="file" value="([^"]+)"`)

func (a *answer) held() string {
	a.t.Helper()
	m := heldField.FindStringSubmatch(a.body)
	if m == nil {
		a.t.Fatalf("the page has no uploaded file: %s", a.shown())
	}
	return m[1]
}

func (n *node) activeBlocks(t testing.TB) []*blocks.Entry {
	t.Helper()
	page, err := n.store.Entries.Find(context.Background(), blocks.Filter{Kind: blocks.Block, At: n.clock.Now(), Limit: 1000})
	must(t, err)
	return page.Items
}

var importFields = url.Values{"reason": {"abuse list"}, "for": {"24h"}, "on_conflict": {"keep"}}

const mixed = "203.0.113.1\n203.0.113.2\n198.51.100.250\ntoken:known\ntoken:bad*bad\n# a comment\n"

func mixedNode(t *testing.T) (*node, *visitor) {
	n := newNode(t)
	n.block(t, "token:known", "leaked", "jo", blocks.Manual, time.Hour)
	_, err := n.store.Entries.Add(context.Background(), audit.SystemActor("test"), blocks.Fail, blocks.Entry{Kind: blocks.Exemption, Pattern: pattern(t, "ip:198.51.100.250")})
	must(t, err)
	return n, n.as(t, "olu")
}

func TestBlockImportIsPreviewedThenConfirmed(t *testing.T) {
	n, olu := mixedNode(t)
	olu.get("/blocks").holds(`href="/blocks/import"`)
	tried := olu.upload("/blocks/import", "list.txt", mixed, importFields).is(http.StatusOK).
		holds("5 rows of <bdi>list.txt</bdi>, as a plain list").holds("<dt>New</dt><dd><b>3</b>").
		holds("Unchanged</dt><dd>1<").holds("Exempt, so without effect</dt><dd>1<").
		holds(`<td class="num fit" data-label="Line">5</td>`).holds("Skip 1 invalid row and block 3 patterns").lacks("Traffic they would have refused</dt>")
	if got := len(n.activeBlocks(t)); got != 1 {
		t.Fatalf("%d blocks are active after the dry run, want 1", got)
	}
	form := url.Values{"file": {tried.held()}}
	olu.post("/blocks/import/confirm", form).is(http.StatusUnprocessableEntity).holds("1 of the 5 rows is invalid")
	form.Set("skip_bad", "yes")
	olu.post("/blocks/import/confirm", form).is(http.StatusOK).holds("3 blocks imported")
	all := n.activeBlocks(t)
	if len(all) != 4 {
		t.Fatalf("%d blocks are active, want 4", len(all))
	}
	for _, b := range all {
		if b.Source == blocks.Imported && (b.Reason != "abuse list" || !b.Expires.Equal(n.clock.Now().Add(24*time.Hour))) {
			t.Errorf("got the imported block %+v", b)
		}
	}
	olu.post("/blocks/import/confirm", form).is(http.StatusOK).holds("3 blocks").holds("was\nimported already").holds("Nothing was imported again")
	if again := n.activeBlocks(t); len(again) != 4 {
		t.Errorf("%d blocks are active after the repeated request, want 4", len(again))
	}
	n.as(t, "maria").post("/blocks/import/confirm", url.Values{"file": form["file"]}).is(http.StatusConflict).holds("no longer kept here")
	n.clock.advance(15 * time.Minute)
	olu.post("/blocks/import/confirm", form).is(http.StatusConflict).holds("the audit log says what was imported")
}

func TestConcurrentConfirmationsImportOnce(t *testing.T) {
	n, olu := mixedNode(t)
	fields := url.Values{"reason": {"abuse list"}, "for": {"24h"}, "on_conflict": {"replace"}, "skip_bad": {"yes"}}
	form := url.Values{"file": {olu.upload("/blocks/import", "list.txt", mixed, fields).held()}, "csrf": {olu.csrf}}
	var all sync.WaitGroup
	var repeated atomic.Int32
	for range 8 {
		tab := *olu
		all.Go(func() {
			got := tab.do(http.MethodPost, "/blocks/import/confirm", form, nil).is(http.StatusOK)
			if strings.Contains(got.body, "Nothing was imported again") {
				repeated.Add(1)
			}
		})
	}
	all.Wait()
	if imports := n.entries(t, audit.Filter{Action: "block.import"}); len(imports) != 1 || repeated.Load() != 7 {
		t.Errorf("got %d imports and %d responses for a repeated one, want 1 and 7", len(imports), repeated.Load())
	}
}

func TestConfirmedImportThatIsNotInEffectIsNotRepeated(t *testing.T) {
	n, olu := mixedNode(t)
	form := url.Values{"file": {olu.upload("/blocks/import", "list.txt", mixed, importFields).held()}, "skip_bad": {"yes"}}
	n.isUnreadable.Store(true)
	olu.post("/blocks/import/confirm", form).is(http.StatusInternalServerError).holds("Saved, and not in effect yet")
	n.isUnreadable.Store(false)
	olu.post("/blocks/import/confirm", form).is(http.StatusInternalServerError).holds("Saved, and not in effect yet")
	if got := len(n.activeBlocks(t)); got != 4 {
		t.Errorf("%d blocks are active", got)
	}
}

func TestImportOfBroadPatternsRequiresTypedConfirmation(t *testing.T) {
	n := newNode(t, func(d *adminui.Deps) { d.Entries.Traffic = trafficOf{"ip:203.0.113.1": 0.125, "ip:192.0.2.1": 0.875} })
	olu := n.as(t, "olu")
	for name, c := range map[string]struct{ list, shows, says, typed string }{
		"every address":       {"198.51.100.1\n0.0.0.0/0\n", "<bdi>ip:0.0.0.0/0</bdi>", "about 100% (99.6 to 100%) of", "ip:0.0.0.0/0"},
		"two halves":          {"0.0.0.0/1\n128.0.0.0/1\n", "2 rows", "every IPv4 address", "confirm 3"},
		"own address":         {"127.0.0.1\n", "<bdi>ip:127.0.0.1</bdi>", "your own address", "ip:127.0.0.1"},
		"before a bad row":    {"*\ntoken:bad*bad\n", "<bdi>*</bdi>", "every key", "*"},
		"much of the traffic": {"203.0.113.0/25\n203.0.112.0/25\n", "2 rows", "about 12.5%", "confirm 1"},
	} {
		t.Run(name, func(t *testing.T) {
			olu.t = t
			before := len(n.activeBlocks(t))
			tried := olu.upload("/blocks/import", "list.txt", c.list, importFields).is(http.StatusOK).
				holds(c.shows).holds(c.says).holds(`data-confirm="` + c.typed + `"`)
			form := url.Values{"file": {tried.held()}, "skip_bad": {"yes"}}
			olu.post("/blocks/import/confirm", form).is(http.StatusUnprocessableEntity).holds("Nothing was imported").holds(c.shows)
			form.Set("confirm", "yes")
			olu.post("/blocks/import/confirm", form).is(http.StatusUnprocessableEntity)
			if got := len(n.activeBlocks(t)); got != before {
				t.Fatalf("%d blocks were added without a confirmation", got-before)
			}
			form.Set("confirm", c.typed)
			olu.post("/blocks/import/confirm", form).is(http.StatusOK).holds("imported")
			if got := len(n.activeBlocks(t)); got == before {
				t.Fatal("the confirmed import added no block")
			}
			for _, b := range n.activeBlocks(t) { // so that its traffic is counted again
				_, err := n.store.Entries.End(context.Background(), audit.SystemActor("test"), blocks.Block, "", b.ID)
				must(t, err)
			}
		})
	}
}

func TestUploadedBlockImportIsPrivateAndExpires(t *testing.T) {
	n, olu := mixedNode(t)
	first := olu.upload("/blocks/import", "", "", url.Values{"list": {"203.0.113.1"}, "for": {"good"}, "on_conflict": {"keep"}}).held()
	n.as(t, "maria").post("/blocks/import/confirm", url.Values{"file": {first}}).is(http.StatusConflict)
	second := olu.upload("/blocks/import", "", "", url.Values{"list": {"203.0.113.2"}, "for": {"good"}, "on_conflict": {"keep"}}).held()
	olu.post("/blocks/import/confirm", url.Values{"file": {first}}).is(http.StatusConflict)
	n.clock.advance(15 * time.Minute)
	olu.post("/blocks/import/confirm", url.Values{"file": {second}}).is(http.StatusConflict)
	if got := len(n.activeBlocks(t)); got != 1 {
		t.Errorf("%d blocks are active", got)
	}
}

func TestBlockImportDetectsFormat(t *testing.T) {
	for name, c := range map[string]struct{ file, content, as string }{
		"CSV by its header":                   {"list", "Pattern,reason\nip:203.0.113.1,scraping\nip:203.0.113.2,\n", "as CSV"},
		"CSV by its name":                     {"list.csv", "reason,pattern\n,ip:203.0.113.1\n,ip:203.0.113.2\n", "as CSV"},
		"JSON":                                {"list", `[{"pattern":"ip:203.0.113.1"},{"pattern":"ip:203.0.113.2"}]`, "as JSON"},
		"JSON with an object each":            {"list", "{\"pattern\":\"ip:203.0.113.1\"}\n{\"pattern\":\"ip:203.0.113.2\"}\n", "as JSON"},
		"a plain list with a byte order mark": {"list", "\ufeff203.0.113.1\r\n203.0.113.2\r\n", "as a plain list"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			olu := n.as(t, "olu")
			tried := olu.upload("/blocks/import", c.file, c.content, importFields).is(http.StatusOK).holds(c.as).holds("Block 2 patterns")
			olu.post("/blocks/import/confirm", url.Values{"file": {tried.held()}}).is(http.StatusOK)
			if got := len(n.activeBlocks(t)); got != 2 {
				t.Errorf("%d blocks are active", got)
			}
		})
	}
}

func TestBlockImportExplainsUnreadableFiles(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	for name, c := range map[string]struct{ file, content, says string }{
		"an empty file":             {"list.txt", "", "this one is empty"},
		"a header without patterns": {"list.csv", "reason\nx\n", "no column pattern"},
		"truncated JSON":            {"list.json", `[{"pattern":"ip:203.0.113.1"},{"pat`, "The file"},
		"more than 64 MB":           {"list.txt", strings.Repeat("# nothing but a comment of 64 bytes, over and over, line by line\n", 1<<20+1), "more than 64 MB"},
	} {
		t.Run(name, func(t *testing.T) {
			olu.t = t
			olu.upload("/blocks/import", c.file, c.content, importFields).is(http.StatusUnprocessableEntity).holds(c.says).lacks(`id="confirm"`)
		})
	}
	olu.t = t
	both := url.Values{"list": {"203.0.113.1"}, "for": {"good"}, "on_conflict": {"keep"}}
	olu.upload("/blocks/import", "list.txt", "203.0.113.2", both).is(http.StatusUnprocessableEntity).holds("not both")
	olu.upload("/blocks/import", "list.txt", "203.0.113.2", url.Values{"for": {"until"}, "until": {"2020-01-01 00:00"}, "on_conflict": {"keep"}}).
		is(http.StatusUnprocessableEntity).holds("Must be in the future")
	n.as(t, "vic").get("/blocks/import").is(http.StatusForbidden)
}

// trafficOf is an estimator with each key's ratio of all traffic.
type trafficOf map[string]float64

func (s trafficOf) EstimateTraffic(_ context.Context, from, to time.Time, selects func(keys.Key) bool) (*admin.TrafficEstimate, error) {
	t := &admin.TrafficEstimate{From: from, To: to, Error: 0.004}
	for text, ratio := range s {
		k, err := keys.Parser{}.Key(text)
		if err != nil {
			return nil, err
		}
		if selects(k) {
			t.Ratio += ratio
		}
	}
	return t, nil
}

func TestBlockImportShowsRatioOfRefusedTraffic(t *testing.T) {
	n := newNode(t, func(d *adminui.Deps) { d.Entries.Traffic = trafficOf{"ip:203.0.113.1": 0.125, "ip:192.0.2.1": 0.875} })
	n.as(t, "olu").upload("/blocks/import", "list.txt", mixed, importFields).is(http.StatusOK).
		says("Traffic they would have refusedAbout 12.5% (12.1 to 12.9%) of the last day, beside what is blocked or exempt already, an estimate from a sample")
	// For broad patterns it shows the traffic that they match, including exempt keys.
	_, err := n.store.Entries.Add(t.Context(), audit.SystemActor("test"), blocks.Fail, blocks.Entry{Kind: blocks.Exemption, Pattern: pattern(t, "ip:192.0.2.1")})
	must(t, err)
	n.as(t, "olu").upload("/blocks/import", "list.txt", "0.0.0.0/1\n128.0.0.0/1\n", importFields).is(http.StatusOK).
		holds("About <b>12.5% (12.1 to 12.9%)</b>").holds("it matches about 100% (99.6 to 100%) of the last day’s traffic, blocked and exempt keys included")
}

func TestBlockImportShowsHostileRowsAsTextInBrowser(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("olu")
	var list strings.Builder
	list.WriteString("pattern,reason\n")
	for _, text := range hostile {
		quoted := `"` + strings.ReplaceAll(escape.CSV(text), `"`, `""`) + `"`
		list.WriteString(`"token:` + quoted[1:] + "," + quoted + "\n")
		list.WriteString(`"ip:10.1*` + quoted[1:] + ",x\n") // invalid, and reported with its text
	}
	file := filepath.Join(t.TempDir(), `list"><img src=x>.csv`)
	must(t, os.WriteFile(file, []byte(list.String()), 0o600))
	b.do(
		chromedp.Navigate(n.url+"/blocks/import"),
		chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{file}),
		chromedp.Click(chromedp.CSS(`label:has(input[name="for"][value="7d"])`)),
	)
	b.press("#try", "#confirm")
	b.waitFor(`document.querySelector("#result").innerText.includes("Skip 8 invalid rows and block 8 patterns")`)
	b.waitFor(`document.querySelectorAll("main img, main script").length === 0`)
	for _, width := range []int64{1440, 390} {
		b.do(chromedp.EmulateViewport(width, 900))
		b.audit("previewed import")
		if over := run(b, chromedp.Evaluate[int]("document.documentElement.scrollWidth - innerWidth")); over > 0 {
			t.Errorf("at %d the page is %d pixels too wide", width, over)
		}
		b.picture("blocks-import-tried", width, "light")
	}
	b.press("#confirm", `a[href="/blocks?source=imported"]`)
	b.audit("imported")
	reasons := map[string]bool{}
	for _, b := range n.activeBlocks(t) {
		reasons[b.Reason] = true
	}
	for _, text := range hostile {
		if !reasons[text] {
			t.Errorf("no block has the reason %q", text)
		}
	}
	b.consoleIsClean()
}

func TestFormsAreReadUpToSizeLimit(t *testing.T) {
	n := newNode(t)
	// Empty fields, a million of which use much memory and little text.
	fields := strings.Repeat("--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n", 100_000)
	send := func(v *visitor, path, contentType, body string) *answer {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.url+path, strings.NewReader(body))
		must(t, err)
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		return v.send(r)
	}
	const multipartForm, urlForm = "multipart/form-data; boundary=b", "application/x-www-form-urlencoded"
	for name, v := range map[string]*visitor{"not logged in": n.visitor(t), "an operator": n.as(t, "olu")} {
		t.Run(name, func(t *testing.T) {
			v.t = t
			send(v, "/login", multipartForm, fields).is(http.StatusRequestEntityTooLarge)
			send(v, "/login", multipartForm, fields[:50_000]).is(http.StatusRequestEntityTooLarge)
			send(v, "/login", multipartForm, fields[:5000]).is(http.StatusUnsupportedMediaType)
			send(v, "/login", urlForm, "name="+strings.Repeat("a", 17<<10)).is(http.StatusRequestEntityTooLarge)
			send(v, "/login", urlForm, "name=a&password="+strings.Repeat("b", 1000)).is(http.StatusUnprocessableEntity)
		})
	}
	olu := n.as(t, "olu")
	send(olu, "/blocks/import", multipartForm, fields).is(http.StatusRequestEntityTooLarge)
	send(olu, "/keys/import", multipartForm, fields).is(http.StatusRequestEntityTooLarge)
	maria := n.as(t, "maria")
	send(maria, "/new-policy/try", multipartForm, fields).is(http.StatusRequestEntityTooLarge)
	send(maria, "/policies/default/try", multipartForm, fields).is(http.StatusRequestEntityTooLarge)
	send(olu, "/blocks", multipartForm, fields[:5000]).is(http.StatusUnsupportedMediaType)
	nobody := n.visitor(t)
	if got := send(nobody, "/blocks/import", multipartForm, fields); got.status != http.StatusSeeOther || got.header.Get("Location") != "/login?ended=yes" {
		t.Errorf("got %d with the Location %s, want a redirection to the login", got.status, got.header.Get("Location"))
	}
}

// What an import extends or replaces is not kept: no page offers to undo it.
func TestImportThatReplacesEntriesOffersNoUndo(t *testing.T) {
	n, olu := mixedNode(t)
	for path, c := range map[string]struct{ list, noun string }{
		"/blocks": {"token:known\n203.0.113.1\n", "block"}, "/exemptions": {"198.51.100.250\n203.0.113.1\n", "exemption"},
	} {
		fields := url.Values{"reason": {"again"}, "for": {"24h"}, "on_conflict": {"replace"}}
		tried := olu.upload(path+"/import", "list.txt", c.list, fields).is(http.StatusOK).
			holds("1 " + c.noun + " is extended or replaced. The audit cannot undo such an")
		olu.post(path+"/import/confirm", url.Values{"file": {tried.held()}}).is(http.StatusOK).holds("2 " + c.noun + "s").lacks("Undo it in the audit")
		e := n.entries(t, audit.Filter{Action: c.noun + ".import"})[0]
		olu.get("/audit?object=" + c.noun).is(http.StatusOK).holds(c.noun + "s: 1 created").lacks(undoButton(e.ID))
		olu.post("/audit/undo", undo(e.ID)).is(http.StatusConflict)
	}
}

// What a list would do may change between its preview and its confirmation. Then the page shows
// a new preview, in its own words.
func TestImportThatChangedSincePreviewIsPreviewedAgain(t *testing.T) {
	traffic := trafficOf{"ip:203.0.113.1": 0.001, "ip:192.0.2.1": 0.999}
	n := newNode(t, func(d *adminui.Deps) { d.Entries.Traffic = traffic })
	olu := n.as(t, "olu")
	tried := olu.upload("/blocks/import", "list.txt", "203.0.113.0/24\n", importFields).is(http.StatusOK).lacks("data-confirm")
	traffic["ip:203.0.113.1"] = 0.25
	form := url.Values{"file": {tried.held()}}
	olu.post("/blocks/import/confirm", form).is(http.StatusUnprocessableEntity).lacks("--yes").
		says("Nothing was imported. What it would do has changed since its preview. This is a new preview.").
		holds("about 25%").holds(`data-confirm="ip:203.0.113.0/24"`).holds("Block 1 pattern")
	olu.post("/blocks/import/confirm", form).is(http.StatusUnprocessableEntity).holds("To import also what is broad, type")
	if got := n.activeBlocks(t); len(got) > 0 {
		t.Fatalf("%d blocks were added without a confirmation", len(got))
	}
	form.Set("confirm", "ip:203.0.113.0/24")
	olu.post("/blocks/import/confirm", form).is(http.StatusOK).holds("1 block")
	if got := n.activeBlocks(t); len(got) != 1 {
		t.Errorf("%d blocks are active, want 1", len(got))
	}
	// A row expires.
	row := "pattern,expires_at\nip:198.51.100.1," + n.clock.Now().Add(time.Minute).Format(time.RFC3339) + "\nip:198.51.100.2,\n"
	form = url.Values{"file": {olu.upload("/blocks/import", "list.csv", row, importFields).is(http.StatusOK).lacks("Skip 1 invalid").held()}}
	n.clock.advance(2 * time.Minute)
	olu.post("/blocks/import/confirm", form).is(http.StatusUnprocessableEntity).lacks("--skip-bad").
		says("Nothing was imported. 1 of the 2 rows is invalid.").says("Skip 1 invalid row and block 1 pattern")
	form.Set("skip_bad", "yes")
	olu.post("/blocks/import/confirm", form).is(http.StatusOK).holds("1 block")
	// The time of the form passes.
	until := url.Values{"for": {"until"}, "until": {n.clock.Now().Add(time.Minute).UTC().Format("2006-01-02 15:04")}, "on_conflict": {"keep"}}
	form = url.Values{"file": {olu.upload("/blocks/import", "list.txt", "198.51.100.9\n", until).is(http.StatusOK).held()}}
	n.clock.advance(2 * time.Minute)
	olu.post("/blocks/import/confirm", form).is(http.StatusUnprocessableEntity).
		says("Nothing was imported. Correct the form and choose the list again.").says("Must be in the future").lacks(`id="confirm"`)
}
