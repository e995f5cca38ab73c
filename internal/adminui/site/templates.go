package site

import (
	"fmt"
	"html/template"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/proxies"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/web"
)

// shared are the templates that every page may use.
var shared = []string{"templates/base.html", "templates/parts.html", "templates/icons.html", "templates/monitor.html", "templates/traps.html"}

// pages are the templates of each page, parsed when it is first shown. All of them together
// would use a quarter of an idle node's memory, since each page has a copy of the shared ones.
type pages struct {
	common *template.Template // never executed, so that it can be cloned

	mu     sync.Mutex
	parsed map[string]*template.Template
}

// newPages parses the shared templates.
func newPages(funcs template.FuncMap) (*pages, error) {
	common, err := template.New("").Funcs(funcs).ParseFS(web.Templates, shared...)
	return &pages{common: common, parsed: map[string]*template.Template{}}, err
}

// named returns the templates of the page with the given file name.
func (p *pages) named(name string) (*template.Template, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if page, found := p.parsed[name]; found {
		return page, nil
	}
	page, err := p.common.Clone()
	if err != nil {
		return nil, err
	}
	if page, err = page.ParseFS(web.Templates, "templates/"+name+".html"); err != nil {
		return nil, err
	}
	p.parsed[name] = page
	return page, nil
}

func (s *Site) funcs() template.FuncMap {
	return template.FuncMap{
		"asset":       assetPath,
		"aboutShared": proxies.AboutShared, "key": format.Key, "wholekey": format.WholeKey, "text": format.Pieces, "visible": format.VisibleText,
		"num": func(n any) (string, error) {
			whole, err := toInt64(n)
			return phrase.Number(whole), err
		},
		"compact": format.Compact, "ratio": phrase.Ratio,
		"plural": func(n any, word string) (string, error) {
			whole, err := toInt64(n)
			return phrase.Count(whole, word), err
		},
		"inc": func(i int) int { return i + 1 }, "dur": phrase.Duration, "rule": format.Rule, "rules": format.Rules, "ruletext": format.RuleText, "window": format.Window,
		"when":      func(t instant) format.TimeView { return format.When(t.UTC(), s.Now()) },
		"ago":       func(t instant) string { return format.When(t.UTC(), s.Now()).Relative },
		"fulltime":  format.DateMilli,
		"clocktime": format.Milli,
		"clockof":   func(ms int64) format.Moment { return format.DayMilli(time.UnixMilli(ms)) },
		"refusedby": refusedByText, "barekey": format.BareKey, "plural64": phrase.Count[int64], "patternof": PatternText,
		"decision": decisionOf,
		"pace":     format.Pace,
		"list":     func(all ...any) []any { return all },
		"args":     args,
	}
}

// instant is a time.Time or a wire.Time.
type instant interface{ UTC() time.Time }

func toInt64(n any) (int64, error) {
	switch n := n.(type) {
	case int:
		return int64(n), nil
	case int64:
		return n, nil
	}
	return 0, fmt.Errorf("num takes an int or int64, not %T", n)
}

// args returns the argument for a template with several: {{template "x" (args "Name" .Name
// "Label" "Name")}}.
func args(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("args takes pairs of a name and a value, not %d arguments", len(pairs))
	}
	all := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("args: %v is not a name", pairs[i])
		}
		all[name] = pairs[i+1]
	}
	return all, nil
}

// decisionView is a decision for the template "decision": always a glyph and a word.
type decisionView struct {
	Kind string // allowed, limited, blocked, exempt or shadow
	Word string
	More string // after the word: "by 20/min", "41 min left"
}

var decisionWords = map[string]string{
	"allowed": "Allowed", "limited": "Limited", "blocked": "Blocked", "challenged": "Challenged", "exempt": "Exempt", "shadow": "Shadow", "unavailable": "Unavailable",
}

func decisionOf(kind, more string) (decisionView, error) {
	word, known := decisionWords[kind]
	if !known {
		return decisionView{}, fmt.Errorf("there is no decision %q", kind)
	}
	return decisionView{kind, word, more}, nil
}

// refusedByText describes what refused: a rule, or a block, which other lists call "Blocked".
func refusedByText(text string) string {
	if _, err := rules.ParseRule(text); err != nil {
		return "Blocked"
	}
	return format.RuleText(text)
}
