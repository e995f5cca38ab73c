package local

import (
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/wire"
)

// convertNginx converts the limit_req zones of nginx.
func convertNginx(file io.Reader) (*conversion, error) {
	all, err := parseNginx(file)
	if err != nil {
		return nil, console.Usagef("it is no configuration of nginx: %w", err)
	}
	c := &nginxRun{conversion: &conversion{}, zones: map[string]nginxDirective{}, variables: map[string]nginxDirective{}, exempt: map[string]bool{}}
	c.collect(all)
	c.walk(all, nginxPlace{})
	for _, use := range c.uses {
		c.convert(use)
	}
	if len(c.zones) == 0 {
		return nil, console.Usagef("it has no limit_req_zone; give the whole configuration, as 'nginx -T' prints it")
	}
	return c.conversion, nil
}

type nginxRun struct {
	*conversion
	zones     map[string]nginxDirective // limit_req_zone, by the name of the zone
	variables map[string]nginxDirective // map and geo, by the variable that they set
	uses      []*nginxUse
	exempt    map[string]bool
}

// nginxPlace is where a directive is.
type nginxPlace struct {
	hosts    []string
	path     string // of the location, "" for none
	problem  string // why requests of the place cannot be selected, "" if they can
	isDryRun bool
	hasOuter bool // a block around it has a limit_req
}

// nginxUse are the limit_req of one zone that count together.
type nginxUse struct {
	zone, options string
	place         nginxPlace
	paths         []string
}

// collect finds the zones and the variables, wherever they are.
func (c *nginxRun) collect(all []nginxDirective) {
	for _, d := range all {
		switch d.name {
		case "limit_req_zone":
			if name, _, _ := strings.Cut(nginxOption(d.args, "zone="), ":"); name != "" {
				c.zones[name] = d
			}
		case "map", "geo":
			if len(d.args) > 0 {
				c.variables[d.args[len(d.args)-1]] = d
			}
		}
		c.collect(d.block)
	}
}

func nginxOption(args []string, name string) string {
	for _, arg := range args {
		if value, found := strings.CutPrefix(arg, name); found {
			return value
		}
	}
	return ""
}

// walk finds the uses of the zones.
func (c *nginxRun) walk(all []nginxDirective, at nginxPlace) {
	own := false
	for _, d := range all {
		switch d.name {
		case "server_name":
			at.hosts = hostsOf(d.args)
			if slices.ContainsFunc(at.hosts, func(host string) bool { return strings.ContainsAny(host, "~$") }) {
				at.problem = "the server_name is a regular expression or a variable"
			}
		case "limit_req_dry_run":
			at.isDryRun = len(d.args) > 0 && d.args[0] == "on"
		case "limit_req":
			own = true
		}
	}
	for _, d := range all {
		switch d.name {
		case "limit_req":
			c.use(d, at)
		case "limit_conn":
			c.lacks("limit_conn "+strings.Join(d.args, " "), "a gateway that only asks does not say when a connection ends; keep it in nginx")
		case "if", "limit_except":
			if usesLimits(d.block) {
				c.lacks(d.name+" "+strings.Join(d.args, " "), "its condition; write it as when of a policy")
			}
		default:
			inner := at
			inner.hasOuter = at.hasOuter || own
			if d.name == "location" {
				inner.path, inner.problem = locationOf(d.args, at)
			}
			c.walk(d.block, inner)
		}
	}
}

// usesLimits reports whether directives limit requests.
func usesLimits(all []nginxDirective) bool {
	return slices.ContainsFunc(all, func(d nginxDirective) bool { return d.name == "limit_req" || usesLimits(d.block) })
}

// locationOf returns the path condition of a location, or why there is none.
func locationOf(args []string, at nginxPlace) (path, problem string) {
	if len(args) == 0 {
		return "", at.problem
	}
	modifier, path := "", args[len(args)-1]
	if len(args) > 1 {
		modifier = args[0]
	}
	switch {
	case at.problem != "":
		return "", at.problem
	case strings.HasPrefix(modifier, "~"):
		return "", "the location " + strings.Join(args, " ") + " is a regular expression; write its paths as when of a policy"
	case strings.HasPrefix(path, "@"):
		return "", "the location " + path + " is a name"
	case modifier == "=":
		return path, ""
	case path == "/":
		return "", ""
	}
	return path + "*", ""
}

func (c *nginxRun) use(d nginxDirective, at nginxPlace) {
	zone := nginxOption(d.args, "zone=")
	options := strings.Join(slices.DeleteFunc(slices.Clone(d.args), func(arg string) bool { return strings.HasPrefix(arg, "zone=") }), " ")
	where := "limit_req " + strings.Join(d.args, " ")
	if at.problem != "" {
		c.lacks(where, "%s", at.problem)
		return
	}
	if at.path == "" || strings.HasSuffix(at.path, "*") {
		c.note("%s: this policy limits too what nginx leaves to other locations and servers; try it with mode: shadow, or add what is not limited to when", where)
	}
	if at.hasOuter {
		c.note("%s: nginx applies it instead of the limits around it; these policies apply together", where)
	}
	for _, known := range c.uses {
		isSame := known.zone == zone && known.options == options && known.place.isDryRun == at.isDryRun && slices.Equal(known.place.hosts, at.hosts)
		if isSame && at.path != "" && len(known.paths) > 0 {
			known.paths = append(known.paths, at.path)
			return
		}
		if known.zone == zone {
			c.note("%s: nginx counts all uses of the zone %s together; each policy counts by itself", where, zone)
		}
	}
	use := &nginxUse{zone: zone, options: options, place: at}
	if at.path != "" {
		use.paths = []string{at.path}
	}
	c.uses = append(c.uses, use)
}

