package gate

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

const gptbot = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"

// withLists gives n the list of addresses 20.0.0.0/24 for all bots whose operators publish one.
func withLists(t *testing.T, n *node) {
	t.Helper()
	n.bots.Lists = bots.NewLists("", func(context.Context, string, string) (io.ReadCloser, string, error) {
		return io.NopCloser(strings.NewReader(`{"prefixes":[{"ipv4Prefix":"20.0.0.0/24"}],"keys":[]}`)), "", nil
	}, n.clock)
	if _, err := n.bots.Lists.Pull(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Everybody who says to be a bot meets the blocks and policies of the bot; an exemption needs a verified one.
func TestPatternsOfBotsDecide(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "previews", "category:preview", "2/m"), policy(t, 3, "claimed", "ip:*", "0/s", func(p *rules.Policy) {
		w, err := conditions.Parse(conditions.Texts{"category": {"ai-user"}, "verified": {"claimed"}})
		if err != nil {
			t.Fatal(err)
		}
		p.When = w
	}))
	withLists(t, n)
	const listed, stranger = "ip:20.0.0.7", "ip:203.0.113.7"
	want := func(key, agent string, outcome Outcome) {
		t.Helper()
		if d := n.check(t, key, forPath("/", agent)); d.Outcome != outcome {
			t.Errorf("%s as %s is %s, want %s", key, agent, d.Outcome, outcome)
		}
	}
	want(stranger, gptbot, Allowed)
	n.block(t, "b1", "category:ai-training", time.Time{})
	want(stranger, gptbot, Blocked)
	want(listed, gptbot, Blocked)
	want(stranger, "Mozilla/5.0 Firefox/133.0", Allowed)
	n.set.Apply(&blocks.Entry{Kind: blocks.Exemption, ID: "e1", Pattern: pattern(t, "bot:openai/*")}, n.clock())
	want(stranger, gptbot, Blocked)
	want(listed, gptbot, Allowed)
	// One log for all requests of the category, whatever the address.
	for i := range 3 {
		outcome := Allowed
		if i == 2 {
			outcome = Limited
		}
		want(fmt.Sprintf("ip:198.51.100.%d", i), []string{"Slackbot 1.0", "Discordbot/2.0", "TelegramBot"}[i], outcome)
	}
	want(stranger, "Claude-User/1.0", Limited)
	want(listed, "Claude-User/1.0", Allowed)
}

func TestSpoofedBotIsEvidenceAndAnOutcome(t *testing.T) {
	operators, err := bots.ParseOperators("google")
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "weighed", "ip:*", "1/h", suspicion(t, "20 outcome bot_spoofed")), policy(t, 3, "counted", "ip:*", "1/h", counts(conditions.BotSpoofed)),
		policy(t, 4, "paths", "ip:*", "9/h", counts(conditions.BotSpoofed), distinctRules(t, "1/h distinct path")), policy(t, 5, "network", "ip:*", "9/h", counts(conditions.BotSpoofed), also(t, "net:/24 1/h")))
	n.bots.Verifier = bots.New(bots.Options{Operators: operators, Resolver: namesInDNS{}, Now: n.clock})
	withLists(t, n)
	const liar = "ip:203.0.113.7"
	as := forPath("/", "Googlebot/2.1")
	if d := n.check(t, liar, as); d.Outcome != Allowed || d.Check.Bot().Verified != conditions.Claimed {
		t.Fatalf("before DNS is asked: %s, %s", d.Outcome, d.Check.Bot().Verified)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { n.bots.Verifier.Run(ctx); close(ended) }()
	address := netip.MustParseAddr("203.0.113.7")
	for until := time.Now().Add(time.Minute); !n.bots.Verifier.IsStranger(address) && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	stop()
	<-ended
	if d := n.check(t, liar, as); d.Check.Bot().Verified != conditions.Spoofed || d.Outcome != Limited {
		t.Errorf("the liar is %s, and its check %s", d.Check.Bot().Verified, d.Outcome)
	}
	x, err := n.Explain(t.Context(), key(t, liar), "")
	if err != nil || len(x.Conditional) != 5 {
		t.Fatalf("%+v, %v", x, err)
	}
	for i, c := range x.Conditional {
		if c.Allowed != (i == 3) { // the network's policy itself has room, and its further key none
			t.Errorf("the policy %s of the key %v allows: %v", c.Policy.Name, c.Derived, c.Allowed)
		}
	}
}

