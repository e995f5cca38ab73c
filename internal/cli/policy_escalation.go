package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/wire"
)

// applyEscalation changes the escalation of p as the flags of 'policy set' say.
// An escalation that is new needs --escalate, --block-for and --decay-after; its
// cap is its first block's length unless given.
func (f *policyChange) applyEscalation(c *cobra.Command, p *wire.PolicyRequest) error {
	given := c.Flags().Changed
	if !given("escalate") && !given("block-for") && !given("block-factor") && !given("block-cap") && !given("decay-after") {
		return nil
	}
	if f.noEscalation {
		return usagef("--no-escalation takes the escalation away; leave out the flags that describe one")
	}
	isNew := p.Escalation == nil
	if isNew && (!given("escalate") || !given("block-for") || !given("decay-after")) {
		return usagef("the policy has no escalation yet; a new one needs --escalate, --block-for and --decay-after")
	}
	escalation := wire.Escalation{Factor: f.factor}
	if !isNew {
		escalation = *p.Escalation
	}
	if given("escalate") {
		offences, within, err := parseEscalate(f.escalate)
		if err != nil {
			return err
		}
		escalation.Threshold, escalation.Window = offences, within
	}
	if given("block-for") {
		escalation.Duration = f.blockFor.Duration
	}
	if given("block-factor") {
		escalation.Factor = f.factor
	}
	if given("block-cap") {
		escalation.MaxDuration = f.blockCap.Duration
	}
	escalation.MaxDuration = max(escalation.MaxDuration, escalation.Duration)
	if given("decay-after") {
		escalation.DecayAfter = f.decayAfter.Duration
	}
	p.Escalation = &escalation
	return nil
}

// parseEscalate reads "100/10m".
func parseEscalate(text string) (offences int, within wire.Duration, err error) {
	count, window, found := strings.Cut(text, "/")
	offences, err = strconv.Atoi(count)
	if err == nil {
		err = within.UnmarshalText([]byte(window))
	}
	if err != nil || !found {
		return 0, 0, usagef("--escalate %q is not refusals/time; write for example 100/10m", text)
	}
	return offences, within, nil
}
