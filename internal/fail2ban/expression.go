package fail2ban

import (
	"regexp"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"
)

// matchTimeout bounds one search: a client writes a part of each line.
const matchTimeout = 200 * time.Millisecond

// expression is a regular expression of Python. Many filters look ahead or behind, refer back, or
// have conditions, none of which Go's own engine knows.
type expression struct {
	*regexp2.Regexp
	names []string
}

// The expressions of fail2ban for its tags.
const (
	ipv4Address = `(?:::f{4,6}:)?(?P<ip4>(?:\d{1,3}\.){3}\d{1,3})`
	ipv6Address = `(?P<ip6>(?:[0-9a-fA-F]{1,4}::?|::){1,7}(?:[0-9a-fA-F]{1,4}|(?<=:):))`
	hostName    = `(?P<dns>[\w\-.^_]*\w)`
	address     = `\[?(?:` + ipv4Address + `|` + ipv6Address + `)\]?`
)

var expressionTags = map[string]string{
	"HOST": `(?:` + address + `|` + hostName + `)`, "ADDR": address, "F-ADDR/": address,
	"IP4": ipv4Address, "F-IP4/": ipv4Address, "IP6": ipv6Address, "F-IP6/": ipv6Address, "DNS": hostName, "F-DNS/": hostName,
	"CIDR": `(?P<cidr>\d+)`, "F-CIDR/": `(?P<cidr>\d+)`,
	"SUBNET": `\[?(?:` + ipv4Address + `|` + ipv6Address + `)(?:/(?P<cidr>\d+))?\]?`,
	"F-ID/":  `(?P<fid>\S+)`, "F-PORT/": `(?P<fport>\w+)`,
}

var (
	expressionTag = regexp.MustCompile(`</?[\w\-]+/?>`)
	customTag     = regexp.MustCompile(`^(/?)F-([A-Z0-9_\-]+)$`)
	globalFlags   = regexp.MustCompile(`\(\?([a-zA-Z]+)\)`)
)

// compile compiles an expression with tags.
func compile(text string) (*expression, error) {
	isOpen := map[string]bool{}
	text = expressionTag.ReplaceAllStringFunc(text, func(whole string) string {
		name := whole[1 : len(whole)-1]
		if known, found := expressionTags[name]; found {
			return known
		}
		m := customTag.FindStringSubmatch(name)
		switch {
		case m == nil:
			return whole
		case m[1] != "" && isOpen[m[2]]:
			return ")"
		case m[1] != "":
			return whole
		}
		isOpen[m[2]] = true
		group := strings.ReplaceAll(strings.ToLower(m[2]), "-", "_")
		switch group {
		case "id":
			group = "fid"
		case "port":
			group = "fport"
		}
		return "(?P<" + group + ">"
	})
	return compilePlain(text)
}

// compilePlain compiles an expression of Python.
func compilePlain(text string) (*expression, error) {
	text = strings.NewReplacer(`(?P<`, `(?<`, `(?P=`, `\k<=`, `\Z`, `\z`).Replace(text)
	for {
		before, behind, found := strings.Cut(text, `\k<=`)
		if !found {
			break
		}
		text = before + `\k<` + strings.Replace(behind, ")", ">", 1)
	}
	text = globalFlags.ReplaceAllStringFunc(text, func(flags string) string {
		flags = strings.Map(func(c rune) rune {
			if c == 'u' || c == 'L' || c == 'a' {
				return -1
			}
			return c
		}, flags)
		if flags == "(?)" {
			return ""
		}
		return flags
	})
	e, err := regexp2.Compile(text)
	if err != nil {
		return nil, err
	}
	e.MatchTimeout = matchTimeout
	return &expression{Regexp: e, names: e.GetGroupNames()}, nil
}

// groups returns the named groups that have matched, nil without a match.
func (e *expression) groups(text string) (map[string]string, error) {
	m, err := e.FindStringMatch(text)
	if m == nil || err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, name := range e.names {
		if g := m.GroupByName(name); g != nil && len(g.Captures) > 0 {
			found[name] = g.String()
		}
	}
	for name, value := range found {
		if of, isAlternative := strings.CutPrefix(name, "alt_"); isAlternative && value != "" && found[of] == "" {
			found[of] = value
		}
	}
	return found, nil
}
