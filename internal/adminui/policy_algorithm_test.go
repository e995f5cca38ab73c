package adminui_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/keytest"
)

// editorForm returns the editor's form for a version of the policy default with some fields
// changed.
func (n *node) editorForm(t testing.TB, version int64, change url.Values) url.Values {
	t.Helper()
	form := url.Values{
		"expect": {n.tag(t, "default", version)}, "mode": {"enforce"}, "on_failure": {"local"}, "match": {"*"}, "limit": {"20", "800"}, "window": {"1m", "1d"},
		"algorithm": {"timestamp_log"}, "burst": {""}, "variant": {"meter"}, "window_start": {"clock"}, "do": {"save"},
	}
	for name, values := range change {
		form[name] = values
	}
	return form
}

func (n *node) policy(t testing.TB) *rules.Policy {
	t.Helper()
	p, err := n.store.Policies.FindPolicyByName(context.Background(), "default")
	must(t, err)
	return p
}

// count sets the algorithm and the rules of the policy default.
func (n *node) count(t testing.TB, algorithm string, o algorithms.Options, texts ...string) {
	t.Helper()
	p := *n.policy(t)
	p.Algorithm, p.Options, p.Rules = algorithm, o, stack(t, texts...)
	_, err := n.store.Policies.PutPolicy(context.Background(), audit.Actor{Kind: audit.User, Name: "maria"}, &p, etag.Any)
	must(t, err)
}

func TestPolicyEditorSetsAlgorithmsWithoutJavaScript(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	page := v.get("/policies/default").is(http.StatusOK)
	for _, a := range algorithms.All() {
		page.holds(`value="` + a.Name + `"`).holds(`class="takes-` + strings.Join(a.Options, " takes-"))
	}
	for i, a := range []struct {
		sent url.Values
		want algorithms.Options
		says string // part of the explanation of the rules
	}{
		{url.Values{"algorithm": {"sorted_set_log"}, "count_refused": {"on"}, "burst": {"9"}}, algorithms.Options{CountRefused: true}, "Refused requests count too"},
		{url.Values{"algorithm": {"fixed_window"}, "window_start": {"first_request"}}, algorithms.Options{WindowStart: algorithms.WindowFirst}, "up to twice as many come"},
		{url.Values{"algorithm": {"sliding_window"}, "variant": {"queue"}}, algorithms.Options{}, "of the clock"},
		{url.Values{"algorithm": {"sliding_buckets"}}, algorithms.Options{}, "23 hours 36 minutes"},
		{url.Values{"algorithm": {"token_bucket"}, "burst": {"1,000"}}, algorithms.Options{Burst: 1000}, "at once, then one every"},
		{url.Values{"algorithm": {"leaky_bucket"}, "variant": {"queue"}, "burst": {"5"}}, algorithms.Options{Burst: 5, Variant: algorithms.VariantQueue}, "One request after the other"},
		{url.Values{"algorithm": {"gcra"}}, algorithms.Options{}, "at once, then one every"},
		{url.Values{"algorithm": {"timestamp_log"}, "burst": {"no number"}}, algorithms.Options{}, "used up after"},
	} {
		name := a.sent.Get("algorithm")
		v.post("/policies/default/draft", n.editorForm(t, int64(i+1), a.sent)).is(http.StatusOK).
			holds("resets the counts").holds("resets its counts").holds("Algorithm").holds("The counts of every key are reset")
		v.post("/policies/default", n.editorForm(t, int64(i+1), a.sent)).is(http.StatusSeeOther)
		if p := n.policy(t); p.Algorithm != name || p.Options != a.want {
			t.Fatalf("%s was saved as %s with %+v, want %+v", a.sent, p.Algorithm, p.Options, a.want)
		}
		saved := v.get("/policies/default").is(http.StatusOK).lacks("resets its counts")
		if text := strings.NewReplacer("<b>", "", "</b>", "").Replace(saved.body); !strings.Contains(text, a.says) {
			t.Errorf("the page of %s does not show %q: %s", name, a.says, saved.shown())
		}
	}
}

