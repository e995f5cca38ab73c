package operations

import (
	"cmp"
	"context"
	"io/fs"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/docs/doors"
	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/wire"
)

// Connect shows how to connect gateways to this installation. Its texts and configurations come
// from docs/doors.
type Connect struct {
	Tokens      *identities.Tokens
	CheckURL    string // of the check listener
	TokenHeader string // header in which proxies send their token
	NeedsToken  bool   // the check listener requires a token
	JA4Header   string // header in which proxies send the fingerprint of their client's TLS, "" for none
	// HasSiteHosts reports that --site-hosts says for which hosts bots sign their requests.
	HasSiteHosts bool
	// Pathless returns the name of a policy that applies by paths, and when a gateway last asked this
	// node without the path of its client's request: "" if none did. nil means "".
	Pathless func() (policy string, last time.Time)
	// Asked returns the attributes of requests that policies look at; nil for none.
	Asked func() []conditions.Attribute
	// LastAsked returns when a gateway last asked this node by /v1/forward, zero for never. nil means
	// that this is not known.
	LastAsked func() time.Time
	// Counts reports that no policy enforces a limit yet. nil means that this is not known.
	Counts func() bool
	// Trusted returns the proxies whose header is trusted, "" for none. nil means none.
	Trusted func() string
}

// AskedBy returns the attributes of requests that policies look at, and what bots are identified by if any
// block or exemption is about bots.
func AskedBy(v BotsView, now time.Time) []conditions.Attribute {
	all, set := v.Selector().Asked(), v.Blocks()
	for _, a := range bots.Agents() {
		i := bots.Identity{Agent: a, Verified: conditions.Spoofed}
		for _, key := range slices.Concat(i.Keys(), i.CountedKeys()) {
			if match := set.Match(key, now); match.Block == nil && match.Exemption == nil {
				continue
			}
			for _, needed := range append([]conditions.Attribute{conditions.Agent}, conditions.SignatureHeaders()...) {
				if !slices.Contains(all, needed) {
					all = append(slices.Clip(all), needed)
				}
			}
			return all
		}
	}
	return all
}

// Gateways returns the gateways in the order of their names.
func (c *Connect) Gateways() []wire.Gateway {
	files, err := fs.Glob(doors.Pages, "*.md")
	if err != nil { // cannot happen: the pattern is valid
		return nil
	}
	var all []wire.Gateway
	for _, file := range files {
		if name := strings.TrimSuffix(file, ".md"); name != "README" {
			all = append(all, wire.Gateway{Name: name, Title: titleOf(readPage(name))})
		}
	}
	return all
}

// Guide returns the guide of a gateway without a token. host is the name by which the caller
// reached this node, with or without a port. The guide uses it if the check listener listens on
// all addresses.
func (c *Connect) Guide(name, host string) (wire.Guide, error) {
	var names []string
	for _, g := range c.Gateways() {
		names = append(names, g.Name)
	}
	if !slices.Contains(names, name) {
		return wire.Guide{}, fault.New(fault.NotFound, "There is no gateway %q; there are %s.", name, strings.Join(names, ", "))
	}
	return c.guide(name, host, nil), nil
}

// CreateToken creates a token with the scope that the gateway needs, named after it. It returns
// the guide with the token.
func (c *Connect) CreateToken(ctx context.Context, by admin.Caller, name, host string) (wire.Guide, error) {
	g, err := c.Guide(name, host)
	if err != nil {
		return g, err
	}
	for n := 1; ; n++ {
		free := name
		if n > 1 {
			free += "-" + strconv.Itoa(n)
		}
		made, err := c.Tokens.Create(ctx, by, wire.TokenRequest{Name: free, Scopes: []string{g.Scope}})
		if err == nil {
			return c.guide(name, host, &made), nil
		}
		if !fault.Is(err, fault.Conflict) || n == maxSameName {
			return g, err
		}
	}
}

// WritesToken reports whether a configuration of the guide of a gateway has a new token in it.
// Others read the token from a file or a variable.
func (c *Connect) WritesToken(name string) bool {
	const secret = "stint_check_of_no_token"
	g := c.guide(name, "", &wire.CreatedToken{Token: wire.Token{Name: name}, Secret: secret})
	return slices.ContainsFunc(g.Steps, func(s wire.GuideStep) bool { return strings.Contains(s.Config, secret) })
}

