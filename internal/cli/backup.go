package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(administration, newBackup, newRestore) }

func newBackup(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up the embedded data while it is in use",
		Long: `Write a consistent copy of the embedded data (policies, blocks, identities, audit and the
logs in memory) to a file, while the server runs. The file appears only once it is whole.
"-" is standard output. With Redis and Postgres, back those up with their own tools.`,
		Example: "admin backup stint-2026-11-20.backup\nadmin backup - | ssh archive 'cat > stint.backup'",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			size, err := backUp(c.Context(), con, server, args[0])
			if err != nil {
				return err
			}
			name := args[0]
			if name == console.StandardStream {
				name = "standard output"
			}
			con.Notef("Wrote %s, %s.", output.Escape(name), humanize.Bytes(uint64(size)))
			return nil
		}),
	}
}

// backUp writes a backup to a file, or to standard output for "-".
func backUp(ctx context.Context, con *console.Console, server *client.Client, path string) (size int64, err error) {
	stream, err := client.Open(ctx, server, wire.CreateBackup, wire.None{})
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	err = con.WriteFile(ctx, path, 0o600, func(w io.Writer) error {
		if size, err = io.Copy(w, stream); err != nil {
			return fmt.Errorf("the backup is incomplete and cannot be restored: %w", err)
		}
		return nil
	})
	return size, err
}

func newRestore(con *console.Console) *cobra.Command {
	var yes bool
	var in wire.Restoration
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore the embedded data from a backup",
		Long: `Replace all embedded data of the running server with a backup, all or nothing.
What was changed since the backup was made is lost, tokens and users included.
With --dry-run the server checks the whole backup and says what it holds; nothing is changed.`,
		Example: "admin restore stint-2026-11-20.backup --dry-run\nadmin restore stint-2026-11-20.backup --yes",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			file, err := con.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			if !yes && !in.DryRun {
				if err := con.Confirm("This replaces all data of the server with "+output.Escape(args[0])+".", "--yes"); err != nil {
					return err
				}
			}
			answer, err := client.Upload(c.Context(), server, wire.RestoreBackup, in, file, wire.BackupType)
			if err != nil {
				return err
			}
			p := con.Printer()
			if p.Format == output.JSON {
				return p.JSON(answer)
			}
			p.Sayf("%s", output.Escape(answer.Detail))
			return nil
		}),
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	c.Flags().BoolVar(&in.DryRun, "dry-run", false, "check the backup and change nothing")
	return c
}
