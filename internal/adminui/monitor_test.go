package adminui_test

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/keytest"
)

// monitorPages are the paths of the monitor pages, by a name for the file of a screenshot.
func (n *node) monitorPages(t testing.TB) map[string]string {
	t.Helper()
	ctx := context.Background()
	open, _, err := n.store.Proposals.FindProposals(ctx, offences.OpenProposals, "", 10)
	must(t, err)
	if len(open) == 0 {
		t.Fatal("the attack caused no proposal")
	}
	documents, _, err := n.store.Reports.FindDocuments(ctx, "", "", 10)
	must(t, err)
	return map[string]string{
		"overview": "/", "overview-5m": "/?last=5m", "overview-24h": "/?last=24h", "overview-7d": "/?last=7d",
		"offenders": "/offenders", "offenders-filtered": "/offenders?min_offences=100&not_rule=20%2F1m&pattern=ip:*", "offenders-none": "/offenders?search=nothing-like-it",
		"key": "/key?key=ip:203.0.113.6", "key-limited": "/key?key=ip:203.0.113.150", "key-clean": "/key?key=token:client3", "key-unknown": "/key?key=user:nobody",
		"key-hostile": "/key?" + url.Values{"key": {"token:" + hostile[0]}}.Encode(), "key-reset": "/key?key=ip:203.0.113.6&ask=reset",
		"attacks": "/attacks", "traffic": "/traffic", "traffic-filtered": "/traffic?is=method%3DGET&not=path%3D%2Fhealth&decision=refused", "active-keys": "/keys/active", "live": "/live", "proposals": "/proposals", "proposal": "/proposals/" + open[0].ID,
		"reports": "/reports", "today": "/reports/today", "policy-usage": "/policies/default/usage", "report": "/reports/" + documents[0].ID, "refusal": "/key?refusal=" + n.refusalOf(t, "ip:203.0.113.150"),
	}
}

// refusalOf opens the page of a key that is over its limit, and returns the
// id of a refusal on it.
func (n *node) refusalOf(t testing.TB, key string) string {
	t.Helper()
	page := n.as(t, "vic").get("/key?" + url.Values{"key": {key}}.Encode()).is(http.StatusOK)
	found := regexp.MustCompile(`refusal=([0-9A-Z]{26})`).FindStringSubmatch(page.body)
	if found == nil {
		t.Fatalf("the page of %s has no link to a refusal: %s", key, page.shown())
	}
	return found[1]
}

// announceAttack has the present attack announced, as a node does, and returns what was announced.
func (n *node) announceAttack(t testing.TB) (news []admin.AttackNews) {
	t.Helper()
	watch := &admin.AttackWatch{Detection: n.detection, Holder: "node", Announce: func(_ context.Context, one admin.AttackNews) { news = append(news, one) }}
	must(t, watch.Look(context.Background()))
	return news
}

// fillMonitor adds an attack, hostile texts in notes and blocks, and a report.
func (n *node) fillMonitor(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	n.attack(t)
	n.send(t, "ip:203.0.113.150", "ip:203.0.113.150", "ip:203.0.113.150")
	n.flush(t)
	n.announceAttack(t)
	for _, text := range hostile {
		_, err := n.store.Notes.AddNote(ctx, audit.Actor{Kind: audit.User, Name: hostile[1]}, wire.NoteRequest{Key: "ip:203.0.113.6", Text: text})
		must(t, err)
	}
	olu := audit.Actor{Kind: audit.User, Name: "olu"}
	_, err := n.store.Profiles.PutProfile(ctx, olu, profiles.Profile{Key: "ip:203.0.113.6", Plan: "gold", Labels: []string{"region=eu", "vip"}, Note: hostile[0]}, etag.Any)
	must(t, err)
	_, err = n.store.Profiles.PutLimit(ctx, olu, "ip:203.0.113.6", &profiles.Limit{Rules: stack(t, "5/s", "1000/d"), Reason: hostile[1], Expires: n.clock.Now().Add(48 * time.Hour)})
	must(t, err)
	builder := reports.Builder{Store: n.store.Reports, Counts: n.store.Offences, Detection: n.detection, Proposals: n.detection.Proposals, View: n.catalog, Now: n.clock.Now}
	_, err = builder.Build(ctx, reports.Daily, reportedDay().Add(24*time.Hour))
	must(t, err)
}

