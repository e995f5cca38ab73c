// Package presets holds the policy files that Stint ships: stacks of policies for
// common cases, and lists of paths that only scanners ask for.
package presets

import (
	"bytes"
	"embed"
	"fmt"
	"strings"

	"github.com/stint-dev/stint/internal/policyfile"
	"github.com/stint-dev/stint/internal/rules"
)

// Preset is a policy file that Stint ships. Its policies are ordinary ones: once
// applied they are edited and deleted as all others.
type Preset struct {
	Name    string // as in "admin apply --preset"
	Title   string
	Summary string // whom it is for and what it does, some sentences
	// Text is the whole file, with comments.
	Text     []byte
	Policies []*rules.Policy // of the file
}

//go:embed files/*.yaml
var files embed.FS

var all = load("api", "website", "login", "scraper", "traps", "traps-php")

// All returns the presets in the order in which they are offered. Callers must not
// change them.
func All() []Preset { return all }

// Names returns the names of all presets.
func Names() []string {
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names
}

// Find returns the preset of a name.
func Find(name string) (Preset, bool) {
	for _, p := range all {
		if p.Name == name {
			return p, true
		}
	}
	return Preset{}, false
}

// load reads the embedded files. A file that cannot be read is a mistake of the build,
// which every program and test would meet at once.
func load(names ...string) []Preset {
	var all []Preset
	for _, name := range names {
		file := name + ".yaml"
		text, err := files.ReadFile("files/" + file)
		if err != nil {
			panic(err)
		}
		p := Preset{Name: name, Text: text}
		requests, err := policyfile.Read(bytes.NewReader(text), file)
		if err != nil {
			panic(err)
		}
		for _, request := range requests {
			policy, err := policyfile.Policy(request)
			if err != nil {
				panic(err)
			}
			p.Policies = append(p.Policies, policy)
		}
		if p.Title, p.Summary = describe(string(text)); p.Title == "" || p.Summary == "" {
			panic(fmt.Sprintf("%s does not begin with a title and a summary", file))
		}
		all = append(all, p)
	}
	return all
}

// describe returns what the comment at the beginning of a file says: its title on the
// first line, and the summary after an empty one.
func describe(text string) (title, summary string) {
	var lines []string
	for line := range strings.Lines(text) {
		comment, found := strings.CutPrefix(line, "#")
		if !found {
			break
		}
		lines = append(lines, strings.TrimSpace(comment))
	}
	if len(lines) < 3 || lines[1] != "" {
		return "", ""
	}
	return lines[0], strings.Join(lines[2:], " ")
}
