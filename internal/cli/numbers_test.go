package cli

import (
	"errors"
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/wire"
)

// TestFlagsReadNumbersAsPagesShowThem: a count that is copied from a page means the same in every
// flag, and a comma between rules still separates them.
func TestFlagsReadNumbersAsPagesShowThem(t *testing.T) {
	for _, c := range commands(testRoot()) {
		for _, name := range []string{"limit", "cost", "keys", "min-offences"} {
			f := c.Flags().Lookup(name)
			if f == nil || f.Value.Type() != "int" && f.Value.Type() != "int64" {
				continue
			}
			if err := f.Value.Set("25,170"); err != nil || f.Value.String() != "25170" {
				t.Errorf("%s --%s 25,170: %s, %v", c.CommandPath(), name, f.Value, err)
			}
			if err := f.Value.Set("25.170"); err == nil {
				t.Errorf("%s --%s takes 25.170 for %s", c.CommandPath(), name, f.Value)
			}
		}
	}
	if n, _, err := parseEscalate("1,000/10m"); err != nil || n != 1000 {
		t.Errorf("parseEscalate: %d, %v", n, err)
	}
	c, f, p := &cobra.Command{}, policyChange{}, wire.PolicyRequest{}
	f.add(c)
	if err := errors.Join(c.ParseFlags([]string{"--rule", "1,000/h,20/m", "--rule", "5/s"}), f.apply(c, &p)); err != nil || !slices.Equal(p.Rules, []string{"1,000/h", "20/m", "5/s"}) {
		t.Errorf("the rules are %q, %v", p.Rules, err)
	}
}