func TestPolicyEditorSetsOutcome(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	outcome := url.Values{"outcome": {" login_failed "}, "when_path": {"/login"}}
	v.post("/policies/default/draft", n.editorForm(t, 1, outcome)).is(http.StatusOK).
		holds("Counts reports of login_failed if the path is /login. Refuses every check of the key").holds("A policy that counts something else").holds("reports of login_failed")
	outcome.Set("confirm", "default") // its keys fall under no policy
	v.post("/policies/default", n.editorForm(t, 1, outcome)).is(http.StatusSeeOther)
	if p := n.policy(t); p.Outcome != "login_failed" || p.When.IsZero() {
		t.Fatalf("saved %+v", p)
	}
	v.get("/policies/default").is(http.StatusOK).holds(`id="outcome" name="outcome" value="login_failed"`).holds("<details open>")
	v.get("/policies").is(http.StatusOK).holds(`<span class="tag quiet">login_failed</span>`)
	v.get("/key?key=ip:203.0.113.7").is(http.StatusOK).holds("reports of login_failed if the path is /login count; every request is refused while a rule is full")
	v.post("/policies/default", n.editorForm(t, 2, url.Values{"outcome": {hostile[0]}})).is(http.StatusUnprocessableEntity).holds("Must be 1 to 64 of a-z").holds(`aria-invalid="true"`)
	v.post("/policies/default", n.editorForm(t, 2, url.Values{"outcome": {"a"}, "limit": {"0", "800"}})).is(http.StatusUnprocessableEntity).holds("no limit of 0 beside outcome")
	v.post("/policies/default", n.editorForm(t, 2, nil)).is(http.StatusSeeOther)
	if p := n.policy(t); p.Outcome != "" || p.Version != 3 {
		t.Errorf("the outcome was not removed: %+v", p)
	}
}

func TestPolicyEditorSetsDistinctName(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	distinct := url.Values{"outcome": {"not_found"}, "distinct": {" path "}, "limit": {"8", "15"}, "window": {"1h", "1d"}}
	v.post("/policies/default/draft", n.editorForm(t, 1, distinct)).is(http.StatusOK).
		holds("different values of path in any hour and ").holds("A policy that counts something else").
		holds("the different values of path in reports of not_found")
	distinct.Set("confirm", "default") // its keys fall under no policy
	v.post("/policies/default", n.editorForm(t, 1, distinct)).is(http.StatusSeeOther)
	if p := n.policy(t); p.Rules.String() != "8/1h distinct path 15/1d distinct path" {
		t.Fatalf("saved %+v", p)
	}
	v.get("/policies/default").is(http.StatusOK).holds(`name="distinct"` + "\n  " + `value="path"`)
	v.get("/key?key=ip:203.0.113.7").is(http.StatusOK).holds("different values of path in reports of not_found count").holds("15/day distinct path")
	wrong := func(name, outcome, says string) {
		v.post("/policies/default", n.editorForm(t, 2, url.Values{"distinct": {name}, "outcome": {outcome}})).is(http.StatusUnprocessableEntity).holds(says)
	}
	wrong(hostile[0], "a", "Must be 1 to 64 of a-z")
	further := url.Values{"also": {"net:/24 100/h\n account "}}
	v.post("/policies/default/draft", n.editorForm(t, 2, further)).is(http.StatusOK).
		holds("the IPv4 /24 of the address (100/1h) and the account that is said of it").holds("net:/24 100/1h,  account")
	v.post("/policies/default", n.editorForm(t, 2, url.Values{"also": {"net:/64"}})).is(http.StatusUnprocessableEntity).holds("names a network of a length outside")
	v.post("/policies/default/draft", n.editorForm(t, 2, url.Values{"outcome": {"a"}, "scope": {" login "}})).is(http.StatusOK).
		holds("Refuses the checks of the key in the scope login while").holds(`name="scope" value="login"`).holds("checks in the scope login")
	v.post("/policies/default", n.editorForm(t, 2, url.Values{"scope": {"login"}})).is(http.StatusUnprocessableEntity).holds("possible only beside outcome")
	v.post("/policies/default/draft", n.editorForm(t, 2, url.Values{"stack": {"3/h distinct host, 9/d distinct host"}})).is(http.StatusOK).holds(`value="host"`)
	v.post("/policies/default", n.editorForm(t, 2, nil)).is(http.StatusSeeOther)
	if p := n.policy(t); p.Rules.Distinct() != "" || p.Version != 3 {
		t.Errorf("the name was not removed: %+v", p)
	}
}