// doorsPage is where the page of a gateway is.
const doorsPage = "docs/doors/"

// maxSameName bounds the number in the names of a gateway's tokens.
const maxSameName = 100

func readPage(name string) string {
	text, err := fs.ReadFile(doors.Pages, name+".md")
	if err != nil { // cannot happen: every name comes from the folder
		return ""
	}
	return string(text)
}

func titleOf(page string) string {
	title, _, _ := strings.Cut(page, "\n")
	return strings.TrimPrefix(title, "# ")
}

var neededScope = regexp.MustCompile(`--scope (\w+)`)

func (c *Connect) guide(name, host string, token *wire.CreatedToken) wire.Guide {
	page := readPage(name)
	g := wire.Guide{Gateway: wire.Gateway{Name: name, Title: titleOf(page)}, Scope: "check", NeedsToken: c.NeedsToken, Token: token, Needs: []string{}}
	var chosen []string // what gateways that send chosen headers must be configured to send
	if c.Asked != nil {
		for _, a := range c.Asked() {
			if a.IsFound() {
				continue
			}
			g.Needs = append(g.Needs, a.String())
			if source, _ := a.Source(); source == "header" || source == "cookie" {
				chosen = append(chosen, a.String())
			}
			if a == conditions.JA4 && c.JA4Header != "" {
				chosen = append(chosen, conditions.Header(c.JA4Header).String())
			}
		}
	}
	if found := neededScope.FindStringSubmatch(page); found != nil {
		g.Scope, g.NeedsToken = found[1], true
	}
	var lastAsked string // by a gateway, "" for never or not known
	if c.LastAsked != nil {
		text := "No gateway has asked this node by `/v1/forward` since its start."
		if at := c.LastAsked(); !at.IsZero() {
			lastAsked = "A gateway last asked this node by `/v1/forward` at `" + second(at) + "`."
			text = lastAsked
		}
		if strings.Contains(page, "/v1/forward") {
			g.Steps = append(g.Steps, wire.GuideStep{Text: text})
		}
	}
	if c.Pathless != nil && strings.Contains(page, "/v1/forward") {
		if policy, last := c.Pathless(); policy != "" {
			g.Steps = append(g.Steps, wire.GuideStep{Text: "A gateway last asked without the path of its client's request at `" + second(last) + "`. The policy `" + policy +
				"` has paths and never applies to such a request: let the gateway send `X-Forwarded-Uri` or `X-Original-URL`, and be among `--trusted-proxies`."})
		}
	}
	if slices.Contains(g.Needs, conditions.Header(conditions.SignatureAgent).String()) && !c.HasSiteHosts {
		g.Steps = append(g.Steps, wire.GuideStep{Text: "Policies or blocks are about bots, and some bots sign their requests. No signature verifies a bot before the setting `--site-hosts` names the hosts of your sites, for example `--site-hosts www.example.com`."})
	}
	if slices.Contains(g.Needs, conditions.JA4.String()) && strings.Contains(page, "/v1/forward") {
		text := "Policies look at the JA4 fingerprint of TLS, and no header has it: name that of your gateway by `--ja4-header`."
		if c.JA4Header != "" {
			text = "Policies look at the JA4 fingerprint of TLS: the gateway must set the header `" + c.JA4Header + "` to it, in place of what its client sends."
		}
		g.Steps = append(g.Steps, wire.GuideStep{Text: text})
	}
	if len(chosen) > 0 && strings.Contains(page, "`sends=") {
		g.Steps = append(g.Steps, wire.GuideStep{Text: "Policies look at headers or cookies, of which this gateway sends only those of its configuration: write `sends=" + strings.Join(chosen, ",") +
			"` into the query of `/v1/forward`, as " + doorsPage + name + ".md says. Nothing else is taken for missing."})
	}
	steps := stepsOf(name, page)
	if at := slices.IndexFunc(steps, isFollow); at > 0 && lastAsked != "" { // its requests must not be charged twice
		if next := at + 1 + slices.IndexFunc(steps[at+1:], isFollow); next > at+1 {
			steps = slices.Delete(steps, next-1, next+1)
		}
		steps = slices.Insert(steps, at, wire.GuideStep{Text: lastAsked + " Leave `--outcomes-only` out only for the log of a site that it does not protect."})
	}
	if c.Counts != nil && !c.Counts() {
		steps = slices.DeleteFunc(steps, func(s wire.GuideStep) bool { return strings.HasPrefix(s.Text, chooseFirst) })
	}
	g.Steps = append(g.Steps, steps...)
	for i := range g.Steps {
		if c.Trusted != nil && c.Trusted() != "" {
			g.Steps[i].Text = trustGateway.ReplaceAllString(g.Steps[i].Text, "Stint trusts the proxies `"+c.Trusted()+"`: the address of $1 must be among them.")
		}
		g.Steps[i].Text = strings.ReplaceAll(g.Steps[i].Text, documentedURL, c.checkURL(host).String())
		if token != nil {
			g.Steps[i].Text = createToken.ReplaceAllString(g.Steps[i].Text, "Write the secret of the token `"+token.Name+"` into $1, readable by root only.")
		}
		g.Steps[i].Config = c.adapt(g.Steps[i].Config, host, token)
	}
	return g
}

