package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stint-dev/stint/internal/socket"
	"github.com/stint-dev/stint/internal/supervise"
)

var postgres = dialect{
	name:        "postgres",
	clock:       "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
	server:      "CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000000 AS BIGINT)",
	notify:      "SELECT pg_notify('" + changesChannel + "', CAST(CAST($1 AS BIGINT) AS TEXT))",
	countTables: "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = $1",
	// All who use a table wait behind a migration that waits for it, so that must be for less than
	// their own lock_timeout. A node tries again.
	beforeMigration: "SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '3s', true)",
	longStatements:  "SELECT set_config('statement_timeout', '15min', true)",
	// A server does not convert texts from or to SQL_ASCII.
	open:     openPostgres,
	classify: classifyPostgres,
	migrator: postgresMigrator,

	mayHaveCommitted: mayHaveCommittedPostgres,
}

// postgresConnections bounds the connections of one node.
const postgresConnections = 16

// maxMessage bounds the announced length of a server message, since pgx allocates that much
// before reading. No row is a tenth of it.
const maxMessage = 32 << 20

// maxUnacknowledged is how long a connection waits for the machine of the server to acknowledge
// what was sent. One that lost its power says nothing, and without this Linux tries for a quarter of
// an hour: calls without a deadline, as of jobs and heartbeats, would wait after a failover. A server
// that is slow, or stopped, acknowledges.
const maxUnacknowledged = 20 * time.Second

// postgresConfig parses a URL. Its error may contain a password: do not print it.
func postgresConfig(target string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(target)
	if err != nil {
		return nil, err
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 5 * time.Second
	}
	config.DialFunc = socket.DialerFailing(maxUnacknowledged).DialContext // pgx ends it by ConnectTimeout
	if config.ValidateConnect == nil && len(hostsOf(config)) > 1 {
		// Only the primary accepts changes, and what a standby has may be older than what was read.
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	build := config.BuildFrontend
	config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := build(r, w)
		f.SetMaxBodyLen(maxMessage)
		return f
	}
	for name, value := range startParameters {
		if config.RuntimeParams[name] == "" {
			config.RuntimeParams[name] = value
		}
	}
	return config, nil
}

// hostsOf returns the servers that a URL names, sorted.
func hostsOf(config *pgx.ConnConfig) []string {
	hosts := []string{net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))}
	for _, other := range config.Fallbacks { // also the same server without TLS
		hosts = append(hosts, net.JoinHostPort(other.Host, strconv.Itoa(int(other.Port))))
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// startParameters are sent at the start of each connection, unless the URL has them. pgbouncer takes
// them. Without client_encoding a session has that of the database.
var startParameters = map[string]string{"application_name": "stint", "client_encoding": "UTF8", "standard_conforming_strings": "on"}

// sessionSettings are set on each new connection, unless the URL sets them.
var sessionSettings = []struct{ name, value string }{
	// A node that hangs inside a change must not lock the revision row for the others, and one
	// statement must not keep a connection for ever. Work that may take longer raises the
	// limit; see longStatements and beforeMigration.
	{"statement_timeout", "60s"},
	{"lock_timeout", "10s"},
	{"idle_in_transaction_session_timeout", "60s"},
	// The connection that listens is idle until something changes, and one of the pool until it is used.
	{"idle_session_timeout", "0"},
	// Changes wait for each other by locks. In a stricter level each fails that has waited.
	{"default_transaction_isolation", "read committed"},
}

// limitStatements sets sessionSettings by a statement, because pgbouncer refuses them as
// start-up parameters.
func limitStatements(ctx context.Context, conn *pgx.Conn) error {
	given := conn.Config().RuntimeParams
	var settings []string
	for _, s := range sessionSettings {
		if given[s.name] == "" {
			settings = append(settings, "set_config('"+s.name+"', '"+s.value+"', false)")
		}
	}
	if len(settings) == 0 {
		return nil
	}
	_, err := conn.Exec(ctx, "SELECT "+strings.Join(settings, ", "), pgx.QueryExecModeSimpleProtocol)
	return err
}

func openPostgres(target string) (writer, reader *sql.DB, err error) {
	config, err := postgresConfig(target)
	if err != nil {
		return nil, nil, errors.New("the database URL is not one of Postgres")
	}
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(limitStatements))
	db.SetMaxOpenConns(postgresConnections)
	db.SetMaxIdleConns(postgresConnections / 2)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db, db, nil
}

