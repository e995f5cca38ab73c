package adminui_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

const (
	taskMinutes  = 20
	taskRequests = 5000 // a minute
	worstKey     = "ip:192.0.2.77"
	busyKey      = "user:importer"
)

// tasks counts the clicks of an operator.
type tasks struct {
	*browser
	clicks int
}

// begin opens the overview, where a task begins.
func (b *tasks) begin() {
	b.t.Helper()
	b.show(1440, "/")
	b.waitFor(`document.querySelector("table.offenders td.first")`)
	b.clicks = 0
}

// click clicks and waits until an expression is true.
func (b *tasks) click(selector, then string) {
	b.t.Helper()
	b.clicks++
	b.settle()
	b.do(chromedp.Click(chromedp.CSS(selector)))
	b.waitFor(then)
}

// took fails unless the task took that many clicks.
func (b *tasks) took(clicks int) {
	b.t.Helper()
	if b.clicks != clicks {
		b.t.Errorf("the task took %d clicks, want %d", b.clicks, clicks)
	}
}

// TestOperatorTasksTakeFewClicks does the most common tasks of operators, on a node that has
// recorded 100,000 checks.
func TestOperatorTasksTakeFewClicks(t *testing.T) {
	var recorded []accesslog.Record
	n := newNode(t, func(d *adminui.Deps) {
		d.Policies.Traffic = func(_ context.Context, from, to time.Time) (accesslog.Source, bool, error) {
			all := slices.DeleteFunc(slices.Clone(recorded), func(r accesslog.Record) bool { return r.Time < from.UnixMilli() || r.Time >= to.UnixMilli() })
			return accesslog.Slice(all), false, nil
		}
	})
	var parser keys.Parser
	for minute := range taskMinutes {
		n.clock.advance(time.Minute)
		all := make([]string, taskRequests)
		for i := range all {
			switch {
			case i%10 == 0:
				all[i] = worstKey
			case i%250 == 1:
				all[i] = busyKey
			default:
				all[i] = fmt.Sprintf("token:client%d", minute*taskRequests+i)
			}
			key, err := parser.Key(all[i])
			must(t, err)
			recorded = append(recorded, accesslog.Record{Time: n.clock.Now().UnixMilli(), Key: key, Cost: 1})
		}
		n.send(t, all...)
		n.flush(t)
	}
	n.clock.advance(2 * time.Minute) // the minute must be over
	n.flush(t)
	b := &tasks{browser: newBrowser(t, n)}
	b.logIn("maria")

	t.Run("block the worst offender", func(t *testing.T) {
		b.t = t
		b.begin()
		b.click(`table.offenders tbody tr:first-child a.act`, `document.querySelector("#block-key")`)
		b.click("#block-key", `document.querySelector("[data-toast]")?.innerText.includes("Blocked")`)
		b.took(2)
		if got := n.decisionOn(t, worstKey); got != "blocked" {
			t.Errorf("the decision on the worst offender is %s, want blocked", got)
		}
	})
	t.Run("explain a refusal by its id", func(t *testing.T) {
		b.t = t
		id := n.refusalOf(t, busyKey)
		b.begin()
		b.write("[data-goto]", id+"\r") // pasted
		b.waitFor(`document.querySelector("h1").innerText.includes(` + strconv.Quote(id) + `)`)
		b.says(busyKey+" was refused", "Limited by 1/s", "Under the rule 1/s the next slot was free at")
		b.took(0)
	})
	t.Run("exempt a key", func(t *testing.T) {
		b.t = t
		b.begin()
		b.click(`table.offenders a[href*="importer"]`, `document.querySelector('a[href^="/exemptions/new"]')`)
		b.click(`a[href^="/exemptions/new"]`, `document.querySelector("#add-button")`)
		b.click(`label:has(input[name="for"][value="7d"])`, `document.querySelector('input[name="for"][value="7d"]').checked`)
		b.click("#add-button", `document.querySelector("[data-toast]")`)
		b.took(4) // with how long: there is no default
		if got := n.send(t, busyKey, busyKey, busyKey); slices.Contains(got, "limited") {
			t.Errorf("the decisions on the exempt key are %q, want none limited", got)
		}
	})
	t.Run("change a policy after a trial", func(t *testing.T) {
		b.t = t
		b.begin()
		b.click(`.nav a[href="/policies"]`, `document.querySelector('td.first a[href="/policies/default"]')`)
		b.click(`td.first a[href="/policies/default"]`, `document.querySelector('input[name="limit"]')`)
		b.write(`input[name="limit"]`, "2")
		b.waitFor(`document.querySelector("#rule-note-0").innerText.includes("was 1")`)
		b.click(`button[value="try-1h"]`, `document.querySelector("#try")?.innerText.includes("On the last hour")`)
		b.says("of 100,000 requests", "refused less")
		b.click(`button[value="save"]`, `document.querySelector("[data-toast]")`)
		b.took(4)
		p, err := n.store.Policies.FindPolicyByName(t.Context(), "default")
		must(t, err)
		if p.Version != 2 || p.Rules[0].Limit != 2 {
			t.Errorf("got version %d: %s", p.Version, p.Rules)
		}
	})
	b.t = t
	b.consoleIsClean()
}

const scanner = "ip:198.51.100.7"

