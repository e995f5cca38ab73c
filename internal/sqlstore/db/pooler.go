package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// sharedSessions is what is wrong with a pooler in transaction mode.
const sharedSessions = "is reached through a pooler that gives each transaction another session, and notifications, time limits and " +
	"the migration lock need one of their own; set pool_mode = session in pgbouncer"

// poolerAttempts bounds the attempts to see another session, since other clients of the pooler may
// release one in between.
const poolerAttempts = 3

// checkSessions refuses a Postgres behind a pooler that gives the transactions of a connection
// different sessions. The migration lock would stay with one of those sessions, so that later
// starts wait for it.
func checkSessions(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	own, err := sessionOf(ctx, conn)
	if err != nil {
		return err
	}
	for range poolerAttempts {
		now, err := sessionWhileBusy(ctx, db, conn)
		if err != nil {
			return err
		}
		if now != own {
			return errors.New("it " + sharedSessions)
		}
	}
	return nil
}

// sessionWhileBusy returns the session of conn while another connection is in a transaction, for
// which a pooler takes the session that conn has used last.
func sessionWhileBusy(ctx context.Context, db *sql.DB, conn *sql.Conn) (session int, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // it has changed nothing
	if _, err := sessionOf(ctx, tx); err != nil {
		return 0, err
	}
	return sessionOf(ctx, conn)
}

// sessionOf returns the id of the server process that answers.
func sessionOf(ctx context.Context, from interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) (id int, err error) {
	// A statement prepared in another session would be an error here.
	err = from.QueryRowContext(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("read the session: %w", err)
	}
	return id, nil
}
