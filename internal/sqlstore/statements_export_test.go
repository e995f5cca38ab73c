package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"sync/atomic"
	"testing"
)

// CountStatements makes an SQLite store count the statements that its writer
// runs, and returns how many those are so far.
func (s *Store) CountStatements(t testing.TB) func() int64 {
	t.Helper()
	counted := &countingConnector{sqlite: s.writer.Driver(), dsn: sqliteDSN(s.place.target)}
	if err := s.writer.Close(); err != nil {
		t.Fatal(err)
	}
	s.writer = sql.OpenDB(counted)
	s.writer.SetMaxOpenConns(1)
	return counted.statements.Load
}

type countingConnector struct {
	sqlite     sqldriver.Driver
	dsn        string
	statements atomic.Int64
}

func (c *countingConnector) Driver() sqldriver.Driver { return c.sqlite }

func (c *countingConnector) Connect(context.Context) (sqldriver.Conn, error) {
	conn, err := c.sqlite.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return &countingConn{conn.(sqliteConn), &c.statements}, nil
}

// sqliteConn is what database/sql uses of a connection to SQLite.
type sqliteConn interface {
	sqldriver.Conn
	sqldriver.ConnBeginTx
	sqldriver.ConnPrepareContext
	sqldriver.ExecerContext
	sqldriver.QueryerContext
}

type countingConn struct {
	sqliteConn
	statements *atomic.Int64
}

func (c *countingConn) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	c.statements.Add(1)
	return c.sqliteConn.ExecContext(ctx, query, args)
}

func (c *countingConn) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	c.statements.Add(1)
	return c.sqliteConn.QueryContext(ctx, query, args)
}
