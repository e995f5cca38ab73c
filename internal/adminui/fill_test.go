package adminui_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/keytest"
)

// hostile are texts with which attackers try to run scripts or break a page.
var hostile = []string{
	`"><script>alert(1)</script>`,
	`<img src=x onerror=alert(1)>`,
	`'-alert(1)-'`,
	`{{.CSRF}}`,
	"\u202Egnp.exe",
	strings.Repeat("W", 400),
	"z\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307",
	`javascript:alert(1)//`,
}

var pattern = keytest.Pattern

func stack(t testing.TB, texts ...string) rules.Stack {
	t.Helper()
	s, err := rules.ParseStack(texts)
	must(t, err)
	return s
}

func (n *node) block(t testing.TB, text, reason, author string, source blocks.Source, after time.Duration) *blocks.Entry {
	t.Helper()
	b := blocks.Entry{Kind: blocks.Block, Pattern: pattern(t, text), Reason: reason, Author: author, Source: source}
	if after > 0 {
		b.Expires = n.clock.Now().Add(after)
	}
	if source == blocks.Automatic {
		b.PolicyID, b.Level = 1, 3
	}
	added, err := n.store.Entries.Add(context.Background(), audit.Actor{Kind: audit.User, Name: author}, blocks.Fail, b)
	must(t, err)
	return added[0].Entry
}

// fill adds data for every page, with hostile texts.
func (n *node) fill(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	maria := audit.Actor{Kind: audit.User, Name: "maria", Address: "192.0.2.44"}
	before, err := n.store.Policies.FindPolicyByName(ctx, "default")
	must(t, err)
	for _, texts := range [][]string{{"2/s", "20/m", "200/h", "800/d"}, {"1/s", "20/m", "200/h", "800/d", "6000/7d"}} {
		changed := *before
		changed.Rules = stack(t, texts...)
		changed.Escalation = &rules.Escalation{Threshold: 25000, Window: 10 * time.Minute, Duration: time.Hour, Factor: 2, MaxDuration: 72 * time.Hour, DecayAfter: 48 * time.Hour}
		_, err = n.store.Policies.PutPolicy(ctx, maria, &changed, etag.Any)
		must(t, err)
		n.clock.advance(26 * time.Hour)
	}
	n.block(t, "ip:192.0.2.64/27", "Abuse list of 14 Nov", "import 14 Nov", blocks.Imported, 23*24*time.Hour)
	n.block(t, "ip:198.51.100.250", "Price scraper", "maria", blocks.Manual, 90*time.Hour)
	n.block(t, "ip:2001:db8:51::/48", "9 of its /64s offended, accepted by maria", "maria", blocks.Manual, 3*time.Hour+37*time.Minute)
	n.block(t, "ip:198.51.100.128/26", "Hosting range, price scraper since July", "maria", blocks.Manual, 7*24*time.Hour)
	n.block(t, "token:partner_7d1b9e0aa83c1f4a6b0d55e1", "Leaked in a public repository, owner informed", "jo", blocks.Manual, 0)
	for i, text := range hostile {
		n.block(t, "token:"+strings.ReplaceAll(text, "*", ""), text, hostile[(i+1)%len(hostile)], blocks.Manual, time.Duration(i+1)*time.Hour)
	}
	for _, text := range hostile {
		key := "token:" + strings.ReplaceAll(text, "*", "")
		_, err := n.store.Profiles.PutProfile(context.Background(), audit.Actor{Kind: audit.User, Name: "jo"}, profiles.Profile{Key: key, Plan: "gold", Labels: []string{"region=eu", "vip"}, Note: text}, etag.Any)
		must(t, err)
		_, err = n.store.Profiles.PutLimit(context.Background(), audit.Actor{Kind: audit.User, Name: text}, key, &profiles.Limit{Rules: stack(t, "5/s", "1000/d"), Reason: text, Expires: n.clock.Now().Add(time.Hour)})
		must(t, err)
	}
	n.clock.advance(time.Minute)
	n.block(t, "ip:203.0.113.94", "Refused 25,000 times in 10 min by 20/1m", "escalation", blocks.Automatic, 3*time.Hour+52*time.Minute)
	n.block(t, "ip:203.0.113.12", "Refused 25,000 times in 10 min by 20/1m", "escalation", blocks.Automatic, 3*time.Hour+49*time.Minute)
	for _, e := range []blocks.Entry{
		{Kind: blocks.Exemption, Pattern: pattern(t, "ip:198.51.100.250"), Reason: "Our own monitoring", Author: "jo"},
		{Kind: blocks.Exemption, Pattern: pattern(t, "token:"+hostile[0]), Reason: hostile[1], Author: hostile[4], Expires: n.clock.Now().Add(time.Hour)},
	} {
		_, err := n.store.Entries.Add(ctx, maria, blocks.Fail, e)
		must(t, err)
	}
	for name, p := range map[string]rules.Policy{
		"login":    {Match: []keys.Pattern{pattern(t, "token:login_*")}, Rules: stack(t, "10/m"), Mode: rules.Enforce, Algorithm: algorithms.LeakyBucket, Options: algorithms.Options{Burst: 4, Variant: algorithms.VariantQueue}},
		"partners": {Match: []keys.Pattern{pattern(t, "token:partner_*"), pattern(t, "token:"+hostile[0])}, Rules: stack(t, "5/10s"), Mode: rules.Shadow},
	} {
		p.Name, p.OnFailure = name, rules.FailLocal
		if p.Algorithm == "" {
			p.Algorithm = algorithms.TimestampLog
		}
		_, err = n.store.Policies.PutPolicy(ctx, maria, &p, etag.New)
		must(t, err)
	}
	for name, scopes := range map[string][]identity.Access{"edge": {identity.Check}, hostile[0]: {identity.Read, identity.Operate}} {
		secret := identity.NewSecret(scopes)
		_, err = n.store.Identities.AddToken(ctx, maria, identity.Token{Name: name, Hint: secret.Hint, Hash: secret.Hash[:], Scopes: scopes, Author: hostile[1], Expires: n.clock.Now().Add(time.Hour)})
		must(t, err)
	}
	_, err = n.store.Identities.AddUser(ctx, maria, identity.User{Name: hostile[1], Role: identity.Viewer, PasswordHash: hashed()})
	must(t, err)
	n.block(t, "ip:203.0.113.201", "Scraping the product pages", "maria", blocks.Manual, 24*time.Hour)
	n.sendCrowd(t)
}

