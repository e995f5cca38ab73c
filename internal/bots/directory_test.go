package bots

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
)

func agentIs(agent string) *conditions.Request { return conditions.NewRequest("", "", agent, "") }

func TestAgentIsTheOneWithTheLongestToken(t *testing.T) {
	for agent, want := range map[string]string{
		"Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)": "openai/gptbot",
		"Mozilla/5.0 (compatible; Googlebot/2.1)":                          "google/googlebot",
		"SemrushBot-OCOB/1": "semrush/semrushbot-ocob",
		"SemrushBot/7":      "semrush/semrushbot",
		"AdsBot-Google (+http://www.google.com/adsbot.html)":                "google/adsbot-google",
		"Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/": "",
		"": "",
	} {
		name := ""
		if a := FindByAgent(agentIs(agent)); a != nil {
			name = a.Name()
		}
		if name != want {
			t.Errorf("%s is %q, want %q", agent, name, want)
		}
	}
}

// Every check looks for a bot, and most have none.
func TestLookingForABotNeedsNoMemory(t *testing.T) {
	r, d := agentIs("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"), &Directory{}
	address, err := keys.Parser{}.Key("ip:203.0.113.7")
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { d.Describe(r, address, false, Use{}) }); n != 0 {
		t.Errorf("looking for the bot of a browser allocates %v times", n)
	}
}

func TestEveryAgentIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range Agents() {
		if a.Token != strings.ToLower(a.Token) || len(a.Token) < 4 || seen[a.Token] || !strings.HasPrefix(a.Operator.Docs, "https://") || a.Operator.Title == "" {
			t.Errorf("%s is not whole, or its token is there twice", a.Name())
		}
		seen[a.Token] = true
		for _, url := range a.Lists {
			if !strings.HasPrefix(url, "https://") {
				t.Errorf("%s has the list %s", a.Name(), url)
			}
		}
		if FindAgent(a.Name()) != a || FindByAgent(agentIs("x "+strings.ToUpper(a.Token)+"/1")) != a {
			t.Errorf("%s is not found", a.Name())
		}
		i := Identity{Agent: a, Verified: conditions.Claimed}
		if k := i.Keys(); k[0].String() != "bot:"+a.Name() || k[1].String() != "category:"+a.Category {
			t.Errorf("%s has the keys %s and %s", a.Name(), k[0], k[1])
		}
	}
}

