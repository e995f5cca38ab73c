package db

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
)

// schemaObject is one row of sqlite_master.
type schemaObject struct{ kind, name, table, text string }

// schema is everything that a database defines, sorted by type and name.
type schema []schemaObject

const readSchema = `SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master ORDER BY type, name`

// statistics are the tables that ANALYZE creates. SQLite writes them itself, so a backup may
// contain them, and a restore does not read them.
var statistics = []string{"sqlite_stat1", "sqlite_stat4"}

func schemaOf(ctx context.Context, db *sql.DB) (schema, error) {
	rows, err := db.QueryContext(ctx, readSchema)
	if err != nil {
		return nil, err
	}
	return Collect(rows, func(r Row) (o schemaObject, err error) {
		err = r.Scan(&o.kind, &o.name, &o.table, &o.text)
		o.text = strings.Join(strings.Fields(o.text), " ")
		return o, err
	})
}

// tables returns the names of the tables with Stint's data.
func (s schema) tables() []string {
	var names []string
	for _, o := range s {
		if o.kind == "table" && !strings.HasPrefix(o.name, "sqlite_") {
			names = append(names, o.name)
		}
	}
	return names
}

// difference returns how found differs from s, as a clause; "" if they are equal. The texts
// must be equal, so that everything SQLite might execute when it uses the file (a trigger, a
// view, a virtual table, a generated column, a default, an index over an expression) is Stint's
// own.
func (s schema) difference(found schema) string {
	for _, o := range found {
		switch {
		case slices.Contains(s, o):
		case o.kind == "table" && slices.Contains(statistics, o.name) && strings.HasPrefix(o.text, "CREATE TABLE "+o.name+"("):
		default:
			return fmt.Sprintf("its %s %s is not the one that Stint makes", Clip(o.kind), Quote(o.name))
		}
	}
	for _, o := range s {
		if !slices.Contains(found, o) {
			return fmt.Sprintf("its %s %s is missing", o.kind, Quote(o.name))
		}
	}
	return ""
}

// Quote quotes a name from an untrusted source.
func Quote(name string) string { return fmt.Sprintf("%q", Clip(name)) }

// Clip shortens a text from an untrusted source for a message.
func Clip(text string) string { return escape.Clip(text, 80) }

// reference is the result of this program's migrations on an empty database.
type reference struct {
	schema  schema
	columns map[string][]string // of each table
}

// referenceAt creates an empty database at a version of the schema, in a temporary file in
// folder, and reads what it defines.
func referenceAt(ctx context.Context, folder string, version uint) (made reference, err error) {
	file, err := os.CreateTemp(folder, ".stint-reference-*")
	if err != nil {
		return made, fmt.Errorf("make a database to compare with: %w", err)
	}
	defer removeDatabase(file.Name())
	if err := file.Close(); err != nil {
		return made, fmt.Errorf("make a database to compare with: %w", err)
	}
	at := location{dialect: &sqlite, target: file.Name()}
	if err := at.migrateTo(ctx, version); err != nil {
		return made, err
	}
	db, err := sql.Open("sqlite", untrustedDSN(file.Name(), false))
	if err != nil {
		return made, err
	}
	defer db.Close()
	if made.schema, err = schemaOf(ctx, db); err != nil {
		return made, err
	}
	made.columns = map[string][]string{}
	for _, table := range made.schema.tables() {
		rows, err := db.QueryContext(ctx, `SELECT name FROM pragma_table_info($1) ORDER BY cid`, table)
		if err != nil {
			return made, err
		}
		if made.columns[table], err = Collect(rows, ScanText); err != nil {
			return made, err
		}
	}
	return made, nil
}

// quoted returns an SQL identifier.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func quotedList(names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = quoted(name)
	}
	return strings.Join(list, ", ")
}

// NotABackup returns the Invalid fault for a file that Backup did not write.
func NotABackup(err error, format string, args ...any) error {
	message := "names a file that is not a backup of Stint"
	if format != "" {
		message += ": " + fmt.Sprintf(format, args...)
	}
	return &fault.Error{Code: fault.Invalid, Field: "path", Message: message, Err: err}
}
