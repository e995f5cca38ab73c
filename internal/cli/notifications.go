package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(administration, newNotify) }

func newNotify(con *console.Console) *cobra.Command {
	return group(cobra.Command{
		Use:     "notify",
		Short:   "Show the notifications; set up, test or silence their channels",
		Example: "admin notify list\nadmin notify test webhook\nadmin notify channel list\nadmin notify silence add --for 1h --reason maintenance",
	}, newNotifyList(con), newNotifyTest(con), newNotifyChannel(con), newNotifySilence(con))
}

func newNotifyList(con *console.Console) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the channels and the newest notifications",
		Example: "admin notify list",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			found, err := client.Call(c.Context(), server, wire.ListNotifications, wire.NotificationList{Limit: limit})
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
		return "none; set one up with 'notify channel add' or in the settings of the server"
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
			answer, err := client.Call(c.Context(), server, wire.TestNotification, wire.TestRequest{Channel: args[0]})
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

var deliveryColumns = output.Columns(`at: When, channel: Channel, kind: Kind (drop 2), subject: Subject (cut), state: State,
	attempts: Attempts (drop 3), error: Error (cut drop 1)`, output.Cells[wire.Delivery]{
	"state": deliveryState,
})

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

func newNotifyChannel(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:     "channel",
		Short:   "Manage the notification channels",
		Example: "admin notify channel list\nadmin notify channel add phone --type ntfy < url.txt\nadmin notify channel set phone --urgent-only",
	}
	c.AddCommand(newChannelAdd(con), listCommand(con, cobra.Command{
		Short: "List the channels, without their secrets", Example: "admin notify channel list",
	}, wire.ListChannels, channelColumns, noFilter), newChannelSet(con), newChannelEnable(con, true), newChannelEnable(con, false), newChannelDelete(con))
	return c
}

// channelFlags are the flags that add and set share.
type channelFlags struct {
	kind, from string
	to, kinds  []string
	urgent     bool
	signed     bool
}

const secretsHelp = `The URL is read from the terminal without echo, or from the first line of standard input; with
--signing-secret the next line is the secret that signs what a webhook is sent. Neither is
shown again. docs/NOTIFICATIONS.md has the form of the URL of each type.`

func (f *channelFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.kind, "type", "", "one of "+strings.Join(notify.TypeNames(), ", "))
	c.Flags().StringVar(&f.from, "from", "", "the sender of mail")
	c.Flags().StringSliceVar(&f.to, "to", nil, "the recipients of mail; may be repeated")
	c.Flags().StringSliceVar(&f.kinds, "kind", nil, "send this kind of notification only, for example outage; may be repeated; all if empty")
	c.Flags().BoolVar(&f.urgent, "urgent-only", false, "send only what is urgent")
	c.Flags().BoolVar(&f.signed, "signing-secret", false, "read the secret that signs a webhook too")
	console.CompleteFlag(c, "type", notify.TypeNames()...)
}

// check rejects a type that no channel has, before a secret is read.
func (f *channelFlags) check() error {
	if f.kind != "" && !slices.Contains(notify.TypeNames(), f.kind) {
		return console.Usagef("--type: %q is not a type of channel; use one of %s", f.kind, strings.Join(notify.TypeNames(), ", "))
	}
	return nil
}

func newChannelAdd(con *console.Console) *cobra.Command {
	var f channelFlags
	c := &cobra.Command{
		Use:     "add NAME",
		Short:   "Add a channel; its URL is read from standard input",
		Long:    "Add a notification channel beside those of the settings.\n" + secretsHelp,
		Example: "admin notify channel add phone --type ntfy --urgent-only < url.txt\nadmin notify channel add ops --type email --from stint@example.com --to ops@example.com < url.txt",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			request := wire.ChannelRequest{Name: args[0], Type: f.kind, From: f.from, To: f.to, Kinds: f.kinds, UrgentOnly: f.urgent}
			err := f.check()
			if err != nil {
				return err
			}
			if request.URL, err = con.Secret("URL"); err != nil {
				return err
			}
			if f.signed {
				if request.SigningSecret, err = con.Secret("Signing secret"); err != nil {
					return err
				}
			}
			added, err := client.Call(c.Context(), server, wire.AddChannel, request)
			return printChannel(con, "Added", added, err)
		}),
	}
	f.add(c)
	requireFlag(c, "type")
	return c
}