// The list ai-crawlers has all bots of these categories, beside others of which nothing else is known.
func TestListOfCrawlersHasTheKnownOnes(t *testing.T) {
	when, err := conditions.Parse(conditions.Texts{"agent": {"@ai-crawlers"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Agents() {
		if (a.Category == "ai-training" || a.Category == "ai-user") && !when.Meets(agentIs("Mozilla/5.0 (compatible; "+a.Token+"/1.0)")) {
			t.Errorf("the list ai-crawlers lacks %s", a.Token)
		}
	}
}

// publisher has lists as operators publish them.
type publisher struct {
	body map[string]string // by address
	err  error
	same bool
}

func (p *publisher) download(_ context.Context, url, etag string) (io.ReadCloser, string, error) {
	switch {
	case p.err != nil:
		return nil, "", p.err
	case p.same && etag == "tag":
		return nil, etag, nil
	}
	text, found := p.body[url]
	switch {
	case found:
	case strings.HasSuffix(url, keysPath):
		text = `{"keys":[]}`
	default:
		text = `{"prefixes":[{"ipv4Prefix":"198.51.100.0/24"}]}`
	}
	return io.NopCloser(bytes.NewReader([]byte(text))), "tag", nil
}

const (
	gptbotList    = "https://openai.com/gptbot.json"
	googlebotList = "https://developers.google.com/static/crawling/ipranges/common-crawlers.json"
)

func prefixes(n int) string {
	var rows []string
	for i := range n {
		rows = append(rows, fmt.Sprintf(`{"ipv4Prefix":"20.0.%d.0/24"}`, i))
	}
	return `{"creationTime":"2026-11-01","prefixes":[` + strings.Join(rows, ",") + `,{"ipv6Prefix":"2600:1f00::/40"}]}`
}

func TestListsKeepTheLastGoodCopy(t *testing.T) {
	folder := t.TempDir()
	p := &publisher{body: map[string]string{gptbotList: prefixes(40)}}
	now := time.Now()
	lists := NewLists(folder, p.download, func() time.Time { return now })
	agent := FindAgent("openai/gptbot")
	inside, outside := netip.MustParseAddr("20.0.7.9"), netip.MustParseAddr("20.1.0.1")
	if got := lists.ask(agent, inside); got != unknown {
		t.Fatalf("before the first fetch a list says %v", got)
	}
	if _, err := lists.Pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		if lists.ask(agent, inside) != yes || lists.ask(agent, outside) != no || lists.ask(agent, netip.MustParseAddr("2600:1f00::1")) != yes {
			t.Errorf("%s the list of gptbot says something else", when)
		}
	}
	check("after the first fetch")
	for _, bad := range []string{prefixes(3), `{"prefixes":[]}`, "<html>", `{"prefixes":[{"ipv4Prefix":"10.0.0.0/8"}]}`, `{"prefixes":[{"ipv4Prefix":"0.0.0.0/0"}]}`, strings.Repeat(" ", maxListBytes+1)} {
		p.body[gptbotList] = bad
		if _, err := lists.Pull(t.Context()); err == nil || !strings.Contains(err.Error(), "gptbot") {
			t.Errorf("%.40s is taken: %v", bad, err)
		}
		check("after a bad one")
	}
	p.err = errors.New("unreachable")
	if _, err := lists.Pull(t.Context()); err == nil {
		t.Error("a fetch that failed has no error")
	}
	check("while nothing is reachable")
	lists = NewLists(folder, nil, time.Now)
	check("after a restart")
	for _, s := range lists.States() {
		if s.URL == gptbotList && (s.Prefixes != 41 || s.Fetched.IsZero() || s.Problem != "") {
			t.Errorf("the state is %+v", s)
		}
	}
	p.err, p.same, p.body[gptbotList] = nil, true, prefixes(40)
	lists = NewLists(folder, p.download, time.Now)
	for range 2 { // the second is the same
		if _, err := lists.Pull(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check("after the same list")
}

func TestListsComeFromFiles(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, fileOf(gptbotList)), []byte(prefixes(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	lists := NewLists(folder, nil, time.Now)
	ask := func(address string) answered {
		return lists.ask(FindAgent("openai/gptbot"), netip.MustParseAddr(address))
	}
	if ask("20.0.0.1") != yes {
		t.Error("a file that an operator put there is not read")
	}
	// The address is in the wide prefix only, behind many narrow ones.
	nested := `{"prefixes":[{"ipv4Prefix":"20.4.0.0/16"}`
	for i := range 200 {
		nested += fmt.Sprintf(`,{"ipv4Prefix":"20.4.%d.0/25"}`, i)
	}
	for text, isRead := range map[string]bool{nested + "]}": true, "{}": false} {
		file := filepath.Join(folder, fileOf(gptbotList))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(time.Duration(len(text))*time.Second)); err != nil {
			t.Fatal(err)
		}
		before := ask("20.4.250.1")
		if lists.Reread(); isRead && (ask("20.4.250.1") != yes || ask("20.0.0.1") != no) || !isRead && ask("20.4.250.1") != before {
			t.Errorf("after the file changed to %.20s, the list says %v and %v", text, ask("20.4.250.1"), ask("20.0.0.1"))
		}
	}
}

// A bot is what it says if one way says so, and lies if two ways say that it is another one.
func TestIdentityNeedsOneWayAndALieTwo(t *testing.T) {
	operators, err := ParseOperators("google")
	if err != nil {
		t.Fatal(err)
	}
	key := func(address string) keys.Key {
		k, err := keys.Parser{}.Key("ip:" + address)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	v := New(Options{Operators: operators, Now: time.Now})
	know := func(address, operator string) {
		a := netip.MustParseAddr(address)
		v.known[a] = answer{Crawler: Crawler{Address: a, Operator: operator}, until: time.Now().Add(time.Hour)}
	}
	know("66.249.66.1", "google")
	know("66.249.66.2", "")
	know("20.0.0.9", "")
	p := &publisher{body: map[string]string{googlebotList: `{"prefixes":[{"ipv4Prefix":"20.0.0.0/24"}]}`}}
	lists := NewLists("", p.download, time.Now)
	d := &Directory{Verifier: v, Lists: lists}
	google := agentIs("Googlebot/2.1")
	if got := d.Identify(google, key("66.249.66.2"), Use{}); got.Verified != conditions.Claimed {
		t.Errorf("one way says no, and it is %s", got.Verified)
	}
	if _, err := lists.Pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{"66.249.66.1": conditions.ByDNS, "20.0.0.9": conditions.ByList, "66.249.66.2": conditions.Spoofed, "66.249.66.3": conditions.Claimed} {
		if got := d.Identify(google, key(address), Use{}); got.Verified != want || got.Agent.Name() != "google/googlebot" {
			t.Errorf("%s is %s, want %s", address, got.Verified, want)
		}
	}
	// What DNS said holds while it is asked again.
	for _, address := range []string{"66.249.66.1", "66.249.66.2"} {
		a := netip.MustParseAddr(address)
		old := v.known[a]
		old.until = time.Now().Add(-time.Second)
		v.known[a] = old
	}
	for address, want := range map[string]string{"66.249.66.1": conditions.ByDNS, "66.249.66.2": conditions.Spoofed} {
		if got := d.Identify(google, key(address), Use{}); got.Verified != want || !v.known[netip.MustParseAddr(address)].waiting {
			t.Errorf("%s is %s while it is looked up again, want %s", address, got.Verified, want)
		}
	}
	if v.Waiting() != 3 {
		t.Errorf("%d addresses wait to be looked up, want the one that is not known and two again", v.Waiting())
	}
	if got := d.Identify(agentIs("ChatGPT-User/1.0"), key("66.249.66.2"), Use{}); got.Verified != conditions.Claimed {
		t.Errorf("a bot that may fetch from a user's device is %s", got.Verified)
	}
	if got := (&Directory{}).Identify(google, keys.Key{}, Use{}); got.Verified != conditions.Claimed || got.IsVerified() {
		t.Errorf("without an address it is %s", got.Verified)
	}
}

// A list whose file is deleted is none until it is fetched again, with as many prefixes as it then has.
func TestDeletingAFileBeginsItsListAnew(t *testing.T) {
	folder := t.TempDir()
	p := &publisher{body: map[string]string{gptbotList: prefixes(40)}}
	lists := NewLists(folder, p.download, time.Now)
	agent, inside := FindAgent("openai/gptbot"), netip.MustParseAddr("20.0.1.9")
	if _, err := lists.Pull(t.Context()); err != nil || lists.ask(agent, inside) != yes {
		t.Fatal("the list is not read", err)
	}
	forget := func() {
		t.Helper()
		if err := os.Remove(filepath.Join(folder, fileOf(gptbotList))); err != nil {
			t.Fatal(err)
		}
	}
	forget()
	if lists.Reread(); lists.ask(agent, inside) != unknown {
		t.Error("a list outlives its file")
	}
	if _, err := lists.Pull(t.Context()); err != nil || lists.ask(agent, inside) != yes {
		t.Errorf("it is not fetched again: %v", err)
	}
	p.body[gptbotList] = prefixes(3)
	if _, err := lists.Pull(t.Context()); err == nil {
		t.Error("a list that lost most of its prefixes is believed")
	}
	forget()
	if _, err := lists.Pull(t.Context()); err != nil || lists.ask(agent, netip.MustParseAddr("20.0.9.9")) != no {
		t.Errorf("the list does not begin again: %v", err)
	}
}