// sendCrowd sends checks from a whole network: a few of its ranges offend,
// the others are normal clients.
func (n *node) sendCrowd(t testing.TB) {
	t.Helper()
	var all []string
	for i := range 61 {
		for range 4 + 90/(i+1) {
			all = append(all, fmt.Sprintf("ip:198.51.100.%d", i*4+2))
		}
	}
	for range 12 {
		all = append(all, "ip:198.51.101.9", "ip:198.51.117.4")
	}
	random := uint64(7)
	for range 90 {
		random = random*6364136223846793005 + 1442695040888963407
		for host := range 1 + random>>60 {
			all = append(all, fmt.Sprintf("ip:198.51.%d.%d", 128+random>>33&127, len(all)%200+int(host)))
		}
	}
	n.send(t, all...)
	n.scan(t, 0)
	n.clock.advance(2 * time.Minute) // the minute must be over
	n.flush(t)
}

var (
	menuOfAdministration = regexp.MustCompile(`(?s)<p class="nav-name">Administration</p>(.*?)</div>`)
	menuLink             = regexp.MustCompile(`class="nav-link" href="/([a-z-]+)"`)
)

// pages are the paths of all pages, by a name for the file of a screenshot: those of the menu's group Administration, and
// those below, which need more than their path. monitorPages has the pages of traffic.
func (n *node) pages(t testing.TB) map[string]string {
	t.Helper()
	found, err := n.store.Entries.Find(context.Background(), blocks.Filter{Kind: blocks.Block, At: n.clock.Now(), Search: "Hosting"})
	must(t, err)
	pages := map[string]string{
		"login": "/login", "start": "/start", "blocks": "/blocks", "blocks-edit": "/blocks?edit=" + found.Items[0].ID, "blocks-empty": "/blocks?q=nothing+like+it",
		"blocks-add": "/blocks/new?pattern=ip:198.51.0.0/16&reason=" + "hosting", "blocks-import": "/blocks/import", "exemptions": "/exemptions", "exemptions-add": "/exemptions/new", "exemptions-import": "/exemptions/import",
		"audit-open": "/audit?object=policy&open=" + n.lastEntry(t), "channel": "/notifications/channels", "bots": "/bots", "keys": "/keys?plan=gold", "keys-import": "/keys/import", "origins": "/offenders/origins?by=country", "origins-key": "/key?key=ip:203.0.113.2", "tokens-delete": "/tokens?delete=" + n.tokenID(t, hostile[0]), "connect-node": "/connect/node", "users-edit": "/users?edit=" + n.userID(t, "olu"),
		"policies": "/policies", "policies-found": "/policies?q=log&order=updated", "policies-none": "/policies?q=nothing+like+it", "policy": "/policies/default?compare=1", "policy-new": "/new-policy", "lists": "/lists", "presets": "/presets/website", "presets-traps": "/presets/traps?mode=shadow", "policy-queue": "/policies/login",
	}
	menu := menuOfAdministration.FindString(n.as(t, "maria").get("/settings").body)
	for _, link := range menuLink.FindAllStringSubmatch(menu, -1) {
		pages[link[1]] = "/" + link[1]
	}
	return pages
}

func (n *node) lastEntry(t testing.TB) string {
	t.Helper()
	found, err := n.store.Audit.FindRecords(context.Background(), audit.Filter{Object: "policy", ObjectID: "default", Limit: 1})
	must(t, err)
	return strconv.FormatInt(found.Records[0].ID, 10)
}

func (n *node) tokenID(t testing.TB, name string) string {
	t.Helper()
	all, err := n.store.Identities.Tokens(context.Background())
	must(t, err)
	return all[slices.IndexFunc(all, func(t *identity.Token) bool { return t.Name == name })].ID
}

func (n *node) userID(t testing.TB, name string) string {
	t.Helper()
	u, err := n.store.Identities.FindUserByName(context.Background(), name)
	must(t, err)
	return u.ID
}
