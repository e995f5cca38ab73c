package console

import (
	"math"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/internal/rules"
)

// signedNumber annotates the flags of AllowNegative.
const signedNumber = "signed_number"

// AllowNegative marks a flag with a number that may be negative. It panics if there is no
// such flag.
func AllowNegative(c *cobra.Command, flag string) {
	if err := c.Flags().SetAnnotation(flag, signedNumber, []string{"true"}); err != nil {
		panic(err)
	}
}

// CheckNumbers returns a usage error for a flag that is given a negative number, NaN or
// infinity, unless AllowNegative marks it.
func CheckNumbers(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if _, isSigned := f.Annotations[signedNumber]; err != nil || isSigned {
			return
		}
		switch f.Value.Type() {
		case "int", "int64", "float64":
			n, parsed := strconv.ParseFloat(f.Value.String(), 64)
			if parsed != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
				err = Usagef("--%s is %s; it must be a number from 0 up; see '%s --help'", f.Name, f.Value, c.CommandPath())
			}
		}
	})
	return err
}

// ReadGroupedNumbers makes the flags of a command with whole numbers take 1,000 for 1000, as
// fields of the pages do.
func ReadGroupedNumbers(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "int", "int64":
			f.Value = groupedNumber{f.Value}
		}
	})
}

// groupedNumber is the value of a flag.
type groupedNumber struct{ pflag.Value }

func (n groupedNumber) Set(text string) error {
	if count, err := rules.ParseCount(text); err == nil {
		text = strconv.Itoa(count)
	}
	return n.Value.Set(text)
}
