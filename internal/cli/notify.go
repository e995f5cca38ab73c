package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newNotify(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:     "notify",
		Short:   "Show the notifications, or test a channel",
		Example: "admin notify list\nadmin notify test webhook",
	}
	c.AddCommand(newNotifyList(a), newNotifyTest(a))
	return c
}

func newNotifyList(a *app) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the channels and the newest notifications",
		Example: "admin notify list",
		Args:    cobra.NoArgs,
		RunE: a.online(func(c *cobra.Command, from *client.Client, _ []string) error {
			found, err := from.Notifications(c.Context(), limit)
			if err != nil {
				return err
			}
			p := a.printer()
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
		return "none; the server's settings name them"
	}
	return output.Escape(strings.Join(names, ", "))
}

func newNotifyTest(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "test CHANNEL",
		Short:   "Send a test message to a channel now",
		Example: "admin notify test webhook\nadmin notify test email",
		Args:    cobra.ExactArgs(1),
		RunE: a.online(func(c *cobra.Command, from *client.Client, args []string) error {
			answer, err := from.TestNotification(c.Context(), args[0])
			if err != nil {
				return err
			}
			if p := a.printer(); p.Format == output.JSON {
				if err := p.JSON(answer); err != nil {
					return err
				}
			}
			if !answer.Sent {
				return fmt.Errorf("the message did not arrive over %s: %s", answer.Channel, answer.Error)
			}
			a.notef("Sent over %s.", output.Escape(answer.Channel))
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
		return output.Words("given up", "failed")
	default:
		return output.Words("waiting", "waiting")
	}
}