func TestPolicyEditorSetsEvidence(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	form := url.Values{"evidence": {"20 path @secrets\n\n 2 outcome not_found distinct path "}, "limit": {"20", "40"}, "window": {"1h", "1d"}}
	v.post("/policies/default/draft", n.editorForm(t, 1, form)).is(http.StatusOK).
		holds("Refused from <b>20</b> points in any hour, or <b>40</b> in any day.").holds("2 for not found, each path once")
	form.Set("confirm", "default") // its keys fall under no policy
	v.post("/policies/default", n.editorForm(t, 1, form)).is(http.StatusSeeOther)
	p := n.policy(t)
	if p.Rules.String() != "20 points/1h 40 points/1d" || p.Algorithm != "point_log" || strings.Join(p.Evidence.Strings(), "|") != "20 path @secrets|2 outcome not_found distinct path" {
		t.Fatalf("saved %+v", p)
	}
	v.get("/policies/default").is(http.StatusOK).holds("points in any").holds(`value="point_log" class="" checked`).holds("20 path @secrets\n2 outcome not_found distinct path</textarea>")
	v.get("/key?key=ip:203.0.113.7").is(http.StatusOK).holds("points for what its requests show; every request is refused while they reach a rule").holds("20 points/h").
		holds("0 of 20 points in 1 hour.")
	v.post("/policies/default", n.editorForm(t, 2, url.Values{"evidence": {"5 path /a\n5 when path /b"}})).is(http.StatusUnprocessableEntity).holds("Line 2 has &#34;when&#34;")
	v.post("/policies/default", n.editorForm(t, 2, nil)).is(http.StatusSeeOther)
	if p := n.policy(t); p.HasEvidence() || p.Algorithm != "timestamp_log" || p.Rules.CountsPoints() {
		t.Errorf("the evidence was not removed: %+v", p)
	}
}

// What the editor saves has all amounts and holds of the policy, or those that the form names.
func TestPolicyEditorSetsAmounts(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	amounts := url.Values{"unit": {" tokens "}, "cost": {"2k"}, "concurrent": {"16"}, "hold": {"30s"}, "on_expiry": {"keep"}, "limit": {"500k", "1M", "20M"}, "window": {"1m", "1d", "calendar-month"}, "time_zone": {"Europe/Berlin"}, "confirm": {"default"}}
	v.post("/policies/default", n.editorForm(t, 1, amounts)).is(http.StatusSeeOther)
	p := n.policy(t)
	if p.Rules.String() != "16 concurrent 500k tokens/1m 1M tokens/1d 20M tokens/calendar-month" || p.Zone() != "Europe/Berlin" || p.Algorithm != "amount_log" || p.Cost != 2000 || p.Hold != 30*time.Second || p.OnExpiry != rules.ExpiryKeeps {
		t.Fatalf("saved %+v", p)
	}
	v.get("/policies/default").is(http.StatusOK).holds(`name="unit" value="tokens"`).holds(`name="cost" value="2000"`).holds(`name="concurrent" value="16"`).holds(`value="500k"`).holds(`value="1M"`).holds(`name="hold" value="30s"`).holds(`name="time_zone" value="Europe/Berlin"`).holds(`value="calendar-month" selected`).says("At most 16 at once").says("20,000,000 tokens in each month of the calendar in").says("month of the calendar in Europe/Berlin")
	v.get("/policies").is(http.StatusOK).holds("16 concurrent").holds("1M tokens/day")
	decisions, errs := make([]gate.Decision, 1), make([]error, 1)
	n.gate.Decide(t.Context(), []gate.Check{{Key: keytest.Key(t, "ip:203.0.113.7"), Source: "worker <7>"}}, decisions, errs)
	v.get("/key?key=ip:203.0.113.7").is(http.StatusOK).holds("1M tokens/day").holds("16 concurrent").holds("Held by").holds("worker &lt;7&gt;").lacks("worker <7>")
	for field, says := range map[string]string{"unit": "Must be 1 to 32", "cost": "Must be a whole number up to 1000T", "concurrent": "This rule has", "hold": "Enter a duration", "time_zone": "Must be the name of a time zone"} {
		v.post("/policies/default", n.editorForm(t, 2, url.Values{field: {"No Such"}})).is(http.StatusUnprocessableEntity).holds(says)
	}
	v.post("/policies/default", n.editorForm(t, 2, url.Values{"concurrent": {"16"}})).is(http.StatusUnprocessableEntity).holds("Is missing; beside a rule of what is concurrent")
	v.post("/policies/default", n.editorForm(t, 2, nil)).is(http.StatusSeeOther)
	if p := n.policy(t); p.Rules.Unit() != "" || p.Hold != 0 || p.Cost != 0 {
		t.Errorf("the amounts were not removed: %+v", p)
	}
}