func classifyPostgres(err error) trouble {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		switch {
		case server.Code == "40001", server.Code == "40P01": // serialization failure, deadlock
			return again
		case server.Code == "55P03": // lock_timeout
			return locked
		case server.Code == "57014": // statement_timeout, or an administrator
			return slow
		case server.Code == "53100":
			return full
		case server.Code == "42P05", server.Code == "26000": // a statement was prepared in another session
			return shared
		case server.Code == "XX001", server.Code == "XX002": // damaged data, damaged index
			return damaged
		case server.Code == "25006": // the server is a standby
			return readOnlyDatabase
		case server.Code == "42501", server.Code == "42P01", server.Code == "42703": // no right, no table, no column
			return unfit
		case strings.HasPrefix(server.Code, "08"), // connection exceptions
			strings.HasPrefix(server.Code, "57P"), // shut down, crashed, starting up
			strings.HasPrefix(server.Code, "53"),  // out of connections, disk or memory
			server.Code == "25P03":                // idle in a transaction for too long
			return away
		}
		return breakage
	}
	var connecting *pgconn.ConnectError
	var network net.Error
	var larger *pgproto3.ExceededMaxBodyLenErr // the server is not Postgres
	if errors.As(err, &connecting) || errors.As(err, &larger) || errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, net.ErrClosed) ||
		pgconn.SafeToRetry(err) || errors.Is(err, pgconn.ErrConnClosed) {
		return away
	}
	return breakage
}

// reasonOf returns the server's message for an error, without its codes.
func reasonOf(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Message
	}
	return err.Error()
}

// mayHaveCommittedPostgres implements dialect.mayHaveCommitted. A server that answers ERROR, or
// that rolled back, has committed nothing. A server that ended the session or became
// unreachable may have.
func mayHaveCommittedPostgres(err error) bool {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.SeverityUnlocalized != "ERROR"
	}
	if errors.Is(err, pgconn.ErrConnClosed) {
		return true // pgx returns this error, as safe to retry, even if the connection broke after the COMMIT was sent
	}
	return !errors.Is(err, pgx.ErrTxCommitRollback) && !errors.Is(err, pgx.ErrTxClosed) && !pgconn.SafeToRetry(err)
}

// The advisory locks. migrationLock is "stint" in ASCII. It differs from the lock that
// golang-migrate itself takes.
const (
	migrationLock  = 0x7374696e74
	firstStartLock = migrationLock + 1
)

// AsFirstStart calls do unless another node of the database of s is inside AsFirstStart. A node
// that is killed releases the lock. An SQLite file belongs to one node, and needs no lock.
func AsFirstStart(ctx context.Context, s *DB, do func() error) error {
	if s.place.dialect != &postgres {
		return do()
	}
	// The lock belongs to a transaction, so that it ends with it whatever becomes of the connection.
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return s.explain(ctx, err)
	}
	defer func() { _ = tx.Rollback() }() // it has changed nothing
	var got bool
	if err := tx.QueryRowContext(ctx, "SELECT pg_try_advisory_xact_lock($1)", firstStartLock).Scan(&got); err != nil || !got {
		return s.explain(ctx, err)
	}
	return do()
}

// checkEncoding refuses a database that cannot store every text: counts of keys that others choose
// would be dropped. A URL with client_encoding accepts that.
func checkEncoding(ctx context.Context, db *sql.DB, target string) error {
	chosen, err := pgx.ParseConfig(target)
	if err != nil {
		return errors.New("the database URL is not one of Postgres")
	}
	if chosen.RuntimeParams["client_encoding"] != "" {
		return nil
	}
	var encoding string
	if err := db.QueryRowContext(ctx, "SELECT current_setting('server_encoding')").Scan(&encoding); err != nil {
		return fmt.Errorf("read the encoding: %w", err)
	}
	if encoding != "UTF8" && encoding != "SQL_ASCII" {
		return fmt.Errorf("it stores texts in %s, which lacks most letters; create the database with ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	return nil
}

func postgresMigrator(target string) (*migrator, error) {
	db, _, err := openPostgres(target)
	if err != nil {
		return nil, err
	}
	return &migrator{
		db: db,
		driver: func() (database.Driver, error) {
			return migratepgx.WithInstance(db, &migratepgx.Config{})
		},
		lock: func(ctx context.Context) (func(), error) { return advisoryLock(ctx, db) },
		check: func(ctx context.Context) error {
			if err := checkEncoding(ctx, db, target); err != nil {
				return err
			}
			return checkSessions(ctx, db)
		},
	}, nil
}

// advisoryLock waits for the migration lock until ctx ends. It polls, because the blocking form
// does not end with the context and does not report that it waits.
func advisoryLock(ctx context.Context, db *sql.DB) (unlock func(), err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for {
		var got bool
		err := conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", migrationLock).Scan(&got)
		if err == nil && got {
			// The lock belongs to the session: closing the connection releases it.
			return func() { _ = conn.Raw(func(any) error { return driver.ErrBadConn }); _ = conn.Close() }, nil
		}
		if err == nil {
			err = supervise.Sleep(ctx, 50*time.Millisecond)
		}
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
}
