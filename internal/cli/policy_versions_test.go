package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func TestUsageSaysThatItIsOfASample(t *testing.T) {
	usage := &wire.PolicyUsage{Rules: []wire.RuleUsage{{Rule: "20/1m", Keys: 3}}}
	for _, ratio := range []float64{0.0625, 1} {
		usage.SampleRatio = ratio
		for format, column := range map[output.Format]string{output.Table: "", output.CSV: ",sample_ratio\n"} {
			out, notes := printed(t, format, func(con *console.Console) error { return printUsage(con, usage) })
			if said := strings.Contains(notes, "6.2% of the keys"); said != (ratio < 1) {
				t.Errorf("%s of a part of %g: %q", format, ratio, notes)
			}
			if !strings.Contains(out, column) {
				t.Errorf("%s: %q", format, out)
			}
		}
	}
}

// printed returns what print writes to standard output and to standard error in a format.
func printed(t *testing.T, format output.Format, print func(*console.Console) error) (out, notes string) {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	con := &console.Console{Format: string(format), System: console.System{
		Stdout: open("stdout"), Stderr: open("stderr"), Getenv: func(string) string { return "" }, Now: time.Now,
	}}
	if err := print(con); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, name := range []string{"stdout", "stderr"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	return texts["stdout"], texts["stderr"]
}