func TestPolicyEditorShowsOptionErrorsAtFields(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	for _, burst := range []string{"0", "-3", "many", "100001", "1.5"} {
		v.post("/policies/default", n.editorForm(t, 1, url.Values{"algorithm": {"gcra"}, "burst": {burst}})).is(http.StatusUnprocessableEntity).
			holds(`aria-describedby="burst-about burst-note" aria-invalid="true"`).holds(`value="` + burst + `"`).holds("100").holds("<details class=\"algorithms\" open>")
	}
	v.post("/policies/default", n.editorForm(t, 1, url.Values{"algorithm": {"leaky_bucket"}, "variant": {"tap"}})).is(http.StatusUnprocessableEntity).holds("Must be meter or queue.")
	v.post("/policies/default", n.editorForm(t, 1, url.Values{"algorithm": {"fixed_window"}, "window_start": {"noon"}})).is(http.StatusUnprocessableEntity).holds("Must be clock or first_request.")
	v.post("/policies/default", n.editorForm(t, 1, url.Values{"algorithm": {hostile[0]}})).is(http.StatusUnprocessableEntity).holds("Must be one of timestamp_log").lacks(hostile[0])
	if p := n.policy(t); p.Version != 1 {
		t.Errorf("an invalid policy was saved as version %d", p.Version)
	}
}

func TestPolicyEditorWarnsThatNewWindowResetsCounts(t *testing.T) {
	n := newNode(t)
	n.count(t, algorithms.GCRA, algorithms.Options{Burst: 7}, "20/m", "800/d")
	v := n.as(t, "maria")
	gcra := url.Values{"algorithm": {"gcra"}, "burst": {"7"}}
	v.post("/policies/default/draft", n.editorForm(t, 2, url.Values{"algorithm": {"gcra"}, "burst": {"7"}, "limit": {"30", "900"}})).is(http.StatusOK).lacks("resets the counts")
	v.post("/policies/default/draft", n.editorForm(t, 2, url.Values{"algorithm": {"gcra"}, "burst": {"7"}, "window": {"1h", "1d"}})).is(http.StatusOK).holds("Another window under a counter")
	v.post("/policies/default", n.editorForm(t, 2, gcra)).is(http.StatusSeeOther)
	if p := n.policy(t); p.Version != 2 {
		t.Errorf("an unchanged policy was saved as version %d", p.Version)
	}
	v.get("/policies/default?compare=1").is(http.StatusOK).holds("generic cell rate algorithm, burst 7").holds("Restoring it resets the counts")
	v.get("/policies").is(http.StatusOK).holds("generic cell rate algorithm, burst 7")
	old := n.editorForm(t, 2, url.Values{"limit": {"30", "900"}})
	for _, field := range []string{"algorithm", "burst", "variant", "window_start"} {
		old.Del(field) // as a page of the previous release sends it
	}
	v.post("/policies/default", old).is(http.StatusSeeOther)
	if p := n.policy(t); p.Algorithm != algorithms.GCRA || p.Options.Burst != 7 || p.Rules[0].Limit != 30 {
		t.Errorf("a form without the fields saved %s, %+v, %v", p.Algorithm, p.Options, p.Rules)
	}
}

func TestPolicyEditorConflictKeepsAlgorithmOfDraft(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	n.count(t, algorithms.TimestampLog, algorithms.Options{}, "30/m") // version 2, while version 1 is edited
	mine := url.Values{"algorithm": {"leaky_bucket"}, "variant": {"queue"}, "burst": {"6"}}
	page := v.post("/policies/default", n.editorForm(t, 1, mine)).is(http.StatusPreconditionFailed)
	page.holds("leaky bucket, burst 6, as a queue").holds("Saving yours resets the counts")
	for name := range mine {
		page.holds(`name="` + name + `" value="` + mine.Get(name) + `"`)
	}
	v.post("/policies/default", n.editorForm(t, 2, mine)).is(http.StatusSeeOther)
	if p := n.policy(t); p.Version != 3 || p.Options != (algorithms.Options{Burst: 6, Variant: algorithms.VariantQueue}) {
		t.Errorf("version %d has the options %+v", p.Version, p.Options)
	}
}

