// Package manual writes manual pages, in the macros of man(7).
package manual

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/internal/buildinfo"
)

// Page is a manual page. Its texts are plain.
type Page struct {
	Name     string // without the section
	Section  int
	Short    string // one line about the page
	Sections []Section
}

// Section is a part of a page. Of its contents, one is usually set.
type Section struct {
	Head  string
	Text  string         // paragraphs with an empty line between; one that has an indented line keeps its lines
	Lines string         // lines that are kept as they are
	Flags *pflag.FlagSet // those that are not hidden
	Pages []string       // other pages, with their sections
}

// Write writes the page of a build.
func (p Page) Write(w io.Writer, build buildinfo.Info) error {
	var out strings.Builder
	date := ""
	if !build.Date.IsZero() {
		date = build.Date.Format("2006-01-02")
	}
	fmt.Fprintf(&out, ".TH %s %d %s %s %s\n.nh\n.SH NAME\n%s \\- %s\n", quote(strings.ToUpper(p.Name)), p.Section, quote(date), quote("Stint "+build.Version), quote("Stint"),
		escape(p.Name), escape(p.Short))
	for _, s := range p.Sections {
		s.write(&out)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (s Section) write(out *strings.Builder) {
	if s.Text == "" && s.Lines == "" && len(s.Pages) == 0 && (s.Flags == nil || !s.Flags.HasAvailableFlags()) {
		return
	}
	fmt.Fprintf(out, ".SH %s\n", escape(strings.ToUpper(s.Head)))
	for i, paragraph := range strings.Split(strings.TrimSpace(s.Text), "\n\n") {
		if i > 0 {
			out.WriteString(".PP\n")
		}
		if strings.Contains("\n"+paragraph, "\n ") {
			writeLines(out, paragraph)
		} else if paragraph != "" {
			fmt.Fprintln(out, escape(paragraph))
		}
	}
	if s.Lines != "" {
		writeLines(out, s.Lines)
	}
	if s.Flags != nil {
		s.Flags.VisitAll(func(f *pflag.Flag) { writeFlag(out, f) })
	}
	for i, page := range s.Pages {
		end := ","
		if i == len(s.Pages)-1 {
			end = ""
		}
		name, section, _ := strings.Cut(page, "(")
		fmt.Fprintf(out, ".BR %s (%s%s\n", escape(name), section, end)
	}
}

// writeLines writes lines that are not filled.
func writeLines(out *strings.Builder, text string) {
	fmt.Fprintf(out, ".nf\n%s\n.fi\n", escape(strings.Trim(text, "\n")))
}

// writeFlag writes a flag unless it is hidden, as its help has it.
func writeFlag(out *strings.Builder, f *pflag.Flag) {
	if f.Hidden {
		return
	}
	short := ""
	if f.Shorthand != "" {
		short = `\fB\-` + escape(f.Shorthand) + `\fR, `
	}
	value, usage := pflag.UnquoteUsage(f)
	if value != "" {
		value = ` \fI` + escape(value) + `\fR`
	}
	fmt.Fprintf(out, ".TP\n%s\\fB\\-\\-%s\\fR%s\n%s", short, escape(f.Name), value, escape(usage))
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" && f.DefValue != "0s" {
		fmt.Fprintf(out, " (default %s)", escape(f.DefValue))
	}
	out.WriteString("\n")
}

var special = strings.NewReplacer(`\`, `\(rs`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// escape returns text as roff shows it: no character is a macro, and a hyphen can be copied to a
// shell.
func escape(text string) string {
	lines := strings.Split(special.Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// quote returns one argument of a macro.
func quote(text string) string { return `"` + strings.ReplaceAll(escape(text), `"`, `\(dq`) + `"` }
