package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newNotify(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:     "notify",
		Short:   "Show the notifications, or test a channel",
		Example: "admin notify list\nadmin notify test webhook",
	}
	c.AddCommand(newNotifyList(con), newNotifyTest(con))
	return c
}

func newNotifyList(con *console.Console) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the channels and the newest notifications",
		Example: "admin notify list",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			found, err := server.Notifications.List(c.Context(), limit)
			if err != nil {
				return err
			}
			p := con.Printer()
			if p.Format == output.JSON {
				return p.JSON(found)
			}
			p.Sayf("Channels: %s", channels(found.Channels))
			if p.Format == output.Table && len(found.Items) == 0 {
				return nil
			}
			return output.List(p, found.Items, deliveryColumns)
		}),
	}
	c.Flags().IntVar(&limit, "limit", 20, "how many to show at most, 1 to 1000")
	return c
}

func channels(names []string) string {
	if len(names) == 0 {
		return "none; the server's settings enable them"
	}
	return output.Escape(strings.Join(names, ", "))
}

func newNotifyTest(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "test CHANNEL",
		Short:   "Send a test message to a channel now",
		Example: "admin notify test webhook\nadmin notify test email",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			answer, err := server.Notifications.Test(c.Context(), args[0])
			if err != nil {
				return err
			}
			if p := con.Printer(); p.Format == output.JSON {
				if err := p.JSON(answer); err != nil {
					return err
				}
			}
			if !answer.Sent {
				return fmt.Errorf("the message did not arrive over %s: %s", answer.Channel, answer.Error)
			}
			con.Notef("Sent over %s.", output.Escape(answer.Channel))
			return nil
		}),
	}
}

var deliveryColumns = []output.Column[wire.Delivery]{
	{Name: "at", Head: "When", Cell: func(d wire.Delivery) output.Cell { return output.Time(d.At.Time) }},
	{Name: "channel", Head: "Channel", Cell: func(d wire.Delivery) output.Cell { return output.Text(d.Channel) }},
	{Name: "kind", Head: "Kind", Drop: 2, Cell: func(d wire.Delivery) output.Cell { return output.Text(d.Kind) }},
	{Name: "subject", Head: "Subject", Cut: true, Cell: func(d wire.Delivery) output.Cell { return output.Text(d.Subject) }},
	{Name: "state", Head: "State", Cell: deliveryState},
	{Name: "attempts", Head: "Attempts", Right: true, Drop: 3, Cell: func(d wire.Delivery) output.Cell { return output.Number(d.Attempts) }},
	{Name: "error", Head: "Error", Cut: true, Drop: 1, Cell: func(d wire.Delivery) output.Cell { return output.Text(string(d.Error)) }},
}

func deliveryState(d wire.Delivery) output.Cell {
	switch {
	case !d.SentAt.IsZero():
		return output.Words("sent", "sent")
	case !d.FailedAt.IsZero():
		return output.Words("failed", "failed")
	default:
		return output.Words("waiting", "waiting")
	}
}