func TestPolicyEditorAdvisesCounterForLargeLimits(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	many := url.Values{"limit": {"20", "50,000"}}
	v.post("/policies/default/draft", n.editorForm(t, 1, many)).is(http.StatusOK).holds("up to 50,000 times for each key")
	many.Set("algorithm", "sliding_buckets")
	v.post("/policies/default/draft", n.editorForm(t, 1, many)).is(http.StatusOK).lacks("data-advice")
	v.post("/policies/default/draft", n.editorForm(t, 1, nil)).is(http.StatusOK).lacks("data-advice")
}

// burstLog has 30 requests of one client at the end of a minute and the beginning of the next
// one: 20/1m allows all 30 by a fixed window, and 20 exactly.
func burstLog() string {
	var log strings.Builder
	for i := range 30 {
		fmt.Fprintf(&log, `203.0.113.7 - - [20/Nov/2026:13:%02d:%02d +0000] "GET / HTTP/1.1" 200 1`+"\n", i/15, (45+i)%60)
	}
	return log.String()
}

func TestPolicyDraftIsBacktestedWithItsAlgorithmInBrowser(t *testing.T) {
	var parser keys.Parser
	key, err := parser.Key("ip:203.0.113.7")
	must(t, err)
	trace := func(_ context.Context, from, _ time.Time) (accesslog.Source, bool, error) {
		minute := from.Truncate(time.Minute).Add(2 * time.Minute)
		var all []accesslog.Record
		for i := range 30 {
			all = append(all, accesslog.Record{Time: minute.Add(time.Duration(i-15) * time.Second).UnixMilli(), Key: key, Cost: 1})
		}
		return accesslog.Slice(all), false, nil
	}
	n := newNode(t, func(d *adminui.Deps) { d.Policies.Traffic = trace })
	n.count(t, algorithms.TimestampLog, algorithms.Options{}, "20/m")
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("maria")
	file := filepath.Join(t.TempDir(), "access.log")
	must(t, os.WriteFile(file, []byte(burstLog()), 0o600))
	for _, source := range []struct {
		button string
		ready  []chromedp.Action[chromedp.Void]
		says   string
	}{
		{"try-1h", nil, "On the last hour"},
		{"try-log", []chromedp.Action[chromedp.Void]{chromedp.SetUploadFiles(chromedp.CSS("#log"), []string{file})}, "On access.log"},
	} {
		b.do(chromedp.Navigate(n.url+"/policies/default"), chromedp.Click(chromedp.CSS(".algorithms summary")), chromedp.Click(chromedp.CSS(`[value="fixed_window"]`)))
		b.waitFor(`document.querySelector("#changes").innerText.includes("resets the counts")`)
		b.do(source.ready...)
		b.do(chromedp.Click(chromedp.CSS(`button[value="` + source.button + `"]`)))
		b.waitFor(`document.querySelector("#try .lead")`)
		text := strings.Join(strings.Fields(b.text()), " ")
		for _, part := range []string{
			source.says + " the draft, counted by fixed window instead of timestamp log, would have refused 0% of 30 requests. With it all policies together would have refused 0% instead of 33.3%", "0 keys newly refused, 0 refused more, 0 refused less, 1 no longer refused",
		} {
			if !strings.Contains(text, part) {
				t.Errorf("the page does not show %q: %s", part, text)
			}
		}
	}
	b.audit("trial with another algorithm")
	b.consoleIsClean()
}

// TestTrialSaysWhatOfALogWasNotTried tries a policy on a log with a line that is no request and with
// other data behind the gzip data, which are both left out.
func TestTrialSaysWhatOfALogWasNotTried(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	var log strings.Builder
	w := gzip.NewWriter(&log)
	_, err := w.Write([]byte(burstLog() + "no request\n"))
	must(t, err)
	must(t, w.Close())
	end := log.Len()
	log.WriteString(burstLog())
	v.upload("/policies/default/try", "access.log", log.String(), n.editorForm(t, 1, url.Values{"do": {"try-log"}})).is(http.StatusOK).
		holds("of 30 requests").holds("1 of 31 lines contains no readable request.").
		holds(fmt.Sprintf("access.log&#34;: what follows the gzip data, from byte %d on, is no gzip data and was ignored", end))
	v.upload("/policies/default/try", "access.log", burstLog(), n.editorForm(t, 1, url.Values{"do": {"try-log"}})).is(http.StatusOK).
		holds("of 30 requests").lacks("no readable request").lacks("was ignored")
}

