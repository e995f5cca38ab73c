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

func TestUsageReportsTheSampleRatio(t *testing.T) {
	usage := &wire.PolicyUsage{Rules: []wire.RuleUsage{{Rule: "20/1m", Keys: 3}}}
	for _, ratio := range []float64{0.0625, 1} {
		usage.SampleRatio = ratio
		for format, column := range map[output.Format]string{output.Table: "", output.CSV: ",sample_ratio\n"} {
			out, notes := printed(t, format, func(con *console.Console) error { return printUsage(con, usage) })
			if hasRatio := strings.Contains(notes, "6.2% of the keys"); hasRatio != (ratio < 1) {
				t.Errorf("%s with a sample ratio of %g: got the notes %q", format, ratio, notes)
			}
			if !strings.Contains(out, column) {
				t.Errorf("%s: got the output %q", format, out)
			}
		}
	}
}

// A policy with conditions has no usage of rules, which must not be reported as a sample of no keys.
func TestUsageWithoutRulesReportsNoSample(t *testing.T) {
	for _, format := range []output.Format{output.Table, output.CSV} {
		_, notes := printed(t, format, func(con *console.Console) error { return printUsage(con, &wire.PolicyUsage{}) })
		if notes != "" {
			t.Errorf("%s: got the notes %q, want none", format, notes)
		}
	}
}

func TestDescribeUse(t *testing.T) {
	at := wire.At(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	for want, usage := range map[string]wire.PolicyUsage{
		"": {},
		"applied to about 1 key in the last day and refused none":                              {Keys: 1},
		"decided checks of about 2 keys in the last day, the last at 2026-01-01T12:00:00.000Z": {Keys: 2, LastAt: at},
	} {
		if got := describeUse(&usage, false); got != want {
			t.Errorf("describeUse: got %q, want %q", got, want)
		}
	}
	for want, usage := range map[string]wire.PolicyUsage{
		"": {},
		"applied to about 1 key in the last day and refused none":                                            {Keys: 1},
		"applied to about 40 keys in the last day and would have refused 3 checks":                           {Keys: 40, ShadowLimited: 3},
		"applied to about 40 keys in the last day and refused 1 check, the last at 2026-01-01T12:00:00.000Z": {Keys: 40, Limited: 1, LastAt: at},
	} {
		if got := describeUse(&usage, true); got != want {
			t.Errorf("of an additional policy: got %q, want %q", got, want)
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
