package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(monitor, newHold) }

// amountFlag is an amount as rules write it: 2000, 500k, 1M.
type amountFlag struct {
	amount int
	given  bool
}

func (f *amountFlag) Set(text string) (err error) {
	f.given = true
	f.amount, err = rules.ParseAmount(text)
	return err
}

func (f *amountFlag) String() string {
	if !f.given {
		return ""
	}
	return strconv.Itoa(f.amount)
}

func (*amountFlag) Type() string { return "amount" }

func newHold(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:   "hold",
		Short: "Settle, release and extend what checks hold",
		Long: `Settle, release and extend holds. A check with --hold, or one of a policy with a hold, holds its
cost until it is settled with what was used. The check prints the handle.`,
		Example: "admin hold settle $HANDLE --cost 3100",
	}
	var used amountFlag
	settle := &cobra.Command{
		Use:     "settle HANDLE",
		Short:   "Settle a hold with what was used",
		Long:    "Settle a hold with what was used, or with what was held. What was not used is returned as if it had\nnever been charged; what was used beyond the hold is charged in full. It may be repeated.",
		Example: "admin hold settle $HANDLE --cost 3100\nadmin hold settle $HANDLE",
		Args:    cobra.ExactArgs(1),
		RunE: checkOnline(con, func(c *cobra.Command, server *client.Client, args []string) error {
			var in wire.Settlement
			if used.given {
				cost := int64(used.amount)
				in.Cost = &cost
			}
			settled, err := server.Checks.Settle(c.Context(), args[0], in)
			return printSettled(con, settled, err)
		}),
	}
	settle.Flags().Var(&used, "cost", "what was used, for example 3100 or 500k; what was held if omitted")
	c.AddCommand(newHoldList(con), settle, &cobra.Command{
		Use:     "release HANDLE",
		Short:   "Release a hold, which charges nothing",
		Example: "admin hold release $HANDLE",
		Args:    cobra.ExactArgs(1),
		RunE: checkOnline(con, func(c *cobra.Command, server *client.Client, args []string) error {
			settled, err := server.Checks.Release(c.Context(), args[0])
			return printSettled(con, settled, err)
		}),
	}, &cobra.Command{
		Use:     "extend HANDLE DURATION",
		Short:   "Renew a hold for a time from now",
		Example: "admin hold extend $HANDLE 10m",
		Args:    cobra.ExactArgs(2),
		RunE: checkOnline(con, func(c *cobra.Command, server *client.Client, args []string) error {
			var hold wire.Duration
			if err := hold.UnmarshalText([]byte(args[1])); err != nil {
				return console.Usagef("the duration %w", err)
			}
			settled, err := server.Checks.Extend(c.Context(), args[0], wire.Extension{Hold: hold})
			return printSettled(con, settled, err)
		}),
	})
	return c
}

// heldUnder is an open hold and the policy under which it is.
type heldUnder struct {
	Policy string `json:"policy"`
	wire.OpenHold
}

var heldColumns = []output.Column[heldUnder]{
	{Name: "policy", Head: "Policy", Cell: func(h heldUnder) output.Cell { return output.Text(h.Policy) }},
	{Name: "amount", Head: "Held", Right: true, Cell: func(h heldUnder) output.Cell { return output.Number(h.Amount) }},
	{Name: "source", Head: "By", Cell: func(h heldUnder) output.Cell { return output.Text(string(h.Source)) }},
	{Name: "taken_at", Head: "Since", Cell: func(h heldUnder) output.Cell { return output.Time(h.TakenAt.Time) }},
	{Name: "expires_at", Head: "Expires", Cell: func(h heldUnder) output.Cell { return output.Time(h.ExpiresAt.Time) }},
}

func newHoldList(con *console.Console) *cobra.Command {
	var policy string
	c := &cobra.Command{
		Use:     "list KEY",
		Short:   "List the open holds of a key",
		Long:    "List the open holds of a key and who asked for them, the oldest first, under each policy that\napplies to it.",
		Example: "admin hold list team:search\nadmin hold list user:17 --policy exports -o json",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			found, err := client.Call(c.Context(), server, wire.ExplainKey, wire.KeyUnder{Key: args[0], Policy: policy})
			if err != nil {
				return err
			}
			all := []heldUnder{}
			statuses := found.Conditional
			if found.Policy != nil {
				statuses = append([]wire.KeyPolicy{*found.Policy}, statuses...)
			}
			for _, s := range statuses {
				for _, h := range s.Holds {
					all = append(all, heldUnder{s.Name, h})
				}
			}
			return printItems(con, all, heldColumns)
		}),
	}
	c.Flags().StringVar(&policy, "policy", "", "only under this policy; the most specific match if omitted")
	return c
}

var settledColumns = output.Columns[*wire.SettledHold]("state: State, held: Held, cost: Cost, over: Beyond a limit, expires_at: Expires")

func printSettled(con *console.Console, s *wire.SettledHold, err error) error {
	if err != nil {
		return err
	}
	return output.One(con.Printer(), s, settledColumns)
}

// sayHold prints what a check holds.
func sayHold(p *output.Printer, h *wire.Hold) {
	if h != nil {
		p.Sayf("Held until %s.", output.When(h.ExpiresAt.Time, p.Now))
		p.Sayf("Handle %s", output.Escape(h.Handle))
	}
}

// whileHeld calls f, renews a hold until f returns, and then settles it with what was held. It releases the
// hold if f has not begun.
func whileHeld(ctx context.Context, con *console.Console, server *client.Client, h *wire.Hold, length wire.Duration, f func() error) error {
	if h == nil {
		return f()
	}
	renewing, stop := context.WithCancel(ctx)
	go supervise.Do("renewing of a hold", func() {
		for supervise.Sleep(renewing, length.Std()/2) == nil {
			if _, err := server.Checks.Extend(renewing, h.Handle, wire.Extension{Hold: length}); err != nil && renewing.Err() == nil {
				con.Notef("The hold could not be renewed: %s", output.Escape(err.Error()))
			}
		}
	})
	err := f()
	stop()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, settling := server.Checks.Settle(ending, h.Handle, wire.Settlement{}); settling != nil {
		con.Notef("The hold could not be settled; it expires: %s", output.Escape(settling.Error()))
	}
	return err
}