// reportedDay is a time on the day of fillMonitor's report: the day on
// which most of the attack happens.
func reportedDay() time.Time { return start.Add((quietMinutes + attackMinutes/2) * time.Minute) }

// fillLive causes some events while the live page is open.
func (n *node) fillLive(t testing.TB) {
	t.Helper()
	n.as(t, "vic").get("/live").is(http.StatusOK)
	n.send(t, "ip:203.0.113.77", "ip:203.0.113.77", "token:"+hostile[0], "token:"+hostile[5], "token:"+hostile[6], "host:api.example.com")
	n.block(t, "token:"+hostile[4], hostile[1], hostile[0], blocks.Manual, time.Hour)
	n.send(t, "token:"+hostile[4])
}

var tags = regexp.MustCompile(`<[^>]*>`)

// says checks that the page without its tags contains text.
func (a *answer) says(text string) *answer {
	a.t.Helper()
	if !strings.Contains(oneLine(tags.ReplaceAllString(a.body, "")), text) {
		a.t.Errorf("the page does not show %q: %s", text, a.shown())
	}
	return a
}

func TestOverviewExplainsAttackAndOffersActions(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	v := n.as(t, "olu")
	page := v.get("/").is(http.StatusOK)
	page.holds("Refusing ").holds(" requests a second since ").holds(start.Add((quietMinutes+1)*time.Minute).Format("15:04") + " UTC</time>, 21 minutes ago.") // with its day if before midnight
	page.holds(`come from <a class="plain" href="/offenders?pattern=ip%3A203.0.113.0%2F24">`).holds("61 of 256 addresses")
	page.holds("of policy <a href=\"/policies/default\">").holds(`href="/blocks/new?literal=yes&amp;pattern=ip%3A203.0.113.0%2F24&amp;reason=`)
	page.holds("61 of its 256 addresses offended in 11 min, each at least ").holds("of the checks of the range were refused, reports over a limit included.").
		holds("Rules that refuse most")
	page.holds(`href="/offenders?policy=default&amp;rule=`)
	page.holds(`href="/?last=24h"`).holds("Zoom in</a>").holds(`name="id"`)
	v.get("/v1/attack").is(http.StatusOK).holds(`"active":true`).holds(`"pattern":"ip:203.0.113.0/24"`).holds(`"keys":61`).holds(`"policy":"default"`).
		holds(`"rule":"`).holds(`"blocked":false`)
	// Without checks in two whole hours there is no baseline. The checks of an hour
	// and two minutes fill two only where they begin in the last minute of one.
	second := start.Add(time.Minute).Truncate(time.Hour).Add(2 * time.Hour)
	if attack := v.get("/v1/attack"); n.clock.Now().Before(second) {
		attack.holds(`"baseline":null`)
	} else {
		attack.holds(`"baseline":{`)
	}
	v.get("/?last=24h").is(http.StatusOK).holds(`href="/offenders?last=24h"`).holds(`href="/blocks?last=24h"`)
	n.as(t, "vic").get("/").is(http.StatusOK).lacks("Block…").lacks(">Unblock<").lacks("Dismiss").lacks(`id="block-source"`)
}

func TestOverviewWithoutTrafficShowsNoAttack(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "vic")
	v.get("/v1/attack").is(http.StatusOK).holds(`"active":false`).holds(`"since":null`).holds(`"source":null`).holds(`"in_force":{"policies":[],"sources":[]}`)
	v.get("/").is(http.StatusOK).holds("No checks in the last hour.").holds("No key was refused in the last hour.")
	n.send(t, "token:a")
	n.flush(t)
	n.clock.advance(40 * time.Second)
	v.get("/").is(http.StatusOK).holds("No request is being refused.").lacks("second since")
}

