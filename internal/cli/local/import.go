package local

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/fail2ban"
	"github.com/stint-dev/stint/internal/policyfile"
	"github.com/stint-dev/stint/internal/wire"
)

// NewImport returns the commands that convert the configuration of other programs.
func NewImport(con *console.Console) *cobra.Command {
	c := &cobra.Command{Use: "import", Short: "Convert the configuration of another program", Example: "admin import fail2ban /etc/fail2ban > jails.yaml"}
	c.AddCommand(&cobra.Command{
		Use:   "fail2ban FOLDER",
		Short: "Convert the enabled jails of fail2ban to policies",
		Long: `Write a policy file for the enabled jails of fail2ban, such as those below /etc/fail2ban, for
'apply --file'. Comments in it say how each log is followed, which addresses are exempt, and
what of a jail has no equivalent. Nothing is changed.

maxretry failures within findtime block the address for bantime, as the jail does. Blocks take
effect where Stint is asked, and for all ports by 'firewall nftables'.`,
		Example: "admin import fail2ban /etc/fail2ban > jails.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			jails, err := fail2ban.ReadJails(args[0])
			if err != nil {
				return console.Usagef("%w", err)
			}
			if len(jails) == 0 {
				return console.Usagef("no jail below %s is enabled", args[0])
			}
			text, err := convertJails(jails)
			if err != nil {
				return err
			}
			_, err = con.Out().Write(text)
			return err
		},
	})
	c.AddCommand(newFileImport(con, "envoy", "Convert the descriptors of envoyproxy/ratelimit to policies", `Write a policy file for the descriptors of a configuration of envoyproxy/ratelimit, for
'apply --file'. Comments in it say what has no equal. Nothing is changed. Envoy then asks Stint
instead; see docs/doors/envoy.md.`, convertRateLimits), newFileImport(con, "nginx", "Convert the limit_req zones of nginx to policies", `Write a policy file for the limit_req zones of nginx, for 'apply --file'. Comments in it say what
has no equal. Nothing is changed. nginx then asks Stint; see docs/doors/nginx.md. Files that it
includes are not read: print them as one file by 'nginx -T'.`, convertNginx), newFileImport(con, "crowdsec", "Say what the profiles of CrowdSec are in Stint, and how its decisions are imported", `Say what the profiles of CrowdSec, such as /etc/crowdsec/profiles.yaml, are in Stint: how long bans
last, what has no equal, and how decisions and allow-lists are imported. It makes no policies,
since what leads to a ban is in scenarios. Nothing is changed.`, convertCrowdSec))
	return c
}

// newFileImport returns the command that converts one file of a program.
func newFileImport(con *console.Console, program, short, long string, convert func(io.Reader) (*conversion, error)) *cobra.Command {
	return &cobra.Command{
		Use: program + " FILE", Short: short, Long: long, Args: cobra.ExactArgs(1),
		Example: "admin import " + program + " " + program + ".conf > policies.yaml\nadmin apply --file policies.yaml --dry-run",
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := con.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			c, err := convert(file)
			if err != nil {
				return err
			}
			return c.write(con.Out())
		},
	}
}

// forEver is how long the block of a jail lasts that never ends it.
const forEver = 365 * 24 * time.Hour

// convertJails writes the policies of jails as a policy file, with comments in front.
func convertJails(jails []fail2ban.Jail) ([]byte, error) {
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
				note("  stint-admin exemption add %s --permanent --reason 'ignoreip of fail2ban'", network)
			}
		}
	}
	var text bytes.Buffer
	err := c.write(&text)
	return text.Bytes(), err
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