func newChannelSet(con *console.Console) *cobra.Command {
	var f channelFlags
	var newURL, unsigned bool
	c := &cobra.Command{
		Use:     "set NAME",
		Short:   "Change a channel; what no flag names stays as it is",
		Long:    "Change a notification channel. With --url, a new URL is read. A concurrent change by\nsomebody else is never overwritten.\n" + secretsHelp,
		Example: "admin notify channel set phone --kind outage,recovery\nadmin notify channel set phone --url < url.txt",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			seen, err := client.Call(c.Context(), server, wire.GetChannel, wire.ByName{Name: args[0]})
			if err != nil {
				return err
			}
			patch, given := wire.ChannelPatch{Name: args[0], IfMatch: cmp.Or(string(seen.ETag), client.AnyState)}, c.Flags().Changed
			if given("type") {
				patch.Type = wire.To(f.kind)
			}
			if given("from") {
				patch.From = wire.To(f.from)
			}
			if given("to") {
				patch.To = wire.To(f.to)
			}
			if given("kind") {
				patch.Kinds = wire.To(f.kinds)
			}
			if given("urgent-only") {
				patch.UrgentOnly = wire.To(f.urgent)
			}
			if newURL {
				text, err := con.Secret("URL")
				if err != nil {
					return err
				}
				patch.URL = wire.To(text)
			}
			if f.signed {
				text, err := con.Secret("Signing secret")
				if err != nil {
					return err
				}
				patch.SigningSecret = wire.To(&text)
			}
			if unsigned {
				patch.SigningSecret = wire.To[*string](nil)
			}
			changed, err := client.Call(c.Context(), server, wire.ChangeChannel, patch)
			return printChannel(con, "Changed", changed, err)
		}),
	}
	f.add(c)
	c.Flags().BoolVar(&newURL, "url", false, "read a new URL")
	c.Flags().BoolVar(&unsigned, "no-signing-secret", false, "no longer sign what the webhook is sent")
	c.MarkFlagsOneRequired("type", "from", "to", "kind", "urgent-only", "signing-secret", "url", "no-signing-secret")
	c.MarkFlagsMutuallyExclusive("signing-secret", "no-signing-secret")
	return c
}

func newChannelEnable(con *console.Console, enable bool) *cobra.Command {
	verb, short, did := "disable", "Send nothing over a channel until it is enabled", "Disabled"
	if enable {
		verb, short, did = "enable", "Send over a channel again", "Enabled"
	}
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Example: "admin notify channel " + verb + " phone", Args: cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			changed, err := client.Call(c.Context(), server, wire.ChangeChannel, wire.ChannelPatch{Name: args[0], IfMatch: client.AnyState, Enabled: wire.To(enable)})
			return printChannel(con, did, changed, err)
		}),
	}
}

func newChannelDelete(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Delete a channel; what waits for it is not sent", Example: "admin notify channel delete phone", Args: cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return note(con, "Deleted the channel %s.", output.Escape(args[0]))(client.Call(c.Context(), server, wire.DeleteChannel, wire.DeleteChannelRequest{Name: args[0], IfMatch: client.AnyState}))
		}),
	}
}

func printChannel(con *console.Console, did string, c wire.Channel, err error) error {
	if err != nil {
		return err
	}
	if p := con.Printer(); p.Format != output.Table {
		return output.One(p, c, channelColumns)
	}
	con.Notef("%s the channel %s, which sends to %s.", did, output.Escape(c.Name), output.Escape(c.Host))
	return nil
}

