package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(monitor, newTraffic, newAttack) }

func newTraffic(con *console.Console) *cobra.Command {
	var span spanFlags
	var policy string
	var step durationFlag
	var rules bool
	c := &cobra.Command{
		Use:   "traffic",
		Short: "Show how much was allowed and refused over time",
		Long: `Show how many checks were allowed and refused over the last hour or another time range
(exact), and how many distinct keys there were (estimated). With --rules, show how often
each rule and block refused, including those that never did.`,
		Example: "admin traffic --last 24h --step 1h\nadmin traffic --policy default -o csv\nadmin traffic --rules --last 7d\nadmin traffic by path --exclude path=/health",
	}
	show := online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
		if rules {
			return printAll(con, ruleTotalColumns)(client.Items(c.Context(), server, wire.RuleTotals, span.timeRange()))
		}
		traffic, err := client.Call(c.Context(), server, wire.GetTraffic, wire.TrafficOf{Policy: policy, Step: step.String(), TimeRange: span.timeRange()})
		if err != nil {
			return err
		}
		if p := con.Printer(); p.Format == output.JSON {
			return p.JSON(traffic)
		}
		return printItems(con, traffic.Points, trafficColumns)
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return runGroup(c, args) // an unknown subcommand
		}
		return show(c, args)
	}
	c.AddCommand(newTrafficBy(con))
	span.add(c)
	c.Flags().StringVar(&policy, "policy", "", "only of this policy")
	c.Flags().Var(&step, "step", "the length of each row's interval, in whole minutes")
	c.Flags().BoolVar(&rules, "rules", false, "show what each rule and block refused")
	c.MarkFlagsMutuallyExclusive("rules", "policy")
	c.MarkFlagsMutuallyExclusive("rules", "step")
	return c
}

func newTrafficBy(con *console.Console) *cobra.Command {
	var span spanFlags
	var only, exclude []string
	var decision string
	var limit int
	var clients bool
	c := &cobra.Command{
		Use:   "by DIMENSION",
		Short: "Show what was requested: by path, agent, host, method, policy, rule, outcome, country, asn, bot or verified",
		Long: `Show the paths, agents, hosts, methods, policies, rules, reported outcomes, countries or
networks with most requests in the last hour or another time range. --only and --exclude
take dimension=value, again and again; a final * matches any text. Ids in paths are
shown as {id}. The counts are at least; standard error says how many requests have no value
that was kept, how many more the filters may select, and what could not be read. With
--clients, show the keys that made most of these requests.`,
		Example: "admin traffic by path\nadmin traffic by path --exclude path=/health --exclude agent=uptimerobot\n" +
			"admin traffic by agent --only 'path=/api/*' --decision refused\nadmin traffic by path --clients --only agent=gptbot\nadmin traffic by path --last 7d --limit 1000 -o csv",
		Args: cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			in := wire.TrafficBy{Dimension: args[0], Limit: limit, TrafficFilter: wire.TrafficFilter{
				Is: strings.Join(only, ","), Not: strings.Join(exclude, ","), Decision: decision, TimeRange: span.timeRange(),
			}}
			found, err := client.Call(c.Context(), server, wire.GetTrafficBy, in)
			if err != nil {
				return err
			}
			p := con.Printer()
			if p.Format == output.JSON {
				return p.JSON(found)
			}
			if n := found.Unnamed.Requests; n > 0 {
				con.Notef("%d of %d requests have no %s that was kept; one %s may have %d more", n, found.Total.Requests, found.Dimension, found.Dimension, found.Overcount)
			}
			if found.Unsure > 0 {
				con.Notef("the filters may select %d more requests, whose values were not kept together", found.Unsure)
			}
			if found.Unread > 0 {
				con.Notef("%d parts of this time could not be read, and their requests are missing", found.Unread)
			}
			if clients {
				list := found.Clients
				if decision != "" && decision != "allowed" {
					list = found.Offenders
				}
				return printItems(con, list, requestClientColumns)
			}
			return printItems(con, found.Items, requestGroupColumns)
		}),
	}
	span.add(c)
	c.Flags().StringArrayVar(&only, "only", nil, "only requests with this value, for example path=/login; may be repeated")
	c.Flags().StringArrayVar(&exclude, "exclude", nil, "no requests with this value, for example path=/health; may be repeated")
	c.Flags().StringVar(&decision, "decision", "", "rank by the requests that were allowed, refused, limited, blocked, challenged, unavailable or reported; by all if omitted")
	c.Flags().IntVar(&limit, "limit", 50, "how many values, 1 to 1000")
	c.Flags().BoolVar(&clients, "clients", false, "show the clients: those with most allowed requests or, with --decision refused, those with most refused ones")
	return c
}

