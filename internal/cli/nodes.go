package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(administration, newNode, newBouncer, newCrawler, newVersion) }

func newNode(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:     "node",
		Short:   "Show the nodes and their load",
		Example: "admin node list",
	}
	c.AddCommand(listCommand(con, cobra.Command{
		Short:   "List the nodes seen lately",
		Example: "admin node list",
	}, wire.ListNodes, nodeColumns, noFilter))
	return c
}

var nodeColumns = output.Columns(`name: Node, requests_per_second: Requests/s (right), p99_ms: 99 % under (right), degraded: Degraded,
	memory: Memory of logs (right drop 1), forgotten_keys: Forgotten keys (right drop 1), seen_at: Last seen, started_at: Started (drop 1),
	revision: Revision (right drop 2), version: Version (drop 3)`, output.Cells[wire.Node]{
	"requests_per_second": func(n wire.Node) output.Cell {
		return output.Text(strconv.FormatFloat(n.RequestsPerSecond, 'f', 1, 64))
	},
	"p99_ms": func(n wire.Node) output.Cell {
		if n.P99MS == 0 {
			return output.Cell{}
		}
		return output.Text(time.Duration(n.P99MS * float64(time.Millisecond)).String())
	},
	"memory": func(n wire.Node) output.Cell {
		if n.Memory == nil {
			return output.Cell{}
		}
		return output.Text(fmt.Sprintf("%d of %d MiB", n.Memory.Bytes>>20, n.Memory.MaxBytes>>20))
	},
	"forgotten_keys": func(n wire.Node) output.Cell {
		switch m := n.Memory; {
		case m == nil:
			return output.Cell{}
		case m.Forgetting:
			return output.Text(strconv.FormatInt(m.ForgottenKeys, 10) + ", rising")
		default:
			return output.Text(strconv.FormatInt(m.ForgottenKeys, 10))
		}
	},
	"revision": func(n wire.Node) output.Cell {
		return output.Text(strconv.FormatInt(n.Revision, 10))
	},
})

func newBouncer(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:     "bouncer",
		Short:   "Show the CrowdSec bouncers that fetch the blocks",
		Example: "admin bouncer list",
	}
	c.AddCommand(listCommand(con, cobra.Command{
		Short:   "List the bouncers seen in the last 30 days",
		Example: "admin bouncer list",
	}, wire.ListBouncers, bouncerColumns, noFilter))
	return c
}

var bouncerColumns = output.Columns(`type: Type, version: Version (drop 3), mode: Mode (drop 2), token: Token, address: Address,
	last_pulled_at: Last pull, sent: Sent (right drop 1), captchas: Captchas (drop 3), warning: Warning (drop 4)`, output.Cells[wire.Bouncer]{
	"sent": func(b wire.Bouncer) output.Cell {
		return output.Text(strconv.FormatInt(b.Sent, 10))
	},
})

func newVersion(con *console.Console) *cobra.Command {
	var ofServer bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Show the version, commit and date of this program, or of the server",
		Example: "admin version\nadmin version --server --output json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if ofServer {
				return online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
					return printOne(con, buildColumns)(client.Call(c.Context(), server, wire.GetVersion, wire.None{}))
				})(c, args)
			}
			b := buildinfo.Read()
			return output.One(con.Printer(), wire.Build{Version: b.Version, Commit: b.Commit, Date: wire.At(b.Date), Go: b.Go}, buildColumns)
		},
	}
	c.Flags().BoolVar(&ofServer, "server", false, "show that of the server")
	return c
}

var buildColumns = output.Columns[wire.Build]("version: Version, commit: Commit, date: Date (or unknown), go: Go")

func newCrawler(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:     "crawler",
		Short:   "Show the crawlers that the node has verified by DNS",
		Example: "admin crawler list",
	}
	c.AddCommand(listCommand(con, cobra.Command{
		Short: "List the verified crawlers",
		Long: `List the addresses that the node has verified to be crawlers of the operators that its
setting verified-crawlers names, and those that other nodes of the database have.`,
		Example: "admin crawler list",
	}, wire.ListCrawlers, crawlerColumns, noFilter))
	return c
}

var crawlerColumns = output.Columns[wire.Crawler]("operator: Operator, address: Address, name: Name in DNS (drop 1), verified_at: Verified")