func TestOffendersPageRejectsInvalidTimeRanges(t *testing.T) {
	v := newNode(t).as(t, "vic")
	// A time range of one day is shown without the day, so these are at noon.
	noon := start.Truncate(24 * time.Hour).Add(-12 * time.Hour)
	minute := func(d time.Duration) string { return noon.Add(d).Format("2006-01-02T15:04") }
	for query, says := range map[string]string{
		"last=nonsense": "must be a duration", "last=1s": "from 1m to 400d", "since=yesterday": "must be a day and a time",
		"since=" + minute(0) + "&until=" + minute(-time.Hour): "The end of the time range must be after its beginning.", "since=1990-01-01T00:00": "The time range is longer than 400 days.",
	} {
		v.get("/offenders?" + query).is(http.StatusUnprocessableEntity).holds(says).lacks("<bdi>until: ").lacks("<bdi>since: The")
	}
	v.get("/go?q=ip:300.1.1.1").is(http.StatusUnprocessableEntity).holds("<bdi>The pattern looks like an IPv4 address and is none").lacks("q: ")
	v.get("/offenders?since=" + minute(0) + "&until=" + minute(30*time.Minute)).is(http.StatusOK).says("12:00 to 12:30 UTC")
}

func TestOffendersPageFiltersByURL(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	v := n.as(t, "vic")
	v.get("/offenders").is(http.StatusOK).holds("203.0.113.2<").holds("202E").lacks(`name="key"`)
	v.get("/offenders?pattern=host:*").is(http.StatusOK).holds("api.example.com").lacks("203.0.113.2<")
	v.get("/offenders?pattern=203.0.113.0/30").is(http.StatusOK).holds("203.0.113.2<").lacks("203.0.113.6<")
	v.get("/offenders?search=GPJ").is(http.StatusOK).holds("202E").lacks("203.0.113.2<")
	v.get("/offenders?min_offences=1000000").is(http.StatusOK).holds("No key matches these filters.").holds("Clear the filters")
	v.get("/offenders?rule=20/min").is(http.StatusOK).holds("Rule is").holds("20/min")
	v.get("/offenders?policy=nothing").is(http.StatusUnprocessableEntity)
	v.get("/offenders?min_offences=many").is(http.StatusUnprocessableEntity)
	export := regexp.MustCompile(`href="(/v1/offenders/export[^"]+)"`).FindStringSubmatch(v.get("/offenders?search=GPJ").body)
	csv := v.get(strings.ReplaceAll(export[1], "&amp;", "&")).is(http.StatusOK)
	if lines := strings.Count(csv.body, "\n"); lines != 2 || csv.header.Get("Content-Type") != "text/csv; charset=utf-8" {
		t.Errorf("the CSV has %d lines, want 2: %s", lines, csv.body)
	}
}

func TestBlockingFromOffendersPageTakesEffectAndIsUndone(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	v := n.as(t, "olu")
	const back = "/offenders?search=client"
	keys := []string{"token:client1", "token:client2"}
	v.get(back).is(http.StatusOK)
	if got := n.decisionOn(t, keys[0]); got != "allowed" {
		t.Fatalf("the decision before the block is %s, want allowed", got)
	}
	v.post("/bulk/add", url.Values{"key": keys, "back": {back}}).is(http.StatusOK).holds("Block 2 keys").holds("client1")
	if got := n.decisionOn(t, keys[0]); got == "blocked" {
		t.Fatal("the confirmation page alone blocked the keys")
	}
	v.post("/bulk/add", url.Values{"key": keys, "back": {back}, "for": {"until"}, "until": {"soon"}}).is(http.StatusUnprocessableEntity).holds("Enter a day and a time")
	done := v.post("/bulk/add", url.Values{"key": keys, "back": {back}, "for": {"24h"}, "reason": {"test"}}).is(http.StatusSeeOther)
	if got := n.decisionOn(t, keys[0]); got != "blocked" {
		t.Fatalf("the decision after the block is %s, want blocked", got)
	}
	toast := v.get(done.header.Get("Location")).is(http.StatusOK).holds("Blocked 2 keys.").holds("Undo")
	undo := url.Values{"back": {back}, "what": {"block"}}
	for _, id := range regexp.MustCompile(`name="id" value="([0-9a-f-]{36})"`).FindAllStringSubmatch(toast.body, -1) {
		undo.Add("id", id[1])
	}
	ended := v.post("/bulk/end", undo).is(http.StatusSeeOther)
	if got := n.decisionOn(t, keys[0]); got == "blocked" {
		t.Fatal("it is blocked after the block was undone")
	}
	v.get(ended.header.Get("Location")).is(http.StatusOK).holds("Ended the blocks of").holds("Undo")
	v.post("/bulk/restore", undo).is(http.StatusSeeOther)
	if got := n.decisionOn(t, keys[0]); got != "blocked" {
		t.Fatalf("the decision after the blocks were restored is %s, want blocked", got)
	}
}

