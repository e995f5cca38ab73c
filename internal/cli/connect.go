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

func init() { addCommands(administration, newConnect) }

func newConnect(con *console.Console) *cobra.Command {
	var createToken bool
	var site string
	c := &cobra.Command{
		Use:   "connect [GATEWAY]",
		Short: "Print the configuration that connects a gateway to this server",
		Long: `Print the configuration that connects a gateway to this server, or list the gateways.
With --add-token a token with the least scope is created, and is a part of what is
printed: its secret is shown once.

With --probe it goes the way of a browser that is challenged through the running gateway, solves
the challenge, and says which step fails; exit code 1. It changes nothing but that one pass is
earned.`,
		Example: "admin connect\nadmin connect nginx\nadmin connect nginx --add-token\nadmin connect nginx --probe https://shop.example/",
		Args:    cobra.MaximumNArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			if len(args) == 0 {
				if createToken {
					return console.Usagef("--add-token needs a gateway")
				}
				if site != "" {
					return console.Usagef("--probe needs a gateway")
				}
				return printAll(con, gatewayColumns)(client.Items(c.Context(), server, wire.ListGateways, wire.None{}))
			}
			if site != "" {
				return probeGateway(con, c, server, args[0], site)
			}
			if con.Format == string(output.CSV) {
				return console.Usagef("a configuration is printed as it is or, with -o json or yaml, with its steps; csv is for the list of gateways")
			}
			ask := wire.GetGuide
			if createToken {
				ask = wire.AddGatewayToken
			}
			guide, err := client.Call(c.Context(), server, ask, wire.ByName{Name: args[0]})
			if err != nil {
				return err
			}
			return printGuide(con, guide)
		}),
	}
	c.Flags().BoolVar(&createToken, "add-token", false, "create a token for the gateway")
	c.Flags().StringVar(&site, "probe", "", "a URL of the site behind the gateway: try whether a challenged browser gets through")
	c.MarkFlagsMutuallyExclusive("add-token", "probe")
	return c
}

// probeGateway prints the steps of a probe.
func probeGateway(con *console.Console, c *cobra.Command, server *client.Client, gateway, site string) error {
	p, err := newProbe(site)
	if err != nil {
		return err
	}
	if _, err := client.Call(c.Context(), server, wire.GetGuide, wire.ByName{Name: gateway}); err != nil {
		return err
	}
	failed := p.run(c.Context())
	if err := printItems(con, p.steps, probeColumns); err != nil {
		return err
	}
	if failed != nil {
		con.Notef("See docs/CHALLENGE.md and the page of %s in docs/doors.", output.Escape(gateway))
		return &console.ExitError{Code: console.Failed}
	}
	return nil
}

var gatewayColumns = output.Columns[wire.Gateway]("name: Gateway, title: Title")

// printGuide prints the configurations to standard output, so that they can be
// redirected to a file, and the rest to standard error.
func printGuide(con *console.Console, guide wire.Guide) error {
	p := con.Printer()
	if p.Format != output.Table {
		return p.JSON(guide)
	}
	for _, step := range guide.Steps {
		if step.Text != "" {
			con.Notef("%s", output.Escape(step.Text))
		}
		if step.Config != "" {
			fmt.Fprintln(con.Printer().Document(), step.Config)
		}
	}
	if len(guide.Needs) > 0 {
		con.Notef("Policies look at these parts of requests: %s. Let the gateway send them.", output.Escape(strings.Join(guide.Needs, ", ")))
	}
	switch {
	case guide.Token != nil:
		con.Notef("The token %s has the scope %s. Its secret is not shown again: %s", output.Escape(guide.Token.Name), output.Escape(guide.Scope), output.Escape(guide.Token.Secret))
	case guide.NeedsToken:
		con.Notef("It needs a token with the scope %s: add --add-token.", output.Escape(guide.Scope))
	}
	return nil
}
