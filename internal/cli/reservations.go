package cli

import (
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(monitor, newReservation) }

var cancelledColumns = output.Columns[*wire.Cancelled]("freed: Freed")

func newReservation(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:   "reservation",
		Short: "Cancel reservations, and what cancellable checks were charged",
		Long: `Cancel reservations, and what cancellable checks were charged, by the handle that a check with
--max-wait or --cancellable prints.`,
		Example: "admin reservation delete $HANDLE",
	}
	c.AddCommand(&cobra.Command{
		Use:   "delete HANDLE",
		Short: "Cancel a reservation, or what a cancellable check was charged",
		Long: `Cancel a reservation before its time, or what a check with --cancellable was charged, while it
counts and at most for ten minutes. It may be repeated: the charge is taken out once. Freed says
whether that makes room for other requests.`,
		Example: "admin reservation delete $HANDLE",
		Args:    cobra.ExactArgs(1),
		RunE: checkOnline(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return printOne(con, cancelledColumns)(server.Checks.Cancel(c.Context(), args[0]))
		}),
	})
	return c
}
