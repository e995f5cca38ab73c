package local

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/fail2ban"
	"github.com/stint-dev/stint/internal/policyfile"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// Apply applies policies on the server, as 'apply' does.
type Apply func(c *cobra.Command, policies []wire.PolicyRequest, shadow, yes bool) error

// importer is a command that converts the configuration of another program.
type importer struct {
	use, short, long, example string
	convert                   func(con *console.Console, path string) (*conversion, error)
	// counts is the algorithm by which the other program counts, "" if the policies count as it does.
	counts string
}

var importers = []importer{
	{"fail2ban FOLDER", "Convert the enabled jails of fail2ban to policies", `Write a policy file for the enabled jails of fail2ban, such as those below /etc/fail2ban, for
'apply --file'. Comments in it say how each log is followed, which addresses are exempt, and
what of a jail has no equivalent.

maxretry failures within findtime block the address for bantime, as the jail does. Blocks take
effect where Stint is asked, and for all ports by 'firewall nftables'.`, "admin import fail2ban /etc/fail2ban > jails.yaml", convertFolder, ""},
	{"envoy FILE", "Convert the descriptors of envoyproxy/ratelimit to policies", `Write a policy file for the descriptors of a configuration of envoyproxy/ratelimit, for
'apply --file'. Comments in it say what has no equal. Envoy then asks Stint instead; see
docs/doors/envoy.md.`, "admin import envoy ratelimit.yaml > policies.yaml\nadmin import envoy ratelimit.yaml --log access.log", ofFile(convertRateLimits), algorithms.FixedWindow},
	{"nginx FILE", "Convert the limit_req zones of nginx to policies", `Write a policy file for the limit_req zones of nginx, for 'apply --file'. Comments in it say what
has no equal. nginx then asks Stint; see docs/doors/nginx.md. Files that it includes are not
read: print them as one file by 'nginx -T'.`, "admin import nginx all.conf > policies.yaml\nadmin import nginx all.conf --log access.log\nadmin import nginx all.conf --apply --shadow", ofFile(convertNginx), ""},
	{"crowdsec FILE", "Say what the profiles of CrowdSec are in Stint, and how its decisions are imported", `Say what the profiles of CrowdSec, such as /etc/crowdsec/profiles.yaml, are in Stint: how long bans
last, what has no equal, and how decisions and allow-lists are imported. It makes no policies,
since what leads to a ban is in scenarios.`, "admin import crowdsec /etc/crowdsec/profiles.yaml", ofFile(convertCrowdSec), ""},
}

// importHelp is the part of the help that all importers share.
const importHelp = `

Nothing is changed, unless --apply applies the policies after it has asked. --log tries them on
access logs instead of printing them: it says who would have been refused and, where the other
program counts in another way, whom that program would have refused.`

// NewImport returns the commands that convert the configuration of other programs.
func NewImport(con *console.Console, apply Apply) *cobra.Command {
	c := &cobra.Command{Use: "import", Short: "Convert the configuration of another program", Example: "admin import fail2ban /etc/fail2ban > jails.yaml"}
	for _, i := range importers {
		c.AddCommand(i.command(con, apply))
	}
	return c
}

func (i *importer) command(con *console.Console, apply Apply) *cobra.Command {
	var logs []string
	var applies, shadow, yes bool
	f := backtestFlags{limit: 20}
	c := &cobra.Command{
		Use: i.use, Short: i.short, Long: i.long + importHelp, Example: i.example, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			made, err := i.convert(con, args[0])
			if err != nil {
				return err
			}
			switch {
			case (shadow || yes) && !applies:
				return console.Usagef("--shadow and --yes need --apply")
			case len(logs) == 0 && !applies:
				return made.write(con.Out())
			case len(made.policies) == 0:
				return console.Usagef("no policy was made of it; see it without --log and --apply")
			}
			if _, err := con.Stderr.Write(made.comments.Bytes()); err != nil {
				return err
			}
			if len(logs) > 0 {
				if err := made.try(c.Context(), con, logs, i.counts, &f); err != nil {
					return err
				}
			}
			if !applies {
				return nil
			}
			if !shadow && !yes {
				refuse := fmt.Sprintf("%s will be applied and refuse requests at once; with --shadow they only count.", output.Amount(len(made.policies), "policy", "policies"))
				if made.exemptions > 0 {
					refuse += fmt.Sprintf(" Exemptions that are not made by it: %d; run the commands above first.", made.exemptions)
				}
				if err := con.Confirm(refuse, "--yes"); err != nil {
					return err
				}
			}
			return apply(c, made.policies, shadow, yes)
		},
	}
	flags := c.Flags()
	flags.StringArrayVar(&logs, "log", nil, "try the policies on this access log; may be repeated")
	flags.BoolVar(&applies, "apply", false, "apply the policies on the server after asking")
	flags.BoolVar(&shadow, "shadow", false, "with --apply: in shadow mode, in which they refuse nobody")
	flags.BoolVar(&yes, "yes", false, "with --apply: do not ask")
	f.logFlags.add(c)
	return c
}

