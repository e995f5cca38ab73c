package bench_test

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"text/template"
	"time"
)

// row is one measurement. goal is "" where there is none.
type row struct {
	What, Measured, Goal string
	Before               string // what the last report says, "" if it has no such row
	Result               string
}

type section struct {
	Title, Method string
	Rows          []row
}

// report is docs/BENCHMARKS.md in the making.
type report struct {
	b        *testing.B
	Date     string
	Machine  string
	Versions string
	Load     string
	Sections []*section
	before   map[string]string // what the last report measured, by section and row
}

func newReport(b *testing.B) *report {
	return &report{b: b, Date: time.Now().UTC().Format("2 January 2006"), Machine: thisMachine(), Versions: versions(b), Load: loadAverage(), before: readReport(os.Getenv("STINT_BENCH_REPORT"))}
}

// readReport returns the measurements of a report by section and row, without their
// details; nothing if there is none.
func readReport(path string) map[string]string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	rows, title := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if after, found := strings.CutPrefix(line, "## "); found {
			title = after
		}
		if cells := strings.Split(line, " | "); len(cells) > 2 && strings.HasPrefix(line, "| ") {
			measured, _, _ := strings.Cut(cells[1], " (")
			rows[title+"\n"+strings.TrimPrefix(cells[0], "| ")] = measured
		}
	}
	return rows
}

func (r *report) begin(title, method string) {
	r.Sections = append(r.Sections, &section{Title: title, Method: method})
	r.b.Logf("== %s", title)
}

func (r *report) add(what, measured string) { r.row(row{What: what, Measured: measured}) }

// atLeast and atMost add a measurement beside its goal.
func (r *report) atLeast(what string, value, goal float64, form string, rest string) {
	r.against(what, value, goal, value >= goal, "at least", form, rest)
}

func (r *report) atMost(what string, value, goal float64, form string, rest string) {
	r.against(what, value, goal, value <= goal, "at most", form, rest)
}

func (r *report) against(what string, value, goal float64, reached bool, word, form, rest string) {
	verdict := "missed"
	if reached {
		verdict = "reached"
	}
	r.row(row{What: what, Measured: strings.TrimSpace(fmt.Sprintf(form, value) + " " + rest), Goal: word + " " + fmt.Sprintf(form, goal), Result: verdict})
}

func (r *report) row(one row) {
	last := r.Sections[len(r.Sections)-1]
	one.Before = r.before[last.Title+"\n"+one.What]
	last.Rows = append(last.Rows, one)
	r.b.Logf("%s: %s (goal %s) %s", one.What, one.Measured, one.Goal, one.Result)
}

//go:embed report.md.tmpl
var reportText string

// write writes the report to the file that STINT_BENCH_REPORT names.
func (r *report) write(text string) {
	path := os.Getenv("STINT_BENCH_REPORT")
	if path == "" {
		return
	}
	file, err := os.Create(path)
	if err != nil {
		r.b.Fatal(err)
	}
	defer file.Close()
	if err := template.Must(template.New("report").Parse(text)).Execute(file, r); err != nil {
		r.b.Fatal(err)
	}
}

// loadAverage is of the last minute.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(text))[0]
}

func thisMachine() string {
	model := "a processor of unknown kind"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	memory := ""
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		memory = fmt.Sprintf(", %.0f GB of memory", number(text, `MemTotal:\s+(\d+)`)/1e6)
	}
	return fmt.Sprintf("%s, %d cores%s, %s/%s", model, runtime.NumCPU(), memory, runtime.GOOS, runtime.GOARCH)
}

func versions(b *testing.B) string {
	all := []string{runtime.Version()}
	for _, command := range [][]string{{"redis-server", "--version"}, {"go", "list", "-m", "-f", "{{.Path}} {{.Version}}", "github.com/gofiber/fiber/v2", "github.com/valyala/fasthttp", "github.com/redis/go-redis/v9"}} {
		out, err := exec.CommandContext(b.Context(), command[0], command[1:]...).Output()
		if err != nil {
			b.Fatal(err)
		}
		text := strings.TrimSpace(string(out))
		if command[0] == "redis-server" {
			text = strings.Join(strings.Fields(text)[:3], " ")
		}
		all = append(all, strings.ReplaceAll(text, "\n", ", "))
	}
	return strings.Join(all, ", ")
}