// distinctRules replaces the rules of a policy.
func distinctRules(t *testing.T, text string) func(*rules.Policy) {
	return func(p *rules.Policy) {
		var err error
		if p.Rules, err = rules.ParseStack([]string{text}); err != nil {
			t.Fatal(err)
		}
	}
}

// Those who only say to be a bot do not use up what it may do, and can be blocked alone.
func TestLiarsAreCountedApart(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "gptbot", "bot:openai/gptbot", "2/m"), policy(t, 3, "training", "category:ai-training", "3/m"))
	withLists(t, n)
	const listed, stranger = "ip:20.0.0.7", "ip:203.0.113.7"
	as := forPath("/", gptbot)
	for i, want := range []Outcome{Allowed, Allowed, Limited, Limited} {
		if d := n.check(t, stranger, as); d.Outcome != want {
			t.Errorf("check %d of a liar is %s, want %s", i, d.Outcome, want)
		}
	}
	if d := n.check(t, listed, as); d.Outcome != Allowed {
		t.Errorf("the bot is %s after a liar used up its own limit", d.Outcome)
	}
	x, err := n.Explain(t.Context(), key(t, "bot:openai/gptbot/claimed"), "")
	if err != nil || x.Enforcing == nil || x.Enforcing.Policy.Name != "gptbot" || x.Enforcing.Allowed || x.Enforcing.Rules[0].Used != 2 {
		t.Errorf("the key of the liars is explained as %+v, %v", x.Enforcing, err)
	}
	n.block(t, "b", "bot:openai/gptbot/claimed", time.Time{})
	if a, b := n.check(t, stranger, as), n.check(t, listed, as); a.Outcome != Blocked || b.Outcome != Allowed {
		t.Errorf("with a block of the liars, one is %s and the bot %s", a.Outcome, b.Outcome)
	}
	if d := n.check(t, stranger, forPath("/", "ClaudeBot/1")); d.Outcome == Blocked {
		t.Errorf("another bot is %s", d.Outcome)
	}
}

// A node that cannot verify a bot takes nobody for a liar: the bot itself is counted as who it says to be.
func TestNobodyIsALiarWhereNothingIsVerified(t *testing.T) {
	n := newNode(t, policy(t, 1, "gptbot", "bot:openai/gptbot", "2/m"))
	n.bots.Lists = bots.NewLists("", nil, n.clock)
	n.block(t, "b", "bot:openai/gptbot/claimed", time.Time{})
	for i, want := range []Outcome{Allowed, Allowed, Limited} {
		if d := n.check(t, "ip:203.0.113.7", forPath("/", gptbot)); d.Outcome != want {
			t.Errorf("check %d is %s, want %s", i, d.Outcome, want)
		}
	}
	if x, err := n.Explain(t.Context(), key(t, "bot:openai/gptbot"), ""); err != nil || x.Enforcing == nil || x.Enforcing.Rules[0].Used != 2 {
		t.Errorf("the key of the bot is explained as %+v, %v", x.Enforcing, err)
	}
}

// A policy that is matched by a bot may have all that one of an address may have.
func TestPoliciesOfBotsMayHaveConditions(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "100/m"),
		policy(t, 2, "private", "bot:openai/*", "0/1s", when(t, "/private/*", "")),
		policy(t, 3, "counted", "bot:openai/gptbot", "1/h", counts("form_spam")),
		policy(t, 4, "weighed", "category:ai-training", "1/h", suspicion(t, "20 path /trap", "20 outcome scraped")),
		policy(t, 5, "networks", "bot:anthropic/*", "100/m", also(t, "net:/24 1/m")))
	withLists(t, n)
	want := func(key, path, agent string, outcome Outcome) {
		t.Helper()
		if d := n.check(t, key, forPath(path, agent)); d.Outcome != outcome {
			t.Errorf("%s of %s as %s is %s, want %s", path, key, agent, d.Outcome, outcome)
		}
	}
	const one, other = "ip:20.0.0.7", "ip:20.0.0.8"
	want(one, "/private/a", gptbot, Limited)
	want(one, "/private/a", "Firefox", Allowed)
	want(one, "/", gptbot, Allowed)
	wantReported(t, n.report(t, one, "form_spam", func(r *Report) { r.Request = conditions.NewRequest("/", "POST", gptbot, "") }), Charged)
	want(other, "/", gptbot, Limited)
	want(other, "/", "CCBot/2", Allowed)
	want(one, "/trap", "CCBot/2", Limited) // the check that reaches the limit is refused itself
	want(other, "/", "CCBot/2", Limited)
	want(one, "/", "Claude-User/1", Allowed)
	want(other, "/", "Claude-User/1", Limited)
}