// hostsOf returns the hosts of a server_name as conditions: .example.com is the domain and all below it.
func hostsOf(names []string) (hosts []string) {
	for _, name := range names {
		switch domain, isBoth := strings.CutPrefix(name, "."); {
		case isBoth:
			hosts = append(hosts, domain, "*."+domain)
		case name != "_" && name != "":
			hosts = append(hosts, name)
		}
	}
	return hosts
}

var nginxRate = regexp.MustCompile(`^(\d+)r/([sm])$`)

func (c *nginxRun) convert(use *nginxUse) {
	where := strings.TrimSpace("limit_req zone=" + use.zone + " " + use.options)
	zone, found := c.zones[use.zone]
	rate := nginxRate.FindStringSubmatch(nginxOption(zone.args, "rate="))
	if !found || rate == nil || len(zone.args) == 0 {
		c.lacks(where, "the zone is not defined, or without a rate such as 10r/s")
		return
	}
	p := wire.PolicyRequest{
		Name: "nginx-" + use.zone, Match: []string{"ip:*"}, Mode: "enforce", Algorithm: "gcra", Rules: []string{rate[1] + "/" + rate[2]},
		When: wire.PolicyWhen{Host: use.place.hosts, Path: use.paths},
	}
	if problem := c.readKey(zone.args[0], &p.When); problem != "" {
		c.lacks(where, "%s", problem)
		return
	}
	burst := 0
	if text := nginxOption(strings.Fields(use.options), "burst="); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			c.lacks(where, "the burst %q", text)
			return
		}
		burst = n
	}
	p.Options.Burst = burst + 1 // nginx lets one more through
	if use.place.isDryRun {
		p.Mode = "shadow"
	}
	if burst > 0 && !slices.Contains(strings.Fields(use.options), "nodelay") {
		c.note("%s: nginx lets requests of the burst wait; these are allowed at once, and those beyond it are refused as before", where)
	}
	c.add(where, p)
}

// readKey reads the key of a zone: the client's address, or a variable that a plain map or geo makes
// of it, whose empty values are not limited.
func (c *nginxRun) readKey(key string, when *wire.PolicyWhen) (problem string) {
	if isClient(key) {
		return ""
	}
	d, found := c.variables[key]
	if !found || d.name != "map" || len(d.args) != 2 {
		return fmt.Sprintf("its key is %s; write a policy for the keys that your gateway sends", key)
	}
	source, values, byDefault := d.args[0], map[string]string{}, ""
	for _, v := range d.block {
		switch {
		case len(v.args) != 1 || strings.HasPrefix(v.name, "~") || v.args[0] != "" && !isClient(v.args[0]):
			return fmt.Sprintf("the map of its key %s is not plain: %s", key, strings.Join(append([]string{v.name}, v.args...), " "))
		case v.name == "default":
			byDefault = v.args[0]
		default:
			values[v.name] = v.args[0]
		}
	}
	isLimited := func(value string) bool {
		if to, found := values[value]; found {
			return to != ""
		}
		return byDefault != ""
	}
	switch geo, isGeo := c.variables[source]; {
	case source == "$request_method" && byDefault == "":
		for method, to := range values {
			if to != "" {
				when.Method = append(when.Method, method)
			}
		}
		slices.Sort(when.Method)
		return ""
	case isGeo && geo.name == "geo" && len(geo.args) == 1:
		return c.exemptGeo(geo, isLimited)
	}
	return fmt.Sprintf("the map of its key %s is by %s; write it as when of a policy", key, source)
}

func isClient(variable string) bool {
	return variable == "$binary_remote_addr" || variable == "$remote_addr"
}

// exemptGeo says how the networks of a geo that are not limited are exempt.
func (c *nginxRun) exemptGeo(geo nginxDirective, isLimited func(value string) bool) (problem string) {
	var lines []string
	hasDefault := slices.ContainsFunc(geo.block, func(v nginxDirective) bool { return v.name == "default" })
	if !hasDefault && !isLimited("") { // what nginx takes for all others
		return "its geo limits only some networks; write them as the match of a policy"
	}
	for _, v := range geo.block {
		if len(v.args) != 1 {
			continue
		}
		_, err := netip.ParsePrefix(v.name)
		_, alone := netip.ParseAddr(v.name)
		switch {
		case v.name == "default" && !isLimited(v.args[0]):
			return "its geo limits only some networks; write them as the match of a policy"
		case v.name == "default":
		case err != nil && alone != nil:
			return "the geo " + strings.Join(geo.args, " ") + " is not plain: " + v.name
		case !isLimited(v.args[0]) && !c.exempt[v.name]:
			c.exempt[v.name] = true
			lines = append(lines, v.name)
		}
	}
	for _, network := range lines {
		c.exemptions++
		c.note("  stint-admin exemption add %s --permanent --reason 'geo %s of nginx'", network, strings.Join(geo.args, " "))
	}
	return ""
}