func TestPolicyEditorShowsOptionsOfChosenAlgorithmOnly(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("maria")
	b.do(chromedp.Navigate(n.url+"/policies/default"), chromedp.Click(chromedp.CSS(".algorithms summary")))
	const shown = `[...document.querySelectorAll(".counting-option")].filter(o => o.checkVisibility()).map(o => o.className.split(" option-")[1]).sort().join(" ")`
	for _, a := range algorithms.All() {
		b.do(chromedp.Click(chromedp.CSS(`[value="` + a.Name + `"]`)))
		b.waitFor(`document.querySelector("#algorithm-note").innerText.toLowerCase().includes(` + "`" + a.Title + "`" + `)`)
		want := map[string]string{"fixed_window": "window_start", "sorted_set_log": "count_refused", "token_bucket": "burst", "gcra": "burst", "leaky_bucket": "burst variant"}[a.Name]
		if got := run(b, chromedp.Evaluate[string](shown)); got != want {
			t.Errorf("%s shows the options %q, want %q", a.Name, got, want)
		}
	}
	b.write("#burst", "0")
	b.waitFor(`document.querySelector("#burst-note").innerText.includes("whole number of at least 1")`)
	b.write("#burst", "5")
	b.waitFor(`document.querySelector("#meaning").innerText.includes("At most 5 at once")`)
	b.waitFor(`document.querySelector("#save-note").innerText.includes("resets its counts")`)
	b.look("editor-gcra")
	b.press(`button[value="save"]`, "[data-toast]")
	if p := n.policy(t); p.Algorithm != algorithms.GCRA || p.Options.Burst != 5 {
		t.Errorf("saved %s with %+v", p.Algorithm, p.Options)
	}
	b.waitFor(`!document.querySelector("[data-toast]").remove()`)
	b.do(chromedp.Click(chromedp.CSS(`[value="sorted_set_log"]`)), chromedp.Click(chromedp.CSS(`[name="count_refused"]`)))
	b.waitFor(`document.querySelector("#meaning").innerText.includes("Refused requests count too")`)
	b.picture("editor-count-refused", 1440, "dark")
	b.press(`button[value="save"]`, "[data-toast]")
	if p := n.policy(t); p.Algorithm != algorithms.SortedSetLog || !p.Options.CountRefused {
		t.Errorf("saved %s with %+v", p.Algorithm, p.Options)
	}
	b.consoleIsClean()
}

// The editor is not as long as its list of many policies, which shows where one is.
func TestPolicyListScrollsToItsPolicyAndCountsFromOne(t *testing.T) {
	n := newNode(t)
	for i := range 80 {
		n.put(t, rules.Policy{Name: fmt.Sprintf("customer-%02d", i), Match: []keys.Pattern{pattern(t, fmt.Sprintf("token:%d-*", i))}}, "5/s")
	}
	b := newBrowser(t, n)
	b.logIn("maria")
	b.show(1440, "/policies/customer-70")
	b.waitFor(`(box => box.top >= 0 && box.bottom <= innerHeight)(document.querySelector(".policy-list [aria-current]").getBoundingClientRect())`)
	if height := run(b, chromedp.Evaluate[int]("document.documentElement.scrollHeight")); height > 2000 {
		t.Errorf("the page is %d pixels high, want no more than its form", height)
	}
	b.waitFor(`document.querySelector("[name=limit]").ariaLabel === "Requests of rule 1" && document.querySelector("[name=match]").ariaLabel === "Pattern 1"`)
	b.consoleIsClean()
}

// An error is right after its field.
func TestPolicyErrorsStandAtTheirFields(t *testing.T) {
	n := newNode(t)
	for field, wrong := range map[string]string{"when_path": "login", "when_method": strings.Repeat("x", 300), "outcome": "No Outcome", "scope": "No Scope", "distinct": "No Value", "also": "net:/999", "evidence": "5 when path /a"} {
		form := n.editorForm(t, 1, url.Values{field: {wrong}, "do": {"look"}})
		body := n.as(t, "maria").post("/policies/default/draft", form).body
		_, after, found := strings.Cut(body, `id="`+field+`-note">`)
		if note, _, _ := strings.Cut(after, "</div>"); !found || !strings.Contains(note, `class="field-error"`) {
			t.Errorf("%s: the note behind the field is %q", field, note)
		}
	}
}
