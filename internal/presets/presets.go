// Package presets holds the policy files that Stint ships: stacks of policies for
// common cases, and lists of paths that only scanners ask for.
package presets

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"slices"
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

var all = load("api", "website", "login", "scraper", "traps", "traps-php", "ai-crawlers", "scraping", "ssh", "passes")

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

// choices are the presets that say what an installation protects. The others go beside one of them.
var choices = []string{"api", "website", "login", "scraper", "ssh"}

// Set are the names of the presets that a new database begins with, none for the policy default in
// shadow mode.
type Set []string

// ParseSet reads names with commas between.
func ParseSet(text string) (Set, error) {
	var names Set
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if _, found := Find(name); !found {
			return nil, fmt.Errorf("%q is no preset; the presets are %s", name, strings.Join(Names(), ", "))
		}
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("%s is named twice", name)
		}
		names = append(names, name)
	}
	return names, nil
}

// String returns the names with commas between.
func (s Set) String() string { return strings.Join(s, ",") }

// Policies returns the policies of a new database. Without a preset nobody has chosen what is
// protected, and rules for something else would refuse what is normal: the policy of the preset api
// only counts what it would refuse.
func (s Set) Policies() []*rules.Policy {
	names, mode := s, rules.Mode("")
	if len(s) == 0 {
		names, mode = Set{choices[0]}, rules.Shadow
	}
	var first []*rules.Policy
	for _, name := range names {
		preset, _ := Find(name)
		for _, p := range preset.Policies {
			policy := *p
			policy.Mode = cmp.Or(mode, policy.Mode)
			first = append(first, &policy)
		}
	}
	return first
}

// Question is what an installation that counts and enforces no limit asks: what it protects.
type Question struct {
	Policy  string   // the only one, which counts
	Presets []Preset // the answers
}

// Ask returns the question that is open, nil if there is none.
func Ask(s *rules.Selector) *Question {
	policy := s.OnlyCounting()
	if policy == "" {
		return nil
	}
	q := &Question{Policy: policy}
	for _, name := range choices {
		preset, _ := Find(name)
		q.Presets = append(q.Presets, preset)
	}
	return q
}

// String returns the question for the log and the terminal.
func (q *Question) String() string {
	return "No limits are enforced: the policy " + q.Policy + " only counts what it would refuse. Choose what is protected: stint-admin apply --preset NAME, where NAME is " +
		strings.Join(choices[:len(choices)-1], ", ") + " or " + choices[len(choices)-1] + "."
}