func TestViewersCannotActFromMonitorPages(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "vic")
	for path, form := range map[string]url.Values{
		"/bulk/add": {"key": {"token:a"}, "for": {"1h"}}, "/bulk/end": {"id": {"x"}}, "/bulk/restore": {"id": {"x"}}, "/key/reset": {"key": {"token:a"}},
		"/escalations/resume": {"policy": {"default"}}, "/key/note": {"key": {"token:a"}, "text": {"x"}}, "/key/note/delete": {"id": {"x"}},
		"/proposals/x/accept": {}, "/proposals/x/dismiss": {},
	} {
		v.post(path, form).is(http.StatusForbidden)
	}
	if got := n.decisionOn(t, "token:a"); got != "allowed" {
		t.Errorf("the decision after a viewer's forms is %s, want allowed", got)
	}
	olu := n.as(t, "olu")
	broad := olu.post("/bulk/add", url.Values{"key": {"ip:10.0.0.0/8"}, "for": {"1h"}}).is(http.StatusSeeOther)
	olu.get(broad.header.Get("Location")).is(http.StatusOK).holds("To confirm all 16,777,216 addresses, type ip:10.0.0.0/8")
	if got := n.decisionOn(t, "ip:10.0.0.1"); got != "allowed" {
		t.Errorf("the decision in an unconfirmed broad range is %s, want allowed", got)
	}
	olu.post("/bulk/add", url.Values{"for": {"1h"}}).is(http.StatusUnprocessableEntity).holds("at least one key")
}

func TestKeyPageShowsWhenKeyIsAllowedAgain(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "olu")
	v.get("/key?key=token:new").is(http.StatusOK).holds("<b>Allowed</b>").holds("<b>1</b> request allowed now.")
	for range 3 {
		n.send(t, "token:busy")
		n.clock.advance(300 * time.Millisecond)
	}
	n.flush(t)
	page := v.get("/key?key=token:busy").is(http.StatusOK)
	page.holds("<b>Limited</b></span> by <b>1/s</b>").holds("in <b>0.1 s</b>, at").holds(">" + clockAt(time.Second) + " UTC</time></b>").holds("limiting now")
	page.says("Oldest, " + clockAt(0)).says("Next allowed, " + clockAt(time.Second)).holds("Latest refusals")
	v.get("/key?key=token:busy&rule=default+20/1m").is(http.StatusOK).holds("The last minute: 1 of 20")
	n.clock.advance(time.Second)
	v.get("/key?key=token:busy").is(http.StatusOK).holds("<b>Allowed</b>")
	v.get("/key?key=ip:nonsense").is(http.StatusUnprocessableEntity)
	v.get("/go?q=203.0.113.7&last=24h").is(http.StatusSeeOther)
}

