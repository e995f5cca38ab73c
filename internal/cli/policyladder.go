package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/stint-dev/stint/internal/api/v1"
)

// applyEscalation changes the ladder of p as the flags of 'policy set' say.
// A ladder that is new needs --escalate, --block-for and --forget-after; its
// cap is its first block's length unless given.
func (f *policyChange) applyEscalation(c *cobra.Command, p *v1.PolicyRequest) error {
	given := c.Flags().Changed
	if !given("escalate") && !given("block-for") && !given("block-factor") && !given("block-cap") && !given("forget-after") {
		return nil
	}
	if f.noEscalation {
		return usagef("--no-escalation takes the ladder away; leave out the flags that describe one")
	}
	isNew := p.Escalation == nil
	if isNew && (!given("escalate") || !given("block-for") || !given("forget-after")) {
		return usagef("the policy has no ladder yet; a new one needs --escalate, --block-for and --forget-after")
	}
	ladder := v1.Escalation{Factor: f.factor}
	if !isNew {
		ladder = *p.Escalation
	}
	if given("escalate") {
		offences, within, err := parseEscalate(f.escalate)
		if err != nil {
			return err
		}
		ladder.Offences, ladder.Within = offences, within
	}
	if given("block-for") {
		ladder.Block = f.blockFor.Duration
	}
	if given("block-factor") {
		ladder.Factor = f.factor
	}
	if given("block-cap") {
		ladder.Cap = f.blockCap.Duration
	}
	ladder.Cap = max(ladder.Cap, ladder.Block)
	if given("forget-after") {
		ladder.ForgetAfter = f.forgetAfter.Duration
	}
	p.Escalation = &ladder
	return nil
}

// parseEscalate reads "100/10m".
func parseEscalate(text string) (offences int, within v1.Duration, err error) {
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