var channelColumns = output.Columns(`name: Name, type: Type, host: Sends to (cut), state: State, kinds: Kinds (drop 2),
	source: Set up by (drop 1)`, output.Cells[wire.Channel]{
	"state": func(c wire.Channel) output.Cell {
		if c.Enabled {
			return output.Words("enabled", "enabled")
		}
		return output.Words("disabled", "disabled")
	},
	"kinds": func(c wire.Channel) output.Cell {
		kinds := c.Kinds
		if len(kinds) == 0 {
			kinds = []string{"all"}
		}
		if c.UrgentOnly {
			kinds = append(kinds, "(urgent only)")
		}
		return output.Texts(kinds)
	},
})

func newNotifySilence(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:     "silence",
		Short:   "Keep notifications from being sent for a time",
		Example: "admin notify silence add --for 1h --reason maintenance\nadmin notify silence list",
	}
	c.AddCommand(newSilenceAdd(con), listCommand(con, cobra.Command{
		Short: "List the silences that apply now", Example: "admin notify silence list",
	}, wire.ListSilences, silenceColumns, noFilter), newSilenceDelete(con))
	return c
}

func newSilenceAdd(con *console.Console) *cobra.Command {
	var request wire.SilenceRequest
	var end endFlags
	c := &cobra.Command{
		Use:     "add",
		Short:   "Silence all notifications, or one channel or kind",
		Long:    "Silence notifications for at most 30 days. What happens in between is listed as silenced and\nnever sent. All pages show the silence and its reason. Only an admin silences everything, or\nall alarms of attacks (attack.began, attack.source, block.automatic, proposal,\nescalation.paused) or of faults (outage, redis.eviction, job.failed).",
		Example: "admin notify silence add --for 1h --reason maintenance\nadmin notify silence add --channel phone --kind outage --for 30m --reason \"Redis moves\"",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			request.ExpiresIn, request.ExpiresAt = end.in.Duration, end.at.Time
			made, err := client.Call(c.Context(), server, wire.AddSilence, request)
			if err != nil {
				return err
			}
			if p := con.Printer(); p.Format != output.Table {
				return output.One(p, made, silenceColumns)
			}
			con.Notef("Silenced until %s. To end it: %s notify silence delete %s", output.When(made.ExpiresAt.Time, con.Printer().Now), output.Escape(con.Name), made.ID)
			return nil
		}),
	}
	c.Flags().StringVar(&request.Channel, "channel", "", "this channel only")
	c.Flags().StringVar(&request.Kind, "kind", "", "this kind of notification only")
	c.Flags().StringVar(&request.Reason, "reason", "", "why, for all who see the pages")
	c.Flags().Var(&end.in, "for", "how long, for example 1h; at most 30d")
	c.Flags().Var(&end.at, "until", "until when, as YYYY-MM-DDThh:mm:ssZ")
	c.MarkFlagsMutuallyExclusive("for", "until")
	c.MarkFlagsOneRequired("for", "until")
	requireFlag(c, "reason")
	return c
}

func newSilenceDelete(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use: "delete ID", Short: "Delete a silence: notifications are sent again", Example: "admin notify silence delete 01980a6f-7f1e-7c62-8c30-0c5c4f2a9b11", Args: cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return note(con, "Deleted the silence.")(client.Call(c.Context(), server, wire.EndSilence, wire.ByID{ID: args[0]}))
		}),
	}
}

var silenceColumns = output.Columns("channel: Channel, kind: Kind, expires_at: Until, reason: Reason (cut), author: By (drop 1), id: Id", output.Cells[wire.Silence]{
	"channel": func(s wire.Silence) output.Cell { return output.Text(orAll(s.Channel)) },
	"kind":    func(s wire.Silence) output.Cell { return output.Text(orAll(s.Kind)) },
})

func orAll(text string) string {
	if text == "" {
		return "all"
	}
	return text
}