func TestKeyPageBlocksRangeResetsAndAddsNotes(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "olu")
	const here = "/key?key=ip:203.0.113.7"
	v.get(here).is(http.StatusOK).holds("203.0.113.0/28").holds("203.0.113.0/24")
	done := v.post("/bulk/add", url.Values{"key": {"ip:203.0.113.0/28"}, "for": {"4h"}, "reason": {"scraping"}, "back": {here}}).is(http.StatusSeeOther)
	v.get(done.header.Get("Location")).is(http.StatusOK).holds("<b>Blocked</b>").holds("with <b>").holds(start.Add(4 * time.Hour).Format("15:04"))
	if got := n.decisionOn(t, "ip:203.0.113.9"); got != "blocked" {
		t.Errorf("the decision on its neighbour is %s, want blocked", got)
	}
	n.send(t, "token:used")
	if got := n.decisionOn(t, "token:used"); got != "limited" {
		t.Fatalf("the second request in a second is %s, want limited", got)
	}
	v.get("/key?key=token:used&ask=reset").is(http.StatusOK).holds("All limits start from zero")
	v.post("/key/reset", url.Values{"key": {"token:used"}, "back": {"/key?key=token:used"}}).is(http.StatusSeeOther)
	if got := n.decisionOn(t, "token:used"); got != "allowed" {
		t.Errorf("the decision after the reset is %s, want allowed", got)
	}
	v.post("/key/note", url.Values{"key": {"token:used"}, "text": {"Seen in\r\nJuly"}, "back": {"/key?key=token:used"}}).is(http.StatusSeeOther)
	page := v.get("/key?key=token:used").is(http.StatusOK).holds("Seen in")
	id := regexp.MustCompile(`name="id" value="([0-9a-f-]{36})">Delete`).FindStringSubmatch(page.body)
	v.post("/key/note/delete", url.Values{"id": {id[1]}, "back": {"/key?key=token:used"}}).is(http.StatusSeeOther)
	v.get("/key?key=token:used").is(http.StatusOK).lacks("Seen in")
	v.post("/key/note", url.Values{"key": {"token:used"}, "text": {" "}}).is(http.StatusUnprocessableEntity)
	entries, err := n.store.Audit.FindRecords(context.Background(), audit.Filter{Action: "key.reset"})
	must(t, err)
	if len(entries.Records) != 1 || entries.Records[0].Actor.Name != "olu" {
		t.Errorf("got the audit records %v, want one by olu", entries.Records)
	}
}

func TestRefusalIDOpensItsExplanation(t *testing.T) {
	n := newNode(t)
	n.send(t, "token:a", "token:a", "token:a")
	n.flush(t)
	v := n.as(t, "vic")
	id := n.refusalOf(t, "token:a")
	found := v.get("/go?q=" + strings.ToLower(id)).is(http.StatusSeeOther)
	page := v.get(found.header.Get("Location")).is(http.StatusOK)
	page.holds("was refused 2 times").holds("Limited by 1/s").holds("edge-1").holds("/search").holds(`href="/key?key=token%3Aa"`)
	other := id[:25] + map[bool]string{true: "Z", false: "Y"}[id[25] != 'Z']
	n.clock.advance(2 * time.Minute)
	v.get("/key?refusal=" + other).is(http.StatusOK).holds("There is no record of this refusal.")
	v.get("/key?refusal=nonsense").is(http.StatusUnprocessableEntity)
}

func TestLivePageShowsFilteredEventsNewestFirst(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "vic")
	v.get("/live").is(http.StatusOK).holds("No events yet.")
	n.send(t, "token:alpha", "token:beta", "token:beta")
	page := v.get("/live").is(http.StatusOK).body
	if first, second := strings.Index(page, "alpha"), strings.Index(page, "Limited"); first < 0 || second < 0 || first < second {
		t.Errorf("the newest event is not first: %s", page)
	}
	v.get("/live?show=refused").is(http.StatusOK).holds("beta").lacks("alpha")
	v.get("/live?pattern=token:alpha").is(http.StatusOK).holds("alpha").lacks(">beta<")
	n.events.Publish(events.Event{Kind: events.Block, Entry: &audit.Record{Actor: audit.SystemActor("escalation"), Action: "block.add", Summary: "Added the block of gamma."}})
	v.get("/live?show=changes").is(http.StatusOK).holds(">Change</td>").says("escalation: Added the block of gamma.").lacks("block.add").lacks("beta")
	n.events.Publish(events.Event{Kind: events.Hold, Key: keytest.Key(t, "team:delta"), Policy: "tokens", Hold: events.HoldChange{State: "settled", Held: 1000, Used: 3100, Over: 200}})
	v.get("/live?show=holds").is(http.StatusOK).says("Hold settled").says("3,100 of 1,000").says("200 beyond a limit").holds("delta").lacks("gamma")
	v.get("/live?show=nonsense").is(http.StatusUnprocessableEntity)
	n.events.Publish(events.Event{Kind: events.Decision, Outcome: gate.Allowed, Shadow: gate.Unavailable, ShadowPolicy: "trial"})
	v.get("/live?show=allowed").is(http.StatusOK).says("trial would refuse")
}

var streamAttribute = regexp.MustCompile(`data-stream="([^"]+)"`)