// What exempts the checks of a bot exempts its reports.
func TestReportsOfAnExemptBotCountNothing(t *testing.T) {
	n := newNode(t, policy(t, 1, "failures", "ip:*", "1/h", counts("login_failed")))
	withLists(t, n)
	n.set.Apply(&blocks.Entry{Kind: blocks.Exemption, ID: "e1", Pattern: pattern(t, "bot:openai/*")}, n.clock())
	as := func(r *Report) { r.Request = conditions.NewRequest("/login", "POST", gptbot, "") }
	if a := n.report(t, "ip:20.0.0.7", "login_failed", as); a.Exemption == nil || len(a.Policies) > 0 {
		t.Errorf("the report of the bot is counted: %+v", a)
	}
	wantReported(t, n.report(t, "ip:203.0.113.7", "login_failed", as), Charged)
}

// A key that is no address does not hide the address that a bot is verified by.
func TestBotIsVerifiedByTheAddressOfAnotherKey(t *testing.T) {
	n := newNode(t, policy(t, 1, "liars", "*", "0/1s", func(p *rules.Policy) {
		p.When, _ = conditions.Parse(conditions.Texts{"bot": {"openai/*"}, "verified": {"claimed"}})
	}), policy(t, 2, "gptbot", "bot:openai/gptbot", "1/m"))
	withLists(t, n)
	token := Check{Key: key(t, "token:a"), Cost: 1, Request: conditions.NewRequest("/", "GET", gptbot, "")}
	address := token
	address.Key, token.Address = key(t, "ip:20.0.0.7"), key(t, "ip:20.0.0.7")
	if d, err := n.Check(t.Context(), token); err != nil || d.Outcome != Allowed {
		t.Errorf("the token of a verified bot is %s, %v", d.Outcome, err)
	}
	n.advance(time.Minute)
	token.Address = key(t, "ip:203.0.113.7")
	if d, err := n.Check(t.Context(), token); err != nil || d.Outcome != Limited {
		t.Errorf("the token of a liar is %s, %v", d.Outcome, err)
	}
	token.Address = address.Address
	if c, err := n.DecideAll(t.Context(), []Check{token, address}); err != nil || c.Outcome != Allowed {
		t.Errorf("both keys of the bot are %s, %v", c.Outcome, err)
	}
}

// An exempt key beside others does not lift the limits and the evidence of the bot.
func TestAnExemptKeyDoesNotExemptTheBot(t *testing.T) {
	n := newNode(t, policy(t, 1, "gptbot", "bot:openai/gptbot", "2/m"), policy(t, 2, "weighed", "bot:commoncrawl/*", "1/h", suspicion(t, "20 path /trap")))
	withLists(t, n)
	n.set.Apply(&blocks.Entry{Kind: blocks.Exemption, ID: "e", Pattern: pattern(t, "token:a")}, n.clock())
	want := func(what, path, agent string, outcome Outcome) {
		t.Helper()
		if c := n.checkAll(t, []string{"token:a", "ip:20.0.0.7", "host:a"}, forPath(path, agent)); c.Outcome != outcome {
			t.Errorf("%s is %s, want %s", what, c.Outcome, outcome)
		}
	}
	for i, outcome := range []Outcome{Allowed, Allowed, Limited} {
		want(fmt.Sprint("request ", i), "/", gptbot, outcome)
	}
	want("a trap", "/trap", "CCBot/2", Limited)
	if x, err := n.Explain(t.Context(), key(t, "bot:commoncrawl/ccbot"), ""); err != nil || len(x.Conditional) != 1 || x.Conditional[0].Rules[0].Used != 20 {
		t.Errorf("the evidence is not charged once: %+v, %v", x.Conditional, err)
	}
}

