package cli

import (
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newKeyNote(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:     "note",
		Short:   "Keep notes about keys for other operators",
		Example: "admin key note list ip:203.0.113.7\nadmin key note add ip:203.0.113.7 \"Same client as in July.\"",
	}
	c.AddCommand(newKeyNoteList(con), newKeyNoteAdd(con), newKeyNoteDelete(con))
	return c
}

func newKeyNoteList(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "list KEY",
		Short:   "List the notes about a key, the newest first",
		Example: "admin key note list ip:203.0.113.7\nadmin key note list token:abc -o json",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			found, err := server.Keys.Notes(c.Context(), args[0])
			if err != nil {
				return err
			}
			return printItems(con, found, noteColumns)
		}),
	}
}

func newKeyNoteAdd(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "add KEY TEXT",
		Short:   "Write a note about a key",
		Example: "admin key note add ip:203.0.113.7 \"Same client as in July.\"",
		Args:    cobra.ExactArgs(2),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			note, err := server.Keys.AddNote(c.Context(), wire.NoteRequest{Key: args[0], Text: args[1]})
			if err != nil {
				return err
			}
			return output.One(con.Printer(), *note, noteColumns)
		}),
	}
}

func newKeyNoteDelete(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "delete ID",
		Short:   "Delete a note; the audit keeps its text",
		Example: "admin key note delete 01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			if err := server.Keys.DeleteNote(c.Context(), args[0]); err != nil {
				return err
			}
			con.Notef("Deleted the note %s.", output.Escape(args[0]))
			return nil
		}),
	}
}

var noteColumns = []output.Column[wire.Note]{
	{Name: "created_at", Head: "Written", Cell: func(n wire.Note) output.Cell { return output.Time(n.CreatedAt.Time) }},
	{Name: "author", Head: "By", Cell: func(n wire.Note) output.Cell { return output.Text(n.Author) }},
	{Name: "text", Head: "Note", Cell: func(n wire.Note) output.Cell { return output.Text(n.Text) }},
	{Name: "key", Head: "Key", Drop: 1, Cell: func(n wire.Note) output.Cell { return output.Text(n.Key) }},
	{Name: "id", Head: "Id", Cell: func(n wire.Note) output.Cell { return output.Text(n.ID) }},
}
