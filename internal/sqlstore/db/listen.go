package db

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/internal/supervise"
)

// changesChannel is the channel on which a change on Postgres sends its revision.
const changesChannel = "stint_changes"

const (
	// listenCheck is how long a silent connection is assumed to be alive.
	listenCheck = 20 * time.Second
	// listenRetry is the pause before a lost connection is opened again.
	listenRetry = time.Second
)

// Listen calls wake whenever any node may have made a change, and once for every new
// connection, since changes may have been missed before. It runs until ctx ends, through any
// outage. On SQLite, which has one node, it returns at once. It only speeds nodes up: they poll
// anyway. An outage is logged once, however often a connection is tried, and so is its end.
func (s *DB) Listen(ctx context.Context, wake func()) {
	if s.place.dialect.notify == "" {
		return
	}
	failing := false
	listening := func() {
		if failing {
			s.log.InfoContext(ctx, "notifications of changes arrive again")
		}
		failing = false
		wake()
	}
	for ctx.Err() == nil {
		err := s.listenOnce(ctx, listening)
		if ctx.Err() != nil {
			return
		}
		if !failing {
			s.log.WarnContext(ctx, "no notifications of changes, polling goes on", slog.Any("error", err))
		}
		failing = true
		_ = supervise.Sleep(ctx, listenRetry) // the loop checks ctx
	}
}

func (s *DB) listenOnce(ctx context.Context, wake func()) error {
	config, err := postgresConfig(s.place.target)
	if err != nil {
		return errors.New("the database URL is not one of Postgres")
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if err := limitStatements(ctx, conn); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+changesChannel); err != nil {
		return err
	}
	wake()
	for {
		if err := awaitNotification(ctx, conn); err != nil {
			return err
		}
		wake()
	}
}

// awaitNotification waits for a notification. It pings a silent connection regularly, since a
// vanished server is silent too.
func awaitNotification(ctx context.Context, conn *pgx.Conn) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, listenCheck)
		_, err := conn.WaitForNotification(waiting)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		checking, cancel := context.WithTimeout(ctx, listenCheck/4)
		err = conn.Ping(checking)
		cancel()
		if err != nil {
			return err
		}
	}
}