// isFollow reports whether a step is the command that follows an access log.
func isFollow(s wire.GuideStep) bool { return strings.HasPrefix(s.Config, followCommand) }

// stepsOf returns the sections of a gateway's page with a minimal configuration or, if there are
// none, the text before the first section.
func stepsOf(name, page string) []wire.GuideStep {
	introduction, _, _ := strings.Cut(page, "\n## ")
	_, introduction, _ = strings.Cut(introduction, "\n")
	var steps []wire.GuideStep
	for _, section := range heading.Split(page, -1)[1:] {
		head, body, _ := strings.Cut(section, "\n")
		of := minimal.FindStringSubmatch(head)
		if of == nil {
			continue
		}
		if of[1] != "" {
			steps = append(steps, wire.GuideStep{Text: of[1] + ":"})
		}
		steps = appendSteps(steps, name, body)
	}
	if steps == nil {
		steps = appendSteps(nil, name, introduction)
	}
	return steps
}

var (
	heading = regexp.MustCompile(`\n##+ `)
	// minimal matches the heading of a minimal configuration, and what it is for.
	minimal = regexp.MustCompile(`^(.*?)[:, ]*(?i:minimal)(?: configuration)?$`)
	fence   = regexp.MustCompile("(?s)```\\w+\n(.*?)```")
	link    = regexp.MustCompile(`\[([^]]*)\]\(([^)#]*)[^)]*\)`)
	// emphasis matches a text between stars, which names no pattern of keys.
	emphasis = regexp.MustCompile(`(^|[\s(])\*{1,2}(\w[^*\x60]*)\*{1,2}`)
	item     = regexp.MustCompile(`\n(\d+\. )`)
)

// unlink names the file to which each link of a gateway's page leads.
func unlink(name, text string) string {
	return link.ReplaceAllStringFunc(text, func(found string) string {
		parts := link.FindStringSubmatch(found)
		words, target := parts[1], cmp.Or(parts[2], name+".md")
		switch {
		case strings.Contains(target, "://"):
			return words
		case words == target:
			return "`" + path.Join(doorsPage, target) + "`"
		}
		return words + " (`" + path.Join(doorsPage, target) + "`)"
	})
}

// appendSteps appends the paragraphs and configurations of a text from a gateway's page.
func appendSteps(steps []wire.GuideStep, name, text string) []wire.GuideStep {
	for text != "" {
		before, config := text, ""
		at := fence.FindStringSubmatchIndex(text)
		if at != nil {
			before, config, text = text[:at[0]], text[at[2]:at[3]], text[at[1]:]
		} else {
			text = ""
		}
		before = item.ReplaceAllString(emphasis.ReplaceAllString(unlink(name, before), "$1$2"), "\n\n$1")
		for _, paragraph := range strings.Split(before, "\n\n") {
			if paragraph = strings.Join(strings.Fields(paragraph), " "); paragraph != "" && paragraph[0] != '|' { // skip tables
				steps = append(steps, wire.GuideStep{Text: paragraph})
			}
		}
		if config != "" {
			steps = append(steps, wire.GuideStep{Config: config})
		}
	}
	return steps
}

