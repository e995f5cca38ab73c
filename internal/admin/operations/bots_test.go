package operations

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/keytest"
)

// decisions is a node's copy of what decides about bots.
type decisions struct {
	set      *blocks.Set
	selector *rules.Selector
}

func (d decisions) Blocks() *blocks.Set       { return d.set }
func (d decisions) Selector() *rules.Selector { return d.selector }

// robots.txt asks the bots that are refused wholly to stay away, and says nothing of others.
func TestRobotsNameWhatIsRefusedWholly(t *testing.T) {
	refusing := func(match string, when conditions.Texts, rule string) *rules.Policy {
		p := &rules.Policy{ID: 1, Name: "p", Match: []keys.Pattern{keytest.Pattern(t, match)}, Mode: rules.Enforce}
		var err error
		if p.Rules, err = rules.ParseStack([]string{rule}); err == nil {
			p.When, err = conditions.Parse(when)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	now, directory := time.Now(), withLists(t)
	for name, c := range map[string]struct {
		block, exemption string
		policy           *rules.Policy
		isRefused        bool // of gptbot
	}{
		"nothing":                {},
		"a block":                {block: "bot:openai/gptbot", isRefused: true},
		"a block of a category":  {block: "category:ai-training", isRefused: true},
		"a block of liars":       {block: "bot:openai/gptbot/claimed"},
		"an exempt bot":          {block: "category:ai-training", exemption: "bot:openai/*"},
		"a policy":               {policy: refusing("bot:openai/*", nil, "0/1s"), isRefused: true},
		"a limit":                {policy: refusing("bot:openai/*", nil, "5/1s")},
		"conditions":             {policy: refusing("ip:*", conditions.Texts{"category": {"ai-training"}}, "0/1s"), isRefused: true},
		"conditions beside it":   {policy: refusing("bot:openai/gptbot", conditions.Texts{"bot": {"openai/*"}}, "0/1s"), isRefused: true},
		"a limit by conditions":  {policy: refusing("ip:*", conditions.Texts{"category": {"ai-training"}}, "5/1s")},
		"conditions on liars":    {policy: refusing("ip:*", conditions.Texts{"category": {"ai-training"}, "verified": {"claimed"}}, "0/1s")},
		"conditions on paths":    {policy: refusing("bot:openai/*", conditions.Texts{"path": {"/private/*"}}, "0/1s")},
		"conditions of networks": {policy: refusing("ip:203.0.113.0/24", conditions.Texts{"category": {"ai-training"}}, "0/1s")},
	} {
		set := blocks.NewSet()
		for kind, text := range map[blocks.Kind]string{blocks.Block: c.block, blocks.Exemption: c.exemption} {
			if text != "" {
				set.Apply(&blocks.Entry{Kind: kind, ID: string(kind), Pattern: keytest.Pattern(t, text), EntryTerms: wire.EntryTerms{Action: blocks.Refuse}}, now)
			}
		}
		var policies []*rules.Policy
		if c.policy != nil {
			policies = append(policies, c.policy)
		}
		b := &Bots{Store: requests{}, Directory: directory, View: decisions{set, rules.NewSelector(policies)}, Now: time.Now}
		got, err := b.Seen(t.Context(), admin.Caller{}, wire.BotsSeen{})
		if err != nil {
			t.Fatal(err)
		}
		if isRefused := strings.Contains(got.Robots, "User-agent: gptbot\n"); isRefused != c.isRefused || isRefused && !strings.Contains(got.Robots, "\nDisallow: /\n") || strings.Contains(got.Robots, "*") {
			t.Errorf("%s: robots.txt is %s", name, got.Robots)
		}
	}
}

// withLists returns a directory with the list of addresses 20.0.0.0/24 for all bots whose operators publish one.
func withLists(t *testing.T) *bots.Directory {
	t.Helper()
	lists := bots.NewLists("", func(context.Context, string, string) (io.ReadCloser, string, error) {
		return io.NopCloser(strings.NewReader(`{"prefixes":[{"ipv4Prefix":"20.0.0.0/24"}],"keys":[]}`)), "", nil
	}, time.Now)
	if _, err := lists.Pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &bots.Directory{Lists: lists}
}

// requests are what was requested; a second table cannot be read.
type requests struct {
	*breakdown.Table
	err error
}

// Breakdowns implements BotsStore.
func (r requests) Breakdowns(_ context.Context, _, from, to time.Time, _ time.Duration, begin func(offences.TrafficSeries), do func(time.Time, *breakdown.Table) error) error {
	if r.err != nil || r.Table == nil {
		return r.err
	}
	begin(offences.TrafficSeries{Span: offences.Span{From: from, To: to}})
	if err := do(from, r.Table); err != nil {
		return err
	}
	return do(from, nil)
}

var botDimension, _ = breakdown.Find("bot")

func count(in *breakdown.Table, bot, verified string, c breakdown.Counts) {
	var values breakdown.Values
	at, _ := breakdown.Find("verified")
	values[botDimension], values[at] = bot, verified
	in.Row(values).Add(c)
}

// What came of a bot has the pattern that selects it: a block beside those who lie must not refuse the bot.
func TestSeenBotsHaveTheirPatterns(t *testing.T) {
	var table breakdown.Table
	b := &Bots{Store: requests{&table, nil}, Directory: withLists(t), View: decisions{blocks.NewSet(), rules.NewSelector(nil)}, Now: time.Now}
	for agent, address := range map[string]string{"GPTBot/1": "ip:20.0.0.1", "gptbot/2": "ip:203.0.113.1", "Bytespider": "ip:203.0.113.1", "Baiduspider": "ip:203.0.113.1"} {
		i := b.Directory.Identify(conditions.NewRequest("/", "", agent, ""), keytest.Key(t, address), bots.Use{})
		count(&table, i.Agent.Name(), i.Verified, breakdown.Counts{Allowed: 2, Blocked: 1, Unavailable: 1, Reported: 5})
	}
	count(&table, "", "", breakdown.Counts{Allowed: 99})
	count(&table, "meta/facebookbot", conditions.Claimed, breakdown.Counts{Reported: 1}) // a report is no check
	table.AddRest(botDimension, "openai/gptbot", breakdown.Counts{Limited: 3})
	table.AddRest(botDimension, "", breakdown.Counts{Limited: 9})
	table.AddRest(botDimension, "nobody/knows", breakdown.Counts{Limited: 9})
	table.Rest[botDimension].Other = breakdown.Counts{Allowed: 5}
	got, err := b.Seen(t.Context(), admin.Caller{}, wire.BotsSeen{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Unread != 1 || got.Since.IsZero() || len(got.Items) != 5 {
		t.Errorf("got %+v", got.Items)
	}
	if want := int64(4*4 + 99 + 3 + 9 + 9 + 5); got.Requests != want {
		t.Errorf("%d requests, want %d", got.Requests, want)
	}
	if first, last := got.Items[0], got.Items[4]; first.Requests != 4 || first.Refused != 2 || last.Bot != "openai/gptbot" || last.Verified != "unknown" || last.Requests != 3 || last.Refused != 3 || last.Pattern != "bot:openai/gptbot" {
		t.Errorf("the first is %+v, the last %+v", first, last)
	}
	b.Store = requests{nil, errors.New("the database is gone")}
	if _, err := b.Seen(t.Context(), admin.Caller{}, wire.BotsSeen{}); err == nil {
		t.Error("nothing is read, and no error")
	}
	patterns := map[string]string{}
	for _, one := range got.Items {
		patterns[one.Bot+" "+one.Verified] = one.Pattern
	}
	for of, want := range map[string]string{"openai/gptbot list": "bot:openai/gptbot", "openai/gptbot claimed": "bot:openai/gptbot/claimed", "bytedance/bytespider claimed": "bot:bytedance/bytespider",
		"baidu/baiduspider claimed": "bot:baidu/baiduspider"} {
		if patterns[of] != want {
			t.Errorf("%s has the pattern %q, want %q", of, patterns[of], want)
		}
	}
}
