package backtest

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

//go:embed html.tmpl
var htmlText string

//go:embed html.css
var htmlStyle string

var htmlTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"visible": printable, "count": humanize.Comma, "percent": percent, "seconds": Seconds, "time": instant, "rule": ruleName, "bar": newBar,
	"ruleCount": func(c RuleCount) string { return c.name() }, "reportCount": func(c ReportCount) string { return c.name() }, "evidenceCount": func(c EvidenceCount) string { return c.name() }, "escalationCount": func(c EscalationCount) string { return c.name() },
}).Parse(htmlText))

// htmlPolicy is the Content-Security-Policy of the page: its own style, and nothing else.
var htmlPolicy = func() string {
	sum := sha256.Sum256([]byte(htmlStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}()

// htmlPage is what the template shows.
type htmlPage struct {
	Policy        string
	Style         template.CSS
	Report        *Report
	Sentence      string
	Figures       []figure
	Chart         *timelineChart
	Attackers     []labelled[AttackerScore]
	Benign        []labelled[BenignScore]
	Ranges        []*RangeScore // of each plan
	Stacks        []stackTable
	Offenders     []Offender
	MoreOffenders int64
	Changes       []changeTable
}

type figure struct{ Name, Value, Note string }

// labelled are the scores of one label: of the first plan, and of the second.
type labelled[T any] struct {
	Label string
	Plans []T
}

type stackTable struct {
	Title       string
	Number      int   // 0 for the first plan
	Refused     int64 // by rules, at least 1
	Rules       []RuleCount
	Reports     []ReportCount
	Evidence    []EvidenceCount
	Escalations []EscalationCount
}

type changeTable struct {
	Title string
	Keys  []Change
	More  int64
}

// WriteHTML writes the report as one page that needs nothing else: no script, and no
// request. Each table shows as many keys as top, 0 for 50, below 0 all. Keys are escaped,
// and what of them could not be seen is shown as an escape.
func (r *Report) WriteHTML(w io.Writer, top int) error {
	if top == 0 {
		top = 50
	}
	page := &htmlPage{Policy: htmlPolicy, Style: template.CSS(htmlStyle), Report: r, Sentence: r.sentence(), Figures: r.figures(), Chart: r.Timeline.chart(r.Comparison != nil)}
	page.Offenders = topOf(r.Offenders, top)
	page.MoreOffenders = int64(len(r.Offenders) - len(page.Offenders))
	page.Stacks = []stackTable{{"Rules", 0, max(1, r.Refused-r.Blocked), r.Rules, r.Reports, r.Evidence, r.Escalations}}
	scores := []*Score{r.Score}
	if c := r.Comparison; c != nil {
		page.Stacks = append(page.Stacks, stackTable{"Rules of the second plan", 1, max(1, c.Refused-c.Blocked), c.Rules, c.Reports, c.Evidence, c.Escalations})
		scores = append(scores, c.Score)
		for _, t := range []struct {
			title string
			keys  []Change
		}{{"Newly refused", c.NewlyRefusedKeys}, {"Newly allowed", c.NewlyAllowedKeys}} {
			shown := topOf(t.keys, top)
			page.Changes = append(page.Changes, changeTable{t.title, shown, int64(len(t.keys) - len(shown))})
		}
	}
	for _, s := range scores {
		if s == nil {
			continue
		}
		page.Attackers = addLabels(page.Attackers, s.Attackers, func(a AttackerScore) string { return a.Label })
		page.Benign = addLabels(page.Benign, s.Benign, func(b BenignScore) string { return b.Label })
		if s.Ranges != nil {
			page.Ranges = append(page.Ranges, s.Ranges)
		}
	}
	return htmlTemplate.Execute(w, page)
}

// addLabels adds scores to the scores of the same label.
func addLabels[T any](to []labelled[T], scores []T, labelOf func(T) string) []labelled[T] {
	for _, s := range scores {
		i := slices.IndexFunc(to, func(l labelled[T]) bool { return l.Label == labelOf(s) })
		if i < 0 {
			i, to = len(to), append(to, labelled[T]{Label: labelOf(s)})
		}
		to[i].Plans = append(to[i].Plans, s)
	}
	return to
}

func (r *Report) sentence() string {
	text := fmt.Sprintf("Of %s by %s, %s refused.", counted(r.Requests, "request"), counted(r.Keys, "key"), withRatio(r.Refused, r.Requests))
	if c := r.Comparison; c != nil {
		text += fmt.Sprintf(" The second plan refuses %s.", withRatio(c.Refused, r.Requests))
	}
	return text
}

func (r *Report) figures() []figure {
	note := func(n int64, of string) string {
		if n == 0 {
			return ""
		}
		return humanize.Comma(n) + " " + of
	}
	figures := []figure{
		{Name: "Allowed", Value: withRatio(r.Allowed, r.Requests), Note: note(r.Unlimited, "under no rule")},
		{Name: "Refused", Value: withRatio(r.Refused, r.Requests), Note: note(r.Blocked, "by automatic blocks")},
		{Name: "Keys refused", Value: withRatio(int64(len(r.Offenders)), r.Keys)},
	}
	if r.Challenged > 0 {
		figures = append(figures, figure{Name: "Challenged", Value: withRatio(r.Challenged, r.Requests), Note: "of the refused; browsers go on"})
	}
	if c := r.Comparison; c != nil {
		figures = append(figures, figure{Name: "Newly refused", Value: humanize.Comma(c.NewlyRefused), Note: note(int64(len(c.NewlyRefusedKeys)), "keys")},
			figure{Name: "Newly allowed", Value: humanize.Comma(c.NewlyAllowed), Note: note(int64(len(c.NewlyAllowedKeys)), "keys")})
	}
	if r.Requests > 0 {
		figures = append(figures, figure{Name: "From", Value: r.First.Format("2 Jan 2006"), Note: r.First.Format("15:04:05 MST")},
			figure{Name: "To", Value: r.Last.Format("2 Jan 2006"), Note: r.Last.Format("15:04:05 MST")})
	}
	return figures
}

// htmlBar is a bar of a table.
type htmlBar struct{ Class, Width string }

// newBar returns the bar of a part under plan number plan. A part that is not zero is
// seen.
func newBar(plan int, part, whole int64) htmlBar {
	b := htmlBar{Class: "first", Width: "0"}
	if plan > 0 {
		b.Class = "second"
	}
	if part > 0 && whole > 0 {
		b.Width = fmt.Sprintf("%.1f", max(1, 100*float64(part)/float64(whole)))
	}
	return b
}

// timelineChart is a timeline in the coordinates of its drawing.
type timelineChart struct {
	Width, Height              int
	Requests, Refused, Against string // Against is "" without a second plan
	Top                        int64  // the value at the upper edge
	Step                       string
	Marks                      []string
}

// chart returns nil for a timeline of nothing.
func (t *Timeline) chart(compared bool) *timelineChart {
	if t == nil {
		return nil
	}
	c := &timelineChart{Width: len(t.Points) * 4, Height: 180, Step: Seconds(t.Step)}
	for _, p := range t.Points {
		c.Top = max(c.Top, p.Requests)
	}
	c.Requests = c.steps(t.Points, true, func(p Point) int64 { return p.Requests })
	c.Refused = c.steps(t.Points, true, func(p Point) int64 { return p.Refused })
	if compared {
		c.Against = c.steps(t.Points, false, func(p Point) int64 { return p.RefusedAgainst })
	}
	layout := "15:04"
	span := time.Duration(t.Step * float64(len(t.Points)) * float64(time.Second))
	if span > 36*time.Hour {
		layout = "2 Jan"
	}
	if span < 10*time.Minute {
		layout = "15:04:05"
	}
	for i := range 5 {
		c.Marks = append(c.Marks, t.Start.Add(span*time.Duration(i)/4).UTC().Format(layout))
	}
	return c
}

// steps outlines the values as columns without gaps, closed along the ground for an area.
func (c *timelineChart) steps(points []Point, area bool, value func(Point) int64) string {
	var b strings.Builder
	if area {
		fmt.Fprintf(&b, "0,%d ", c.Height)
	}
	for i, p := range points {
		y := float64(c.Height) - float64(value(p))*float64(c.Height)/float64(max(1, c.Top))
		fmt.Fprintf(&b, "%d,%.1f %d,%.1f ", i*4, y, i*4+4, y)
	}
	if area {
		fmt.Fprintf(&b, "%d,%d", c.Width, c.Height)
	}
	return strings.TrimSpace(b.String())
}
