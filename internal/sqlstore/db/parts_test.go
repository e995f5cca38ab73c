package db_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/test/servers"
)

func TestWriteInPartsUsesATransactionForEachPart(t *testing.T) {
	for name, url := range map[string]string{"sqlite": filepath.Join(t.TempDir(), "stint.db"), "postgres": servers.Postgres(t).URL} {
		t.Run(name, func(t *testing.T) {
			transactions := 0
			d, err := db.Open(url, db.Options{Observe: func(context.Context, string, time.Time, error) { transactions++ }})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			const rows = 10
			if err := d.Write(t.Context(), func(t *db.Tx) error {
				_, err := t.Exec(`CREATE TABLE numbers (n BIGINT PRIMARY KEY)`)
				for n := 0; err == nil && n < rows; n++ {
					_, err = t.Exec(`INSERT INTO numbers (n) VALUES ($1)`, n)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			transactions = 0
			const delete = `DELETE FROM numbers WHERE n IN (SELECT n FROM numbers WHERE n >= $1 LIMIT $2)`
			changed, err := db.WriteInParts(t.Context(), d, 3, delete, 1)
			if err != nil || changed != rows-1 || transactions != 4 {
				t.Errorf("got %d changed rows, %v in %d transactions, want %d in 4: three of 3 rows and one that finds none", changed, err, transactions, rows-1)
			}
		})
	}
}