// try prints whom the policies would have refused, beside whom they would under the algorithm by which the other
// program counts.
func (c *conversion) try(ctx context.Context, con *console.Console, logs []string, counts string, f *backtestFlags) error {
	policies := make([]*rules.Policy, len(c.policies))
	for i, p := range c.policies {
		var err error
		if policies[i], err = policyfile.Policy(p); err != nil {
			return err
		}
	}
	options := backtest.Options{Plan: backtest.PoliciesPlan(policies)}
	if counts != "" {
		before, err := under("log", options.Plan, counts, nil)
		if err != nil {
			return err
		}
		options.Against = &before
	}
	var err error
	if options.Outcomes, err = f.readOutcomes(nil); err != nil {
		return err
	}
	return replay(ctx, con, logs, f, options)
}

// ofFile returns a conversion of one file of a program.
func ofFile(convert func(io.Reader) (*conversion, error)) func(*console.Console, string) (*conversion, error) {
	return func(con *console.Console, path string) (*conversion, error) {
		file, err := con.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return convert(file)
	}
}

func convertFolder(_ *console.Console, folder string) (*conversion, error) {
	jails, err := fail2ban.ReadJails(folder)
	if err != nil {
		return nil, console.Usagef("%w", err)
	}
	if len(jails) == 0 {
		return nil, console.Usagef("no jail below %s is enabled", folder)
	}
	return convertJails(jails), nil
}

// forEver is how long the block of a jail lasts that never ends it.
const forEver = 365 * 24 * time.Hour

func convertJails(jails []fail2ban.Jail) *conversion {
	c := &conversion{}
	note := c.note
	exempt := map[string]bool{}
	for i := range jails {
		j := &jails[i]
		p, left := policyOf(j)
		if _, err := policyfile.Policy(p); err != nil {
			left = append(left, fmt.Sprintf("no policy can be made of it: %v", err))
		} else {
			c.policies = append(c.policies, p)
		}
		note("%s", j.Name)
		filter := fmt.Sprintf("--filter '%s' --filter-outcome %s", j.Filter, p.Outcome)
		if len(j.Logs) > 0 {
			note("  stint-admin follow %s %s --state /var/lib/stint/%s.json", strings.Join(j.Logs, " "), filter, p.Outcome)
		} else {
			note("  journalctl -f -o short-iso %s >> /run/stint/%s.log", j.JournalMatch, p.Outcome)
			note("  stint-admin follow /run/stint/%s.log %s --state /var/lib/stint/%s.json", p.Outcome, filter, p.Outcome)
		}
		f, err := fail2ban.ReadFilter(j.Filter, nil)
		if err != nil {
			left = append(left, err.Error())
		} else {
			left = append(left, f.Skipped...)
		}
		for _, text := range append(left, j.Left...) {
			note("  not converted: %s", text)
		}
		for _, network := range j.Ignored {
			if !exempt[network.String()] {
				exempt[network.String()] = true
				c.exemptions++
				note("  stint-admin exemption add %s --permanent --reason 'ignoreip of fail2ban'", network)
			}
		}
	}
	return c
}

// policyOf returns the policy of a jail, and what of it is different. The report that finds the
// limit full is the failure that leads to the block, so that the limit is one below maxretry.
func policyOf(j *fail2ban.Jail) (p wire.PolicyRequest, left []string) {
	duration, longest := j.BanTime, j.MaxBanTime
	if duration == 0 {
		duration = forEver
		left = append(left, "bantime for ever: blocks end after a year")
	}
	limit := j.MaxRetry - 1
	if limit == 0 {
		limit = 1
		left = append(left, "maxretry = 1: the second failure within findtime leads to the block")
	}
	longest = max(min(longest, forEver), duration)
	name := fail2ban.OutcomeName(j.Name)
	return wire.PolicyRequest{
		Name: "fail2ban-" + strings.ReplaceAll(name, "_", "-"), Match: []string{"ip:*"}, Outcome: name,
		Rules: []string{fmt.Sprintf("%d/%s", limit, wire.Duration(j.FindTime))},
		Escalation: &wire.Escalation{
			Threshold: 1, Window: wire.Duration(j.FindTime), Duration: wire.Duration(duration), Factor: j.Factor, MaxDuration: wire.Duration(longest), DecayAfter: wire.Duration(max(duration, 24*time.Hour)),
		},
	}, left
}