// The addresses and the token header in docs/doors.
const (
	documentedURL         = "http://127.0.0.1:8080"
	documentedHost        = "127.0.0.1:8080"
	documentedTokenHeader = "X-Stint-Token"
)

// loadScript is the beginning of HAProxy's line that loads its script, which sends the token in
// the documented header unless its environment names another.
const loadScript = "    lua-load "

// chooseFirst is the beginning of the paragraph that matters as long as no policy enforces a limit.
const chooseFirst = "First choose what is protected"

// second shows a time to the second.
func second(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }

// trustGateway matches the sentence that asks for --trusted-proxies, and whose address it needs.
var trustGateway = regexp.MustCompile("Start Stint with `--trusted-proxies[^`]*` [^)]*\\), so that it trusts the address that (\\w+) sends\\.")

// createToken matches the step that creates a token and says in which file it belongs.
var createToken = regexp.MustCompile("Create a token[^,]*, and write the secret that is printed into (`[^`]+`), readable by root only[.:].*")

// stintCluster is how the configurations of Envoy name the service that they call over gRPC.
const stintCluster = "{envoy_grpc: {cluster_name: stint}"

// fail2banAction is the line that names the action of fail2ban. The action ends the blocks that
// were added by the token of the name in author, fail2ban if none is given.
const fail2banAction = "action = stint\n"

// followCommand is the beginning of the command on the page about access logs.
const followCommand = "stint-admin follow /var/log/nginx/access.log --check-url"

// emptyToken matches the places for a token in a configuration.
var emptyToken = regexp.MustCompile(`(?i)(X-Stint-Token(?:, value)?:? ["']|Bearer |WithToken\("|token: ["'])(["'])`)

// adapt writes this installation's addresses and a token into a configuration from docs/doors.
func (c *Connect) adapt(config, host string, token *wire.CreatedToken) string {
	if token != nil {
		config = strings.ReplaceAll(config, "new Stint('"+documentedURL+"')", "new Stint('"+documentedURL+"', { token: '' })")
		// These have a placeholder instead of an empty token.
		config = strings.NewReplacer("X-Stint-Token none", "X-Stint-Token "+token.Secret, "api_key: SECRET", "api_key: "+token.Secret,
			followCommand, "STINT_CHECK_TOKEN="+token.Secret+" "+followCommand,
			stintCluster, stintCluster+`, initial_metadata: [{key: authorization, value: "Bearer `+token.Secret+`"}]`).Replace(config)
		if token.Name != "fail2ban" {
			config = strings.ReplaceAll(config, fail2banAction, `action = stint[author="`+token.Name+`"]`+"\n")
		}
		config = emptyToken.ReplaceAllString(config, "${1}"+token.Secret+"${2}")
	}
	check := c.checkURL(host)
	plain := check.Host
	if check.Scheme == "https" {
		plain = check.String() // Caddy and nginx use TLS if the URL says so
	}
	if c.TokenHeader != documentedTokenHeader {
		config = strings.ReplaceAll(config, loadScript, "    setenv STINT_TOKEN_HEADER "+c.TokenHeader+"\n"+loadScript)
	}
	return strings.NewReplacer(
		documentedURL, check.String(), "server "+documentedHost, "server "+check.Host, documentedHost, plain,
		"http://stint/", check.Scheme+"://stint/",
		documentedTokenHeader, c.TokenHeader, "x-stint-token", strings.ToLower(c.TokenHeader),
	).Replace(config)
}

// checkURL returns the URL by which others reach the check listener.
func (c *Connect) checkURL(host string) *url.URL {
	u, err := url.Parse(c.CheckURL)
	if err != nil || u.Host == "" {
		u = &url.URL{Scheme: "http", Host: documentedHost}
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() && isHost.MatchString(host) {
		u.Host = net.JoinHostPort(host, u.Port())
	}
	return u
}

// isHost matches a text that may be written into a configuration as a host. The text comes from
// a header of the request.
var isHost = regexp.MustCompile(`^[A-Za-z0-9.:-]{1,253}$`)
