package cli

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(administration, newAudit) }

func newAudit(con *console.Console) *cobra.Command {
	return group(cobra.Command{
		Use:     "audit",
		Short:   "Show who changed what, when and from where",
		Example: "admin audit list --last 24h\nadmin audit show 812",
	}, newAuditList(con), newAuditShow(con), newAuditExport(con), newAuditUndo(con), newAuditVerify(con))
}

// auditFlags filter audit records.
type auditFlags struct {
	span                                    spanFlags
	actor, action, object, objectID, search string
}

func (f *auditFlags) add(c *cobra.Command) {
	f.span.add(c)
	flags := c.Flags()
	flags.StringVar(&f.actor, "actor", "", "only by this user or token")
	flags.StringVar(&f.action, "action", "", "only this action, for example block.end; block means all actions on blocks")
	flags.StringVar(&f.object, "object", "", "only this kind of object, for example policy")
	flags.StringVar(&f.objectID, "object-id", "", "only the object with this id")
	flags.StringVar(&f.search, "search", "", "only if the summary contains this text")
}

func (f *auditFlags) filter(now time.Time) wire.AuditFilter {
	from, to := f.span.instants(now)
	return wire.AuditFilter{From: wire.At(from), To: wire.At(to), Actor: f.actor, Action: f.action, Object: f.object, ObjectID: f.objectID, Search: f.search}
}

func newAuditList(con *console.Console) *cobra.Command {
	var f auditFlags
	c := pagedCommand(con, cobra.Command{
		Short:   "List changes, newest first",
		Example: "admin audit list --last 24h\nadmin audit list --action block.end --actor maria\nadmin audit list --object policy --object-id default -o json",
	}, wire.ListAudit, auditColumns, func() wire.AuditList { return wire.AuditList{AuditFilter: f.filter(con.Now())} })
	f.add(c)
	return c
}

// auditEntry returns the change with the id that was given.
func auditEntry(c *cobra.Command, server *client.Client, text string) (entry wire.AuditEntry, err error) {
	id, err := auditID(text)
	if err != nil {
		return entry, err
	}
	return client.Call(c.Context(), server, wire.GetAuditEntry, id)
}

func newAuditShow(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show one change with the values before and after",
		Example: "admin audit show 812",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return printOne(con, auditDetail)(auditEntry(c, server, args[0]))
		}),
	}
}

func newAuditUndo(con *console.Console) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "undo ID",
		Short: "Undo a change",
		Long: `Undo a change by a new change: an ended block is active again until its old expiry, an
added one is ended, a changed policy gets its previous version back as a new version. It is
refused if the object has changed since, or if that kind of change cannot be undone. An undo
can be undone too. A broad block or exemption that becomes active again needs the same
confirmation as when it was added.`,
		Example: "admin audit undo 812",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			entry, err := auditEntry(c, server, args[0])
			if err != nil {
				return err
			}
			if entry, err = undo(c, con, server, entry, yes); err != nil {
				return err
			}
			p := con.Printer()
			if p.Format != output.Table {
				return output.One(p, entry, auditDetail)
			}
			p.Sayf("%s", output.Escape(entry.Summary))
			return nil
		}),
	}
	yesFlag(c, &yes)
	return c
}

// undo undoes a change, and asks for confirmation if a broad entry becomes active again.
func undo(c *cobra.Command, con *console.Console, server *client.Client, e wire.AuditEntry, yes bool) (wire.AuditEntry, error) {
	return confirmEntry(con, yes, func(pattern string) error {
		if e.Object != "block" {
			return nil
		}
		return showImpact(c.Context(), con, server, pattern, true)
	}, func(confirm string) (wire.AuditEntry, error) {
		return client.Call(c.Context(), server, wire.UndoEntry, wire.UndoRequest{ID: strconv.FormatInt(e.ID, 10), Confirm: confirm})
	})
}

