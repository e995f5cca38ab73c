// Package sqlstore keeps policies, blocks, exemptions, identities and the audit
// in SQLite or Postgres, with one set of queries. The two differ in opening, in
// classifying errors and in their migrations, and nowhere else.
//
// Every change an operator can see takes the next number of the one locked
// revision row, stamps its rows with it and writes its audit entry in the same
// transaction, so that a node that follows the numbers misses nothing however
// late a transaction commits.
package sqlstore

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Options are what a store needs beside its place. The zero value is usable.
type Options struct {
	// Now is this node's clock, nil for time.Now. Rows are stamped with it.
	Now func() time.Time
	// Logger hears of connections lost and found again, nil for none.
	Logger *slog.Logger
	// AfterChange is called after each committed change and before its method
	// returns, so that what is acknowledged governs this node already; nil for
	// nothing. It is called too where all was as wanted already: another node
	// may have made it so. Its
	// error makes the change Unavailable, not undone: it is not acknowledged.
	AfterChange func(context.Context) error
}

// Store is safe for use by many goroutines and, on Postgres, by many nodes.
// See Open. Each part of it holds the rows of one subject; all parts share the
// connections, transactions and revision of the database.
type Store struct {
	*backend
	*policyStore
	*identityStore
	*offenceStore
	*proposalStore
	*auditStore
	*outboxStore
	*operationStore

	// Seeded reports whether Prepare found a new database and filled it: the
	// caller is then the one node that makes the first credentials.
	Seeded bool
}

// The parts of a Store.
type (
	policyStore    struct{ *backend } // policies and their versions
	identityStore  struct{ *backend } // tokens, users and sessions
	offenceStore   struct{ *backend } // offences, traffic and escalations
	proposalStore  struct{ *backend } // range proposals
	auditStore     struct{ *backend } // audit records and notes
	outboxStore    struct{ *backend } // notifications that are not sent yet
	operationStore struct{ *backend } // job runs, leases, nodes, reports and retention
)

func newStore(db *backend) *Store {
	return &Store{
		backend: db, policyStore: &policyStore{db}, identityStore: &identityStore{db}, offenceStore: &offenceStore{db},
		proposalStore: &proposalStore{db}, auditStore: &auditStore{db}, outboxStore: &outboxStore{db}, operationStore: &operationStore{db},
	}
}

// Open returns a store that is ready for use: it brings the schema up to date
// and seeds a new database. url is "postgres://...", "postgresql://...",
// "sqlite:///path" or the path of an SQLite file. An unreachable database is a
// *fault.Error of code Unavailable. No error names a password.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	s, err := New(url, opts)
	if err != nil {
		return nil, err
	}
	if err := s.Prepare(ctx); err != nil {
		_ = s.Close() // the error that matters is the one before
		return nil, err
	}
	return s, nil
}

// New returns a store that has not spoken to its database yet, for a node that
// must start while the database is away; call Prepare before anything else.
func New(url string, opts Options) (*Store, error) {
	place, err := locate(url)
	if err != nil {
		return nil, err
	}
	db := &backend{place: place, clock: opts.Now, log: opts.Logger, after: opts.AfterChange}
	if db.clock == nil {
		db.clock = time.Now
	}
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	if db.after == nil {
		db.after = func(context.Context) error { return nil }
	}
	if db.writer, db.reader, err = place.open(); err != nil {
		return nil, fmt.Errorf("open the %s database: %w", place.dialect.name, err)
	}
	return newStore(db), nil
}

// Prepare brings the schema up to date and seeds a new database; see Seeded. It
// may be called by any number of nodes at once, and again after it failed.
func (s *Store) Prepare(ctx context.Context) error {
	if err := s.place.migrate(ctx); err != nil {
		return err
	}
	if err := s.checkCompatible(ctx); err != nil {
		return err
	}
	return s.seed(ctx)
}
