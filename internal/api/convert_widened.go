package api

import "github.com/stint-dev/stint/internal/keys"

// widenedWarnings returns a warning for each pattern that was written as a bare
// IPv6 address and so stands for a network; none is the empty list, not null.
func widenedWarnings(patterns ...keys.Pattern) []string {
	warnings := []string{}
	for _, p := range patterns {
		if p.Widened() {
			warnings = append(warnings, "A bare IPv6 address means the network that its client is counted by: this stands for "+
				p.String()+". Write /128 behind the address for it alone.")
		}
	}
	return warnings
}