var requestGroupColumns = output.Columns(`value: Value (cut), requests: Requests, allowed: Allowed, limited: Limited, blocked: Blocked,
	challenged: Challenged (drop 1), unavailable: Unavailable (drop 3), reported: Reported (drop 2)`, output.Cells[wire.RequestGroup]{
	"value": func(g wire.RequestGroup) output.Cell {
		if g.Value == "" {
			return output.Words("(not known)", "")
		}
		return output.Text(string(g.Value))
	},
})

var requestClientColumns = output.Columns[wire.RequestClient]("key: Key, requests: Requests")

var trafficColumns = []output.Column[wire.TrafficPoint]{
	{Name: "at", Head: "From", Cell: func(t wire.TrafficPoint) output.Cell { return output.Time(t.At.Time) }},
	{Name: "allowed", Head: "Allowed", Right: true, Cell: func(t wire.TrafficPoint) output.Cell { return output.Number(t.Allowed) }},
	{Name: "limited", Head: "Limited", Right: true, Cell: func(t wire.TrafficPoint) output.Cell { return output.Number(t.Limited) }},
	{Name: "blocked", Head: "Blocked", Right: true, Cell: func(t wire.TrafficPoint) output.Cell { return output.Number(t.Blocked) }},
	{Name: "challenged", Head: "Challenged", Right: true, Cell: func(t wire.TrafficPoint) output.Cell { return output.Number(t.Challenged) }},
	{Name: "unavailable", Head: "Unavailable", Right: true, Drop: 1, Cell: func(t wire.TrafficPoint) output.Cell { return output.Number(t.Unavailable) }},
	{Name: "shadow_limited", Head: "Shadow", Right: true, Drop: 2, Cell: func(t wire.TrafficPoint) output.Cell { return output.Number(t.ShadowLimited) }},
	{Name: "keys_estimate", Head: "Keys (est.)", Right: true, Cell: func(t wire.TrafficPoint) output.Cell { return output.Number(t.KeysEstimate) }},
}

var ruleTotalColumns = output.Columns(`policy: Policy, decision: Decision (drop 1), refused_by: By (cut), refused: Refused,
	would_refuse: Would refuse, ratio: Ratio (right), keys: Keys`, output.Cells[wire.RuleTotal]{
	"ratio": func(r wire.RuleTotal) output.Cell { return output.Ratio(r.Ratio) },
})

func newAttack(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:   "attack",
		Short: "Show whether there is an attack now, and its source",
		Long: `Compare the requests refused per second now with the baseline, which is the median of the
hours of the last day. Three times the baseline, and at least half a request per second
more, is an attack. The source is the range with at least half of the offences since it
began, or the key with at least a third of them. Of the further keys that policies
count, such as accounts, only a network is a source: an account may be what is attacked.
'attack list' lists past attacks.`,
		Example: "admin attack\nadmin attack -o json\nadmin attack list",
	}
	show := online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
		return printOne(con, attackColumns)(client.Call(c.Context(), server, wire.GetAttack, wire.None{}))
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return runGroup(c, args) // an unknown subcommand
		}
		return show(c, args)
	}
	c.AddCommand(newAttackList(con))
	return c
}

