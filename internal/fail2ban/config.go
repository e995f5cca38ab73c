// Package fail2ban reads the filters and jails of fail2ban: which address failed in a line of a log,
// and what a jail asks for. A filter here reads single lines; one that needs several is refused.
package fail2ban

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// config holds the sections of configuration files, with the options as they are written.
type config struct {
	sections map[string]map[string]string
	order    []string // the sections as they come
	// overrides are the options in the brackets behind the name of a filter.
	overrides map[string]string
}

const (
	defaultSection = "DEFAULT"
	maxIncludes    = 100
	maxReplaced    = 1000
)

// readConfig reads files and what they include, later ones over earlier ones.
func readConfig(paths ...string) (*config, error) {
	c := &config{sections: map[string]map[string]string{defaultSection: {}}}
	left := maxIncludes
	for _, path := range paths {
		if err := c.include(path, &left); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// withLocal returns a file, and the one beside it in which an operator changes it, if there is one.
func withLocal(path string) []string {
	local := strings.TrimSuffix(path, filepath.Ext(path)) + ".local"
	if _, err := os.Stat(local); err == nil && local != path {
		return []string{path, local}
	}
	return []string{path}
}

// include reads a file, what it includes before it, and what it includes after it.
func (c *config) include(path string, left *int) error {
	if *left--; *left < 0 {
		return fmt.Errorf("%s: more than %d files are included", path, maxIncludes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file := parseConfig(string(text))
	each := func(option string) error {
		for _, name := range strings.Fields(file.sections["INCLUDES"][option]) {
			if !filepath.IsAbs(name) {
				name = filepath.Join(filepath.Dir(path), name)
			}
			if _, err := os.Stat(name); os.IsNotExist(err) {
				continue // files that an operator may write, as common.local
			}
			if err := c.include(name, left); err != nil {
				return err
			}
		}
		return nil
	}
	if err := each("before"); err != nil {
		return err
	}
	for _, section := range file.order {
		if section != "INCLUDES" {
			c.merge(section, file.sections[section])
		}
	}
	return each("after")
}

// merge adds options to a section. What they replace stays as known/NAME.
func (c *config) merge(section string, options map[string]string) {
	into := c.sections[section]
	if into == nil {
		into = map[string]string{}
		c.sections[section], c.order = into, append(c.order, section)
	}
	for name, value := range options {
		if old, found := into[name]; found {
			into["known/"+name] = old
		}
		into[name] = value
	}
}

func parseConfig(text string) *config {
	c := &config{sections: map[string]map[string]string{}}
	var section map[string]string
	last := ""
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, " \t\r")
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';':
		case line[0] == '[' && strings.HasSuffix(trimmed, "]"):
			name := trimmed[1 : len(trimmed)-1]
			if section = c.sections[name]; section == nil {
				section = map[string]string{}
				c.sections[name], c.order = section, append(c.order, name)
			}
			last = ""
		case section == nil:
		case (line[0] == ' ' || line[0] == '\t') && last != "":
			section[last] += "\n" + trimmed
		default:
			at := strings.IndexAny(line, "=:")
			if at < 0 {
				continue
			}
			last = strings.ToLower(strings.TrimSpace(line[:at]))
			section[last] = strings.TrimSpace(line[at+1:])
		}
	}
	return c
}

// raw returns an option as it is written.
func (c *config) raw(section, name string) (string, bool) {
	if value, found := c.overrides[name]; found {
		return value, true
	}
	if of, option, found := strings.Cut(name, "/"); found && of != "known" {
		if strings.EqualFold(of, defaultSection) {
			of = defaultSection
		}
		value, found := c.sections[of][option]
		return value, found
	}
	if name == "__name__" {
		return section, true
	}
	for _, in := range []string{section, "Init", defaultSection} {
		if value, found := c.sections[in][name]; found {
			return value, true
		}
	}
	if option, isKnown := strings.CutPrefix(name, "known/"); isKnown {
		return c.raw(defaultSection, option)
	}
	return "", false
}

var (
	interpolation = regexp.MustCompile(`%\(([^)]+)\)s|%%`)
	tag           = regexp.MustCompile(`<([^ <>]+)>`)
)

// option returns an option of a filter with the others that it names in it.
func (c *config) option(name string) (string, error) {
	const section = "Definition"
	left := maxReplaced
	value, err := c.expand(section, name, &left)
	if err != nil {
		return "", err
	}
	from := 0
	for {
		m := tag.FindStringSubmatchIndex(value[from:])
		if m == nil {
			return value, nil
		}
		inner, err := c.expand(section, strings.ToLower(value[from+m[2]:from+m[3]]), &left)
		if _, found := c.raw(section, strings.ToLower(value[from+m[2]:from+m[3]])); !found {
			from += m[1] // a tag of an expression, such as <HOST>
			continue
		}
		if err != nil {
			return "", err
		}
		if left--; left < 0 {
			return "", fmt.Errorf("the option %s names itself", name)
		}
		value = value[:from+m[0]] + inner + value[from+m[1]:]
		from = 0
	}
}

// expand returns an option with what %(NAME)s names in it.
func (c *config) expand(section, name string, left *int) (string, error) {
	value, found := c.raw(section, name)
	if !found {
		return "", nil
	}
	var failed error
	value = interpolation.ReplaceAllStringFunc(value, func(text string) string {
		if text == "%%" {
			return "%"
		}
		if *left--; *left < 0 {
			failed = fmt.Errorf("the option %s names itself", name)
			return ""
		}
		inner := strings.ToLower(text[2 : len(text)-2])
		if of, _, isOther := strings.Cut(inner, "/"); isOther && of != "known" {
			inner = text[2 : len(text)-2] // the names of sections have their case
		}
		if _, found := c.raw(section, inner); !found {
			failed = fmt.Errorf("the option %s names %s, which is not set", name, inner)
			return ""
		}
		inner, err := c.expand(section, inner, left)
		if err != nil {
			failed = err
		}
		return inner
	})
	return value, failed
}

var filterOption = regexp.MustCompile(`\s*([\w-]+)\s*=\s*("[^"]*"|'[^']*'|[^,\]]*)\s*(?:,|$)`)

// splitOptions splits "sshd[mode=aggressive]" into the name and its options.
func splitOptions(text string) (name string, options map[string]string) {
	name, rest, found := strings.Cut(strings.TrimSpace(text), "[")
	if !found {
		return strings.TrimSpace(name), nil
	}
	options = map[string]string{}
	for _, m := range filterOption.FindAllStringSubmatch(strings.TrimSuffix(strings.TrimSpace(rest), "]"), -1) {
		value := strings.TrimSpace(m[2])
		if len(value) > 1 && (value[0] == '"' || value[0] == '\'') {
			value = value[1 : len(value)-1]
		}
		options[strings.ToLower(m[1])] = value
	}
	return strings.TrimSpace(name), options
}

// nonEmptyLines returns the lines of an option.
func nonEmptyLines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
}