// A request of a bot is recorded once, whichever of its keys refuses it.
func TestABotIsRecordedByTheKeyThatRefuses(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "tokens", "token:*", "1/m"))
	for range 3 {
		n.checkAll(t, []string{"host:a", "ip:20.0.0.7", "token:a"}, forPath("/", gptbot))
	}
	if got := n.recorded.bots; !slices.Equal(got, []Outcome{Allowed, Limited, Limited}) {
		t.Errorf("the requests of the bot are recorded as %v", got)
	}
}

// The address in a key of several values verifies the bot for all keys of the request.
func TestAKeyOfSeveralValuesGivesItsAddressToTheOthers(t *testing.T) {
	n := newNode(t, policy(t, 1, "liars", "token:*", "0/1s", func(p *rules.Policy) {
		p.When, _ = conditions.Parse(conditions.Texts{"bot": {"openai/*"}, "verified": {"claimed"}})
	}))
	withLists(t, n)
	for address, outcome := range map[string]Outcome{"20.0.0.7": Allowed, "203.0.113.7": Limited} {
		if c := n.checkAll(t, []string{"token:a", "ip+account:" + address + "|ada"}, forPath("/", gptbot)); c.Outcome != outcome {
			t.Errorf("from %s: %s, want %s", address, c.Outcome, outcome)
		}
	}
}

// A pass of a bot is counted by the policies of the bot that it lifts.
func TestAPassOfABotIsLimited(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "100/m", mode(rules.Off)), policy(t, 2, "bots", "bot:*", "2/m", challenging, func(p *rules.Policy) { p.Match = append(p.Match, pattern(t, "category:*")) }),
		policy(t, 3, "api", "bot:openai/*", "1/m", challenging, when(t, "/api", "")))
	withLists(t, n)
	want := func(id, path string, outcome Outcome) {
		t.Helper()
		if d := n.check(t, "ip:20.0.0.7", forPath(path, gptbot), withPass(t, id)); d.Outcome != outcome {
			t.Errorf("the pass %s at %s: %s, want %s", id, path, d.Outcome, outcome)
		}
	}
	for _, id := range []string{"a", "b"} {
		want(id, "/", Allowed)
		want(id, "/", Allowed)
		want(id, "/", Limited)
	}
	want("c", "/api", Allowed)
	want("c", "/api", Limited)
}

// A signature takes longer to verify than all else of a check, so that it is read only where what it says may
// matter.
func TestSignatureFromABlockedAddressIsNotRead(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "100/m"))
	const blocked, free, challenged = "ip:203.0.113.7", "ip:198.51.100.7", "ip:192.0.2.7"
	n.block(t, "b1", blocked, time.Time{})
	n.set.Apply(&blocks.Entry{Kind: blocks.Block, ID: "b2", Pattern: pattern(t, challenged), EntryTerms: wire.EntryTerms{Action: blocks.Challenge}}, n.clock())
	signed := func(c *Check) {
		c.Request = conditions.NewRequest("/", "GET", "", "").SayingSigned(&conditions.Signed{
			Input: []string{`sig1=("@authority");tag="web-bot-auth"`}, Signature: []string{"sig1=:AA==:"}, Agent: []string{`sig1="https://chatgpt.com"`},
		})
	}
	isRead := func(d Decision) bool { return d.Check.Request.Signed().Memo.Load() != nil }
	want := func(what, key string, outcome Outcome, read bool) {
		t.Helper()
		if d := n.check(t, key, signed); d.Outcome != outcome || isRead(d) != read {
			t.Errorf("%s: %s, and its signature is read: %v", what, d.Outcome, isRead(d))
		}
	}
	want("a free address", free, Allowed, true)
	want("a blocked one", blocked, Blocked, false)
	want("one that is challenged", challenged, Challenged, true)
	if c := n.checkAll(t, []string{"token:a", blocked}, signed); c.Outcome != Blocked || isRead(c.Decisions[0]) || isRead(c.Decisions[1]) {
		t.Errorf("one of several keys is blocked: %s, and a signature is read", c.Outcome)
	}
	exemption := &blocks.Entry{Kind: blocks.Exemption, ID: "e", Revision: 1, Pattern: pattern(t, "category:ai-user"), Expires: n.clock().Add(time.Minute)}
	n.set.Apply(exemption, n.clock())
	want("one of a bot that may be exempt", blocked, Blocked, true)
	n.advance(time.Minute)
	n.set.Sweep(n.clock())
	want("once the exemption has ended", blocked, Blocked, false)
}
