package local

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

func NewMigrate(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Migrate a database's schema without a server",
		Long: `Show or migrate the schema of a database directly. A server does this itself when it
starts; here it can be done beforehand and watched.`,
		Example: "admin migrate status\nadmin migrate up\nadmin migrate down --to 10",
	}
	c.AddCommand(newMigrateStatus(con), newMigrateUp(con), newMigrateDown(con))
	return c
}

func newMigrateStatus(con *console.Console) *cobra.Command {
	var database databaseFlags
	c := &cobra.Command{
		Use:     "status",
		Short:   "Show the applied and pending migrations",
		Example: "admin migrate status --data-dir ./data\nSTINT_DATABASE_URL=postgres://stint@db/stint admin migrate status",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			location, err := database.location(con)
			if err != nil {
				return err
			}
			return printMigration(c.Context(), con, location)
		},
	}
	database.add(c)
	return c
}

func newMigrateUp(con *console.Console) *cobra.Command {
	var database databaseFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Run the pending migrations",
		Long: `Run the pending migrations, each completely or not at all. Other nodes that do the
same wait for each other. Servers of the version before keep working.`,
		Example: "admin migrate up --data-dir ./data\nSTINT_DATABASE_URL=postgres://stint@db/stint admin migrate up",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			location, err := database.location(con)
			if err != nil {
				return err
			}
			if err := db.Migrate(c.Context(), location); err != nil {
				return db.ExplainOffline(err)
			}
			return printMigration(c.Context(), con, location)
		},
	}
	database.add(c)
	return c
}

func newMigrateDown(con *console.Console) *cobra.Command {
	var database databaseFlags
	var to uint
	var yes bool
	c := &cobra.Command{
		Use:   "down",
		Short: "Undo the newest migrations, to go back to an older release",
		Long: `Undo the migrations that are newer than a version, so that an older release can use the
database. Data that only the newer schema can store is lost, so it asks first. Stop every node
before: it refuses while one uses the database, or did so within the last minute. Use the
program of the newer release, which knows its migrations.
docs/UPGRADING.md says which release has which version.`,
		Example: "admin migrate down --to 10 --data-dir ./data --yes\nSTINT_DATABASE_URL=postgres://stint@db/stint admin migrate down --to 10",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			location, err := database.location(con)
			if err != nil {
				return err
			}
			before, err := db.MigrationStatus(c.Context(), location)
			if err != nil {
				return db.ExplainOffline(err)
			}
			if to < 1 || to >= before.Version {
				return console.Usagef("--to must be from 1 to %d; the database has version %d", before.Version-1, before.Version)
			}
			if !yes {
				question := fmt.Sprintf("This undoes the migrations %d to %d and deletes the data that only they can store.", to+1, before.Version)
				if err := con.Confirm(question, "--yes"); err != nil {
					return err
				}
			}
			if err := db.MigrateDown(c.Context(), location, to); err != nil {
				return db.ExplainOffline(err)
			}
			return printMigration(c.Context(), con, location)
		},
	}
	database.add(c)
	c.Flags().UintVar(&to, "to", 0, "the version that the database has afterwards")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	if err := c.MarkFlagRequired("to"); err != nil {
		panic(err)
	}
	return c
}

// migrationStatus is what the migrate commands print.
type migrationStatus struct {
	Version uint   `json:"version"`
	Latest  uint   `json:"latest"`
	State   string `json:"state"`
}

func printMigration(ctx context.Context, con *console.Console, location string) error {
	state, err := db.MigrationStatus(ctx, location)
	if err != nil {
		return db.ExplainOffline(err)
	}
	status := migrationStatus{Version: state.Version, Latest: state.Latest, State: "up to date"}
	switch {
	case state.Dirty:
		status.State = "a migration failed; find the cause first"
	case state.Version < state.Latest:
		status.State = "behind; run 'migrate up'"
	case state.Version > state.Latest:
		status.State = "newer than this program"
	}
	return output.One(con.Printer(), status, []output.Column[migrationStatus]{
		{Name: "version", Head: "Version", Cell: func(s migrationStatus) output.Cell { return output.Number(int64(s.Version)) }},
		{Name: "latest", Head: "Latest", Cell: func(s migrationStatus) output.Cell { return output.Number(int64(s.Latest)) }},
		{Name: "state", Head: "State", Cell: func(s migrationStatus) output.Cell { return output.Text(s.State) }},
	})
}