func newAttackList(con *console.Console) *cobra.Command {
	return pagedCommand(con, cobra.Command{
		Short: "List the attacks that were announced: begin, end, peak rate, sources",
		Long: `List the attacks that were announced, the newest first. An attack is announced once 30
checks more than normal were refused, and ends after three minutes without an attack.`,
		Example: "admin attack list\nadmin attack list -o json",
	}, wire.ListAttacks, announcedColumns, func() wire.PageList { return wire.PageList{} })
}

var announcedColumns = output.Columns(`began_at: Began, ended_at: Ended (or goes on), peak: Peak per second (right),
	normal: Normal (right drop 1), refused: Refused, sources: Sources (cut)`, output.Cells[wire.AnnouncedAttack]{
	"peak":   func(a wire.AnnouncedAttack) output.Cell { return perSecond(&a.Peak) },
	"normal": func(a wire.AnnouncedAttack) output.Cell { return perSecond(&a.Normal) },
	"sources": func(a wire.AnnouncedAttack) output.Cell {
		patterns := make([]string, len(a.Sources))
		for i, s := range a.Sources {
			patterns[i] = s.Pattern
		}
		return output.Text(strings.Join(patterns, ", "))
	},
})

var attackColumns = output.Columns(`active: Attack, since: Since, refused: Refused per second (right), baseline: Baseline (right),
	allowed: Allowed per second (right), source: Source, ratio: Of all offences (right), keys: Keys (right), policy: Policy, rule: Rule,
	blocked: Blocked, exempt: Exempt, policies_in_force: Policies for attacks in force, sources_in_force: Sources for attacks in force`, output.Cells[wire.Attack]{
	"refused":           func(t wire.Attack) output.Cell { return perSecond(refusedRate(&t.Now)) },
	"baseline":          func(t wire.Attack) output.Cell { return perSecond(refusedRate(t.Baseline)) },
	"allowed":           func(t wire.Attack) output.Cell { return perSecond(&t.Now.Allowed) },
	"source":            attackSource(func(s *wire.AttackSource) output.Cell { return output.Text(s.Pattern) }),
	"ratio":             attackSource(func(s *wire.AttackSource) output.Cell { return output.Ratio(s.Ratio) }),
	"keys":              attackSource(func(s *wire.AttackSource) output.Cell { return output.Number(max(1, s.Keys)) }),
	"policy":            attackSource(func(s *wire.AttackSource) output.Cell { return output.Text(string(s.Policy)) }),
	"rule":              attackSource(func(s *wire.AttackSource) output.Cell { return output.Text(string(s.Rule)) }),
	"blocked":           attackSource(func(s *wire.AttackSource) output.Cell { return output.YesNo(s.Blocked) }),
	"exempt":            attackSource(func(s *wire.AttackSource) output.Cell { return output.YesNo(s.Exempt) }),
	"policies_in_force": func(t wire.Attack) output.Cell { return output.Text(strings.Join(t.InForce.Policies, ", ")) },
	"sources_in_force":  func(t wire.Attack) output.Cell { return output.Text(strings.Join(t.InForce.Sources, ", ")) },
})

// attackSource returns the cell of a source, an empty one if there is none.
func attackSource(cell func(*wire.AttackSource) output.Cell) func(wire.Attack) output.Cell {
	return func(t wire.Attack) output.Cell {
		if t.Source == nil {
			return output.Text("")
		}
		return cell(t.Source)
	}
}

// refusedRate returns the refused checks per second, nil for nil.
func refusedRate(r *wire.Rates) *float64 {
	if r == nil {
		return nil
	}
	refused := r.Limited + r.Blocked
	return &refused
}

func perSecond(rate *float64) output.Cell {
	if rate == nil {
		return output.Text("")
	}
	text := strconv.FormatFloat(*rate, 'f', 1, 64)
	return output.Words(text, text)
}
