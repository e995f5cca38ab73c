package storetest

import (
	"context"
	sqldriver "database/sql/driver"
	"sync/atomic"
	"testing"

	"github.com/stint-dev/stint/internal/sqlstore"
)

// OpenCounted returns a new SQLite database whose store counts the
// statements that its writer runs, and a function that returns how many those
// are so far.
func OpenCounted(t testing.TB) (*Fixture, func() int64) {
	t.Helper()
	f := OpenSQLite(t)
	counted := &countingConnector{}
	f.Store = f.open(t, sqlstore.Options{Now: f.Clock.Now, WrapConnector: func(c sqldriver.Connector) sqldriver.Connector {
		counted.Connector = c
		return counted
	}})
	return f, counted.statements.Load
}

type countingConnector struct {
	sqldriver.Connector
	statements atomic.Int64
}

func (c *countingConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
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