func auditID(text string) (wire.ByID, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return wire.ByID{}, console.Usagef("%q is not the id of a change; 'audit list' shows the ids", text)
	}
	return wire.ByID{ID: strconv.FormatInt(id, 10)}, nil
}

func newAuditExport(con *console.Console) *cobra.Command {
	var f auditFlags
	c := &cobra.Command{
		Use:     "export",
		Short:   "Export changes as CSV or JSON, with the values before and after",
		Example: "admin audit export --last 30d > audit.csv\nadmin audit export -o json > audit.json",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			found, err := client.Pages(c.Context(), server, wire.ListAudit, wire.AuditList{AuditFilter: f.filter(con.Now())}, 0)
			if err != nil {
				return err
			}
			p := con.Printer()
			if !c.Flags().Changed("output") {
				p.Format = output.CSV
			}
			return output.List(p, found.Items, auditDetail)
		}),
	}
	f.add(c)
	return c
}

var auditColumns = output.Columns(`id: Id (right), at: When, actor=actor.name: Who (cut), action: Action (drop 1), summary: What (cut),
	address=actor.address: From (drop 2)`, output.Cells[wire.AuditEntry]{
	"id": func(e wire.AuditEntry) output.Cell {
		return output.Words(strconv.FormatInt(e.ID, 10), strconv.FormatInt(e.ID, 10))
	},
})

var auditDetail = append(append([]output.Column[wire.AuditEntry]{}, auditColumns...),
	output.Column[wire.AuditEntry]{Name: "object", Head: "Object", Cell: func(e wire.AuditEntry) output.Cell { return output.Text(e.Object) }},
	output.Column[wire.AuditEntry]{Name: "object_id", Head: "Object id", Cell: func(e wire.AuditEntry) output.Cell { return output.Text(e.ObjectID) }},
	output.Column[wire.AuditEntry]{Name: "before", Head: "Before", Cell: func(e wire.AuditEntry) output.Cell { return jsonCell(e.Before) }},
	output.Column[wire.AuditEntry]{Name: "after", Head: "After", Cell: func(e wire.AuditEntry) output.Cell { return jsonCell(e.After) }},
)

// jsonCell formats a JSON value, nothing for null.
func jsonCell(text jsontext.Value) output.Cell {
	if string(text) == "null" {
		return output.Cell{}
	}
	return output.Text(string(text))
}

func newAuditVerify(con *console.Console) *cobra.Command {
	var head string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Verify that no record was changed, added or removed",
		Long: `Verify that no record of the audit log was changed, added or removed. Each record holds the
hash of the record before it, so a change requires rewriting all later records. Somebody with
access to the database can do that, or remove the newest records; only a head that is kept
elsewhere shows it. Keep the head that this command prints, and pass it with --head later. The
exit code is 1 if the chain does not match.`,
		Example: "admin audit verify\nadmin audit verify --head 812:9f2c...",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			if c.Flags().Changed("head") {
				if _, err := audit.ParseHead(head); err != nil {
					return console.Usagef("--%w", err)
				}
			}
			v, err := client.Call(c.Context(), server, wire.VerifyAudit, wire.AuditVerify{Head: head})
			if err != nil {
				return err
			}
			if err := output.One(con.Printer(), v, verificationColumns); err != nil {
				return err
			}
			if !v.Intact {
				return &console.ExitError{Code: console.Failed}
			}
			return nil
		}),
	}
	c.Flags().StringVar(&head, "head", "", "a head that was kept: is it still in the chain?")
	return c
}

var verificationColumns = output.Columns(`intact: Intact, problem: Problem, records: Records, uncovered: Older than the chain,
	pending: Not in the chain yet, first_at: First record, kept: Kept head, head: Head`, output.Cells[wire.AuditVerification]{
	"intact": func(v wire.AuditVerification) output.Cell {
		words := map[bool]string{true: "yes", false: "NO"}
		return output.Words(words[v.Intact], strconv.FormatBool(v.Intact))
	},
})
