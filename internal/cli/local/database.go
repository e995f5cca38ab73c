// Package local has the commands on files, databases and the kernel of this machine, which ask no
// server or ask it by the public client.
package local

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/console"
)

// databaseFlags select the database for commands that work on it directly.
type databaseFlags struct{ url, dir string }

func (f *databaseFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.url, "database-url", "", "the shared database, without its password (STINT_DATABASE_URL, which may hold it)")
	c.Flags().StringVar(&f.dir, "data-dir", "", "the folder of the embedded data (STINT_DATA_DIR; ./data)")
	c.MarkFlagsMutuallyExclusive("database-url", "data-dir")
}

// location returns the URL of the shared database, or the path of the embedded
// one, which must exist: a typo must not create a new database.
func (f *databaseFlags) location(con *console.Console) (string, error) {
	if url := console.FirstOf(f.url, con.Getenv("STINT_DATABASE_URL")); url != "" && f.dir == "" {
		return url, nil
	}
	dir := console.FirstOf(f.dir, con.Getenv("STINT_DATA_DIR"), "data")
	path := filepath.Join(dir, databaseFile)
	if _, err := os.Stat(path); err != nil {
		return "", console.Usagef("there is no database in %s; name its folder by --data-dir, or the shared database by STINT_DATABASE_URL", dir)
	}
	return path, nil
}

// databaseFile is the embedded database within the data directory.
const databaseFile = "stint.db"
