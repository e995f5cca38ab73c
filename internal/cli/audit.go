package cli

import (
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
)

func newAudit(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:     "audit",
		Short:   "See who changed what, when and from where",
		Example: "admin audit list --last 24h\nadmin audit show 812",
	}
	c.AddCommand(newAuditList(a), newAuditShow(a), newAuditExport(a), newAuditUndo(a), newAuditVerify(a))
	return c
}

// auditFlags select recorded changes.
type auditFlags struct {
	span                                    spanFlags
	actor, action, object, objectID, search string
}

func (f *auditFlags) add(c *cobra.Command) {
	f.span.add(c)
	flags := c.Flags()
	flags.StringVar(&f.actor, "actor", "", "only by this user or token")
	flags.StringVar(&f.action, "action", "", "only this action, as block.lift, or block for all about blocks")
	flags.StringVar(&f.object, "object", "", "only about this kind of thing, as policy")
	flags.StringVar(&f.objectID, "object-id", "", "only about the thing of this id")
	flags.StringVar(&f.search, "search", "", "only where the summary holds this text")
}

func (f *auditFlags) query(now time.Time) url.Values {
	query := url.Values{}
	from, to := f.span.instants(now)
	setIf(query, "from", v1.At(from).String())
	setIf(query, "to", v1.At(to).String())
	setIf(query, "actor", f.actor)
	setIf(query, "action", f.action)
	setIf(query, "object", f.object)
	setIf(query, "object_id", f.objectID)
	setIf(query, "search", f.search)
	return query
}

func newAuditList(a *app) *cobra.Command {
	var f auditFlags
	var limit int
	c := &cobra.Command{
		Use:     "list",
		Short:   "List changes, the newest first",
		Example: "admin audit list --last 24h\nadmin audit list --action block.lift --actor maria\nadmin audit list --object policy --object-id default -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			found, err := client.Audit(c.Context(), f.query(a.sys.Now()), limit)
			if err != nil {
				return err
			}
			return printListing(a, found, auditColumns)
		},
	}
	f.add(c)
	limitFlag(c, &limit)
	return c
}

func newAuditShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show one change, with what stood before and after",
		Example: "admin audit show 812",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := auditID(args[0])
			if err != nil {
				return err
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			entry, err := client.AuditEntry(c.Context(), id)
			if err != nil {
				return err
			}
			return output.One(a.printer(), *entry, auditDetail)
		},
	}
}

func newAuditUndo(a *app) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "undo ID",
		Short: "Bring back what stood before a change",
		Long: `Bring back what stood before a change, as a new change: a lifted block stands again until
its old end, an added one is lifted, a replaced policy gets its previous version back as a
new one. It is refused where the thing has changed since, or where that kind of change
cannot be undone. Undoing an undo brings the change about again.
A broad block or exemption that it brings back is confirmed as when it is added.`,
		Example: "admin audit undo 812",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := auditID(args[0])
			if err != nil {
				return err
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			entry, err := client.AuditEntry(c.Context(), id)
			if err != nil {
				return err
			}
			if entry, err = a.undo(c, client, entry, yes); err != nil {
				return err
			}
			p := a.printer()
			if p.Format != output.Table {
				return output.One(p, *entry, auditDetail)
			}
			p.Sayf("%s", output.Escape(entry.Summary))
			return nil
		},
	}
	yesFlag(c, &yes)
	return c
}

// undo undoes an entry; what it brings back is confirmed where it is broad.
func (a *app) undo(c *cobra.Command, from *client.Client, e *v1.AuditEntry, yes bool) (*v1.AuditEntry, error) {
	return confirming(a, yes, func(pattern string) error {
		if e.Object != "block" {
			return nil
		}
		return a.tellRadius(c.Context(), from, pattern)
	}, func(confirm string) (*v1.AuditEntry, error) { return from.UndoEntry(c.Context(), e.ID, confirm) })
}

func auditID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, usagef("%q is no id of a change; 'audit list' shows them", text)
	}
	return id, nil
}

func newAuditExport(a *app) *cobra.Command {
	var f auditFlags
	c := &cobra.Command{
		Use:     "export",
		Short:   "Write changes as CSV or JSON, before and after included",
		Example: "admin audit export --last 30d > audit.csv\nadmin audit export -o json > audit.json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			found, err := client.Audit(c.Context(), f.query(a.sys.Now()), 0)
			if err != nil {
				return err
			}
			p := a.printer()
			if !c.Flags().Changed("output") {
				p.Format = output.CSV
			}
			return output.List(p, found.Items, auditDetail)
		},
	}
	f.add(c)
	return c
}

var auditColumns = []output.Column[v1.AuditEntry]{
	{Name: "id", Head: "Id", Right: true, Cell: func(e v1.AuditEntry) output.Cell {
		return output.Words(strconv.FormatInt(e.ID, 10), strconv.FormatInt(e.ID, 10))
	}},
	{Name: "at", Head: "When", Cell: func(e v1.AuditEntry) output.Cell { return output.Time(e.At.Time) }},
	{Name: "actor", Head: "Who", Cut: true, Cell: func(e v1.AuditEntry) output.Cell { return output.Text(e.Actor.Name) }},
	{Name: "action", Head: "Action", Drop: 1, Cell: func(e v1.AuditEntry) output.Cell { return output.Text(e.Action) }},
	{Name: "summary", Head: "What", Cut: true, Cell: func(e v1.AuditEntry) output.Cell { return output.Text(e.Summary) }},
	{Name: "address", Head: "From", Drop: 2, Cell: func(e v1.AuditEntry) output.Cell { return output.Text(string(e.Actor.Address)) }},
}

var auditDetail = append(append([]output.Column[v1.AuditEntry]{}, auditColumns...),
	output.Column[v1.AuditEntry]{Name: "object", Head: "Object", Cell: func(e v1.AuditEntry) output.Cell { return output.Text(e.Object) }},
	output.Column[v1.AuditEntry]{Name: "object_id", Head: "Object id", Cell: func(e v1.AuditEntry) output.Cell { return output.Text(e.ObjectID) }},
	output.Column[v1.AuditEntry]{Name: "before", Head: "Before", Cell: func(e v1.AuditEntry) output.Cell { return jsonCell(e.Before) }},
	output.Column[v1.AuditEntry]{Name: "after", Head: "After", Cell: func(e v1.AuditEntry) output.Cell { return jsonCell(e.After) }},
)

// jsonCell shows what stood there, nothing for null.
func jsonCell(text jsontext.Value) output.Cell {
	if string(text) == "null" {
		return output.Cell{}
	}
	return output.Text(string(text))
}
