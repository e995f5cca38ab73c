package gate

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/rules"
)

const gptbot = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"

// withLists gives n the list of addresses 20.0.0.0/24 for all bots whose operators publish one.
func withLists(t *testing.T, n *node) {
	t.Helper()
	n.bots.Lists = bots.NewLists("", func(context.Context, string, string) (io.ReadCloser, string, error) {
		return io.NopCloser(strings.NewReader(`{"prefixes":[{"ipv4Prefix":"20.0.0.0/24"}]}`)), "", nil
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
	n := newNode(t, policy(t, 1, "default", "*", "100/m"), policy(t, 2, "weighed", "ip:*", "1/h", suspicion(t, "20 outcome bot_spoofed")), policy(t, 3, "counted", "ip:*", "1/h", counts(conditions.BotSpoofed)))
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
	if err != nil || len(x.Conditional) != 2 || x.Conditional[0].Allowed || x.Conditional[1].Allowed {
		t.Errorf("both policies should be full: %+v, %v", x, err)
	}
}
