package cli

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

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
	c.AddCommand(&cobra.Command{
		Use:     "list",
		Short:   "List the nodes seen lately",
		Example: "admin node list",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			all, err := server.Nodes(c.Context())
			if err != nil {
				return err
			}
			return output.List(con.Printer(), all, nodeColumns)
		}),
	})
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
	{Name: "seen_at", Head: "Last seen", Cell: func(n wire.Node) output.Cell { return output.Time(n.SeenAt.Time) }},
	{Name: "started_at", Head: "Started", Drop: 1, Cell: func(n wire.Node) output.Cell { return output.Time(n.StartedAt.Time) }},
	{Name: "revision", Head: "Revision", Right: true, Drop: 2, Cell: func(n wire.Node) output.Cell {
		return output.Text(strconv.FormatInt(n.Revision, 10))
	}},
	{Name: "version", Head: "Version", Drop: 3, Cell: func(n wire.Node) output.Cell { return output.Text(n.Version) }},
}
