package cli

import (
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
)

// mustHave marks a required flag.
func mustHave(c *cobra.Command, flag string) {
	if err := c.MarkFlagRequired(flag); err != nil {
		panic(err) // the flag's name is misspelled in this package
	}
}

// keep returns the items that test holds for.
func keep[T any](items []T, test func(T) bool) []T {
	kept := []T{}
	for _, item := range items {
		if test(item) {
			kept = append(kept, item)
		}
	}
	return kept
}

// joinAnd formats a list in words: "a, b and c".
func joinAnd(texts []string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

// amount formats a count with its noun: "1 key", "1,284 keys".
func amount[N ~int | ~int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return humanize.Comma(int64(n)) + " " + many
}