func TestLivePageNamesStreamWithItsFilters(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "vic")
	for path, want := range map[string]string{
		"/live": "/v1/events", "/live?show=refused": "/v1/events?decision=limited%2Cblocked%2Cchallenged%2Cunavailable&kind=decision",
		"/live?show=allowed": "/v1/events?decision=allowed&kind=decision", "/live?show=changes&policy=default": "/v1/events?kind=block%2Cchange&policy=default",
		"/live?show=holds": "/v1/events?kind=hold", "/live?pattern=203.0.113.0/24": "/v1/events?pattern=ip%3A203.0.113.0%2F24",
	} {
		m := streamAttribute.FindStringSubmatch(v.get(path).is(http.StatusOK).body)
		if m == nil || html.UnescapeString(m[1]) != want {
			t.Errorf("%s has the stream %q, want %s", path, m, want)
		}
		if got := v.do(http.MethodHead, want, nil, nil).is(http.StatusOK); got.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s has the type %s, want text/event-stream", want, got.header.Get("Content-Type"))
		}
	}
}

func TestPolicyUsagePage(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "vic")
	v.get("/policies/default/usage").is(http.StatusOK).holds("This policy applied to no request")
	n.fillMonitor(t)
	v.get("/policies/default/usage").is(http.StatusOK).holds("How close keys came to each rule").holds("Top offenders").holds("203.0.113.2<").
		holds("Busiest keys under").lacks("No key of this policy").says(" UTC. Blocks refused ")
	v.get("/policies/nothing/usage").is(http.StatusNotFound)
	v.get("/policies/default").holds(`href="/policies/default/usage"`)
	v.get("/policies").holds(`href="/policies/default/usage"`)
}

func TestReportsAreListedAndShown(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "vic")
	v.get("/reports").is(http.StatusOK).holds("There is no report yet.")
	n.fillMonitor(t)
	v = n.as(t, "vic")
	page := v.get("/reports").is(http.StatusOK).holds(reportedDay().Format("Mon 2 Jan 2006"))
	id := regexp.MustCompile(`href="/reports/([0-9a-f-]{36})"`).FindStringSubmatch(page.body)
	v.get("/reports/" + id[1]).is(http.StatusOK).holds("Top offenders").holds("203.0.113.2<").holds("202E")
	v.get("/reports/today").is(http.StatusOK).holds("<h1>Today so far</h1>").holds("Top offenders").holds(">Blocked</td>").lacks("a block<").holds("/v1/reports/today?format=csv")
	v.get("/reports?kind=weekly").is(http.StatusOK).holds("There is no report yet.")
	v.get("/reports?kind=yearly").is(http.StatusUnprocessableEntity)
	v.get("/reports/nothing").is(http.StatusNotFound)
}

func TestMonitorPagesEscapeHostileTexts(t *testing.T) {
	n := newNode(t)
	n.fillMonitor(t)
	v := n.as(t, "maria")
	for name, path := range n.monitorPages(t) {
		t.Run(name, func(t *testing.T) {
			v.t = t
			v.get(path).is(http.StatusOK).lacks(" style=").lacks("<script>alert").lacks("<img")
		})
	}
}

func TestLivePageIgnoresTokenOfAnotherRun(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "vic")
	v.get("/live").is(http.StatusOK)
	n.send(t, "token:alpha", "token:beta")
	newest := n.events.Newest(events.Filter{}, 1)[0]
	v.get("/live?after=" + n.events.Token(&newest)).is(http.StatusOK).holds("No events yet.").holds(`data-run="` + n.events.Run() + `"`)
	before := events.New(events.Options{})
	v.get("/live?after=" + before.Token(&events.Event{ID: 5000})).is(http.StatusOK).holds("alpha").holds("beta")
	v.get("/live?after=5000").is(http.StatusUnprocessableEntity)
}

func TestPagesCountOneRequestInSingular(t *testing.T) {
	n := newNode(t)
	n.send(t, "token:seen")
	n.block(t, "token:one", "", "maria", blocks.Manual, time.Hour)
	n.send(t, "token:one")
	n.flush(t)
	maria := n.as(t, "maria")
	maria.get("/blocks").says("refused 1 request in the last hour")
	maria.get("/policies/default/usage").says("0 of 1 request,")
}