// TestQuestionsTakeFewClicks answers what operators ask while an attack goes on.
func TestQuestionsTakeFewClicks(t *testing.T) {
	n := newNode(t, func(d *adminui.Deps) { d.Bots.Store = d.Detection.Store })
	n.attack(t)
	for range 260 { // more than the escalation allows
		n.askFor(t, scanner, "/wp-login.php")
	}
	n.put(t, rules.Policy{Name: "customers", Match: []keys.Pattern{pattern(t, "user:*")}}, "1000/s")
	for range 300 {
		n.askFor(t, "user:customer", "/orders")
	}
	n.flush(t)
	training := breakdown.Values{"/prices/{id}", "gptbot"}
	for name, value := range map[string]string{"bot": "openai/gptbot", "verified": conditions.Claimed} {
		at, _ := breakdown.Find(name)
		training[at] = value
	}
	n.requested(t, "requested", map[breakdown.Values]breakdown.Row{
		training:                               {Counts: breakdown.Counts{Allowed: 1500}},
		{"/prices/{id}", "scraper", "", "GET"}: {Counts: breakdown.Counts{Allowed: 40, Limited: 3000}},
		{"/search", "scraper", "", "GET"}:      {Counts: breakdown.Counts{Limited: 1000}},
		{"/health", "uptimerobot", "", "GET"}:  {Counts: breakdown.Counts{Allowed: 9000}},
	})
	for range 60 { // more than are kept of a key
		if got := n.decisionOn(t, scanner); got != "blocked" {
			t.Fatalf("the decision on the scanner is %s, want blocked", got)
		}
	}
	n.flush(t)
	b := &tasks{browser: newBrowser(t, n)}
	b.logIn("maria")

	t.Run("which paths the attack asks for", func(t *testing.T) {
		b.t = t
		b.begin()
		b.waitFor(`document.querySelector(".head.pulse .lead").innerText.includes("Refused most: /prices/{id} (")`)
		b.saysNot("/health")
		b.took(0)
	})
	const asked = `(r => r && r.querySelector("h2").innerText === "Requests" && r.querySelector(":scope > .table-wrap tbody tr").innerText.includes("/wp-login.php"))(document.querySelector(".key-columns section"))`
	t.Run("what an offender asked for before it was blocked", func(t *testing.T) {
		b.t = t
		b.begin()
		b.click(`table.offenders tr[data-key="`+scanner+`"] td.first a`, asked)
		b.took(1)
	})
	t.Run("what a newly blocked key asked for", func(t *testing.T) {
		b.t = t
		b.begin()
		b.click(`table.new-blocks td.first a[href*="198.51.100.7"]`, asked)
		b.took(1)
	})
	t.Run("what a blocked key asked for", func(t *testing.T) {
		b.t = t
		b.show(1440, "/blocks?source=automatic")
		b.clicks = 0
		b.click(`td.first a[href*="198.51.100.7"]`, asked)
		b.took(1)
	})
	t.Run("exclude our monitor from the picture", func(t *testing.T) {
		b.t = t
		b.begin()
		b.click(`.nav a[href^="/traffic"]`, `document.querySelector("[data-dimension=path]")?.innerText.includes("/health")`)
		b.click(`[data-dimension=path] [aria-label="Exclude /health"]`, `!document.querySelector("[data-dimension=path]").innerText.includes("/health")`)
		b.took(2)
	})
	t.Run("block the agent of a scraper after trying it out", func(t *testing.T) {
		b.t = t
		b.begin()
		b.click(`.nav a[href^="/traffic"]`, `document.querySelector("[data-dimension=agent] tr[data-key=scraper] a")`)
		b.click(`[data-dimension=agent] tr[data-key=scraper] a`, `document.querySelector('a[href^="/new-policy"][href*="refuse=yes"]')`)
		b.click(`a[href^="/new-policy"][href*="refuse=yes"]`, `document.querySelector("#try .lead")`)
		b.says("In the last hour the draft would have refused 4,040 checks", "Of these, 40 were allowed", "The draft refuses more than these: no pattern selects exactly these values of Agent.")
		b.write("#confirm-broad", "refuse-scraper")
		b.click(`button[value="save"]`, `document.querySelector("[data-toast]")`)
		b.took(4)
		p, err := n.store.Policies.FindPolicyByName(t.Context(), "refuse-scraper")
		must(t, err)
		if p.Mode != rules.Enforce || p.When.IsZero() || len(p.Rules) != 1 || p.Rules[0].Limit != 0 {
			t.Errorf("got %+v", p)
		}
	})
	t.Run("which customer makes most requests without ever being refused", func(t *testing.T) {
		b.t = t
		b.begin()
		b.click(`.nav a[href^="/keys/active"]`, `document.querySelector('a[href*="refused=never"]')`)
		b.click(`a[href*="refused=never"]`, `document.querySelector("tbody tr:first-child td.first")?.innerText.includes("customer") && !document.querySelector("tr[data-key='`+scanner+`']")`)
		b.took(2)
	})
	t.Run("how much is AI training, and stop it", func(t *testing.T) {
		b.t = t
		b.begin()
		b.click(`.nav a[href^="/bots"]`, `document.querySelector('a[href="/blocks/new?pattern=category%3Aai-training"]')`)
		b.says("1,500 requests, 6.1% of all")
		b.click(`a[href="/blocks/new?pattern=category%3Aai-training"]`, `document.querySelector("#add-button")`)
		b.write("#confirm", "category:ai-training")
		b.click("#add-button", `document.querySelector("[data-toast]")?.innerText.includes("Blocked")`)
		b.took(3)
		found, err := n.store.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, At: n.clock.Now(), Search: "category:ai-training"})
		must(t, err)
		if len(found.Items) != 1 || !found.Items[0].ActiveAt(n.clock.Now()) {
			t.Errorf("%d active blocks of the category, want 1", len(found.Items))
		}
	})
	b.t = t
	b.consoleIsClean()
}
