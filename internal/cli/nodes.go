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

var nodeColumns = []output.Column[wire.Node]{
	{Name: "name", Head: "Node", Cell: func(n wire.Node) output.Cell { return output.Text(n.Name) }},
	{Name: "requests_per_second", Head: "Requests/s", Right: true, Cell: func(n wire.Node) output.Cell {
		return output.Text(strconv.FormatFloat(n.RequestsPerSecond, 'f', 1, 64))
	}},
	{Name: "p99_ms", Head: "99 % under", Right: true, Cell: func(n wire.Node) output.Cell {
		if n.P99MS == 0 {
			return output.Cell{}
		}
		return output.Text(time.Duration(n.P99MS * float64(time.Millisecond)).String())
	}},
	{Name: "degraded", Head: "Degraded", Cell: func(n wire.Node) output.Cell { return output.YesNo(n.Degraded) }},
	{Name: "memory", Head: "Memory of logs", Right: true, Drop: 1, Cell: func(n wire.Node) output.Cell {
		if n.Memory == nil {
			return output.Cell{}
		}
		return output.Text(fmt.Sprintf("%d of %d MiB", n.Memory.Bytes>>20, n.Memory.MaxBytes>>20))
	}},
	{Name: "forgotten_keys", Head: "Forgotten keys", Right: true, Drop: 1, Cell: func(n wire.Node) output.Cell {
		switch m := n.Memory; {
		case m == nil:
			return output.Cell{}
		case m.Forgetting:
			return output.Text(strconv.FormatInt(m.ForgottenKeys, 10) + ", rising")
		default:
			return output.Text(strconv.FormatInt(m.ForgottenKeys, 10))
		}
	}},
	{Name: "seen_at", Head: "Last seen", Cell: func(n wire.Node) output.Cell { return output.Time(n.SeenAt.Time) }},
	{Name: "started_at", Head: "Started", Drop: 1, Cell: func(n wire.Node) output.Cell { return output.Time(n.StartedAt.Time) }},
	{Name: "revision", Head: "Revision", Right: true, Drop: 2, Cell: func(n wire.Node) output.Cell {
		return output.Text(strconv.FormatInt(n.Revision, 10))
	}},
	{Name: "version", Head: "Version", Drop: 3, Cell: func(n wire.Node) output.Cell { return output.Text(n.Version) }},
}

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

var bouncerColumns = []output.Column[wire.Bouncer]{
	{Name: "type", Head: "Type", Cell: func(b wire.Bouncer) output.Cell { return output.Text(b.Type) }},
	{Name: "version", Head: "Version", Drop: 3, Cell: func(b wire.Bouncer) output.Cell { return output.Text(b.Version) }},
	{Name: "mode", Head: "Mode", Drop: 2, Cell: func(b wire.Bouncer) output.Cell { return output.Text(b.Mode) }},
	{Name: "token", Head: "Token", Cell: func(b wire.Bouncer) output.Cell { return output.Text(b.Token) }},
	{Name: "address", Head: "Address", Cell: func(b wire.Bouncer) output.Cell { return output.Text(b.Address) }},
	{Name: "last_pulled_at", Head: "Last pull", Cell: func(b wire.Bouncer) output.Cell { return output.Time(b.LastPulled.Time) }},
	{Name: "sent", Head: "Sent", Right: true, Drop: 1, Cell: func(b wire.Bouncer) output.Cell {
		return output.Text(strconv.FormatInt(b.Sent, 10))
	}},
	{Name: "captchas", Head: "Captchas", Drop: 3, Cell: func(b wire.Bouncer) output.Cell { return output.YesNo(b.Captchas) }},
	{Name: "warning", Head: "Warning", Drop: 4, Cell: func(b wire.Bouncer) output.Cell { return output.Text(b.Warning) }},
}

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

var buildColumns = []output.Column[wire.Build]{
	{Name: "version", Head: "Version", Cell: func(b wire.Build) output.Cell { return output.Text(b.Version) }},
	{Name: "commit", Head: "Commit", Cell: func(b wire.Build) output.Cell { return output.Text(b.Commit) }},
	{Name: "date", Head: "Date", Cell: func(b wire.Build) output.Cell { return output.TimeOr(b.Date.Time, "unknown") }},
	{Name: "go", Head: "Go", Cell: func(b wire.Build) output.Cell { return output.Text(b.Go) }},
}

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

var crawlerColumns = []output.Column[wire.Crawler]{
	{Name: "operator", Head: "Operator", Cell: func(c wire.Crawler) output.Cell { return output.Text(c.Operator) }},
	{Name: "address", Head: "Address", Cell: func(c wire.Crawler) output.Cell { return output.Text(c.Address) }},
	{Name: "name", Head: "Name in DNS", Drop: 1, Cell: func(c wire.Crawler) output.Cell { return output.Text(c.Name) }},
	{Name: "verified_at", Head: "Verified", Cell: func(c wire.Crawler) output.Cell { return output.Time(c.VerifiedAt.Time) }},
}
