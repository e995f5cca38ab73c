package conditions

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
)

// List is a named list of patterns for one attribute, which conditions contain as @NAME. The lists
// are data of the program: a new version may add patterns to one.
type List struct {
	Name        string
	Title       string
	Description string
	Source      string // where its facts are from
	Date        string // of the last change
	Attribute   Attribute
	// IsSent means that its patterns are compared also with the target as it was sent and after each
	// decoding, with its query, and not only with the normalized path.
	IsSent   bool
	Patterns []string // canonical, in the order of the file

	globs []glob
}

// Text returns the patterns, one a line.
func (l *List) Text() string { return strings.Join(l.Patterns, "\n") }

//go:embed lists/*.txt
var listFiles embed.FS

// Lists returns all lists, sorted by name.
func Lists() []*List { return slices.Clone(allLists()) }

// FindList returns the list with that name, nil if there is none.
func FindList(name string) *List {
	all := allLists()
	if at, found := slices.BinarySearchFunc(all, name, func(l *List, name string) int { return strings.Compare(l.Name, name) }); found {
		return all[at]
	}
	return nil
}

var allLists = sync.OnceValue(func() []*List {
	files, err := listFiles.ReadDir("lists")
	if err != nil {
		panic(err)
	}
	all := make([]*List, len(files))
	for i, f := range files {
		data, err := listFiles.ReadFile("lists/" + f.Name())
		if err == nil {
			all[i], err = parseList(strings.TrimSuffix(f.Name(), path.Ext(f.Name())), string(data))
		}
		if err != nil {
			panic(fmt.Sprintf("conditions: lists/%s: %v", f.Name(), err)) // a test reads them all
		}
	}
	return all
})

// parseList parses the file of a list: its fields, an empty line, and a pattern a line, with
// comments after #.
func parseList(name, text string) (*List, error) {
	head, body, _ := strings.Cut(text, "\n\n")
	l := &List{Name: name}
	fields := map[string]*string{"title": &l.Title, "description": &l.Description, "source": &l.Source, "date": &l.Date, "attribute": new(string), "compared": new(string)}
	for line := range strings.Lines(head) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if fields[field] == nil || *fields[field] != "" || value == "" {
			return nil, fmt.Errorf("the line %q has no field, or one that is there already", line)
		}
		*fields[field] = value
	}
	attribute, err := ParseAttribute(*fields["attribute"])
	if err != nil || l.Title == "" || l.Description == "" || l.Source == "" || l.Date == "" {
		return nil, errors.New("a field is missing")
	}
	l.Attribute = attribute
	switch *fields["compared"] {
	case "":
	case "as sent":
		l.IsSent = true
	default:
		return nil, errors.New("compared is not \"as sent\"")
	}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		g, err := l.parseGlob(lower(line))
		if err != nil {
			return nil, fmt.Errorf("%s %w", line, err)
		}
		if slices.Contains(l.Patterns, g.text) {
			return nil, fmt.Errorf("%s is there twice", line)
		}
		l.Patterns, l.globs = append(l.Patterns, g.text), append(l.globs, g)
	}
	return l, nil
}

func (l *List) parseGlob(text string) (g glob, err error) {
	if l.IsSent {
		g, err = newGlob(text)
	} else {
		g, err = parseGlob(l.Attribute, text)
	}
	g.ignoresCase, g.isSent = l.Attribute == Path, l.IsSent
	if err == nil && g.longest() == "" {
		err = errors.New("matches everything")
	}
	return g, err
}

// listFor returns the list with that name for an attribute. The error says which one would be
// right and where the lists are shown.
func listFor(a Attribute, name string) (*List, error) {
	const shown = "GET /v1/lists and 'stint-admin policy lists' show the lists"
	l := FindList(name)
	switch {
	case l == nil:
		if near := nearestList(a, name); near != "" {
			return nil, fmt.Errorf("names no list; did you mean @%s? %s", near, shown)
		}
		return nil, errors.New("names no list; " + shown)
	case l.Attribute != a:
		return nil, fmt.Errorf("names a list for the %s, and this is the %s; %s", l.Attribute, a, shown)
	}
	return l, nil
}

// nearestList returns the list for an attribute whose name differs least from name, "" if all
// differ in more than half of it.
func nearestList(a Attribute, name string) (near string) {
	least := min(len(name), 40)/2 + 1
	for _, l := range allLists() {
		if d := distance(l.Name, name[:min(len(name), 40)]); l.Attribute == a && d < least {
			least, near = d, l.Name
		}
	}
	return near
}

// distance returns how many bytes must be inserted, removed or replaced to make a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := above
			if a[i] != b[j] {
				replaced++
			}
			above = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
