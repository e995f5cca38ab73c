// Package sqlstore keeps policies, blocks, exemptions, identities, offences and
// the audit in SQLite or Postgres, with one set of queries. The two differ in
// opening, in classifying errors and in their migrations, and nowhere else.
//
// Each subject has a package of its own here: entries, policies, identities,
// offences, operations. All use db, which runs their transactions. This package
// puts them together, and holds what reads or changes several of them at once.
//
// Every change an operator can see takes the next number of the one locked
// revision row, stamps its rows with it and writes its audit record in the same
// transaction, so that a node that follows the numbers misses nothing however
// late a transaction commits.
package sqlstore

import (
	"context"

	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/sqlstore/entries"
	"github.com/stint-dev/stint/internal/sqlstore/identities"
	sqloffences "github.com/stint-dev/stint/internal/sqlstore/offences"
	"github.com/stint-dev/stint/internal/sqlstore/operations"
	"github.com/stint-dev/stint/internal/sqlstore/policies"
	sqlprofiles "github.com/stint-dev/stint/internal/sqlstore/profiles"
)

// Options are what a store needs besides its location. The zero value is usable.
type Options = db.Options

// Store holds the store of each subject; all share the connections,
// transactions and revision of one database. It is safe for use by many
// goroutines and, on Postgres, by many nodes. See Open.
type Store struct {
	*db.DB

	Entries    *entries.Store
	Policies   *policies.Store
	Identities *identities.Store
	Factors    *identities.Factors
	Offences   *sqloffences.Store
	Proposals  *sqloffences.Proposals
	Audit      *operations.Audit
	Bouncers   *operations.Bouncers
	Channels   *operations.Channels
	Crawlers   *operations.Crawlers
	Jobs       *operations.Jobs
	Nodes      *operations.Nodes
	Notes      *operations.Notes
	Outbox     *operations.Outbox
	Profiles   *sqlprofiles.Store
	Reports    *operations.Reports
	Retention  *operations.Retention
	Views      *operations.Views

	// Seeded reports whether Prepare found a new database and filled it: the
	// caller is then the one node that makes the first credentials.
	Seeded bool
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

// New returns a store that has not contacted its database yet, for a node that
// must start while the database is unreachable; call Prepare before anything
// else.
func New(url string, opts Options) (*Store, error) {
	d, err := db.Open(url, opts)
	if err != nil {
		return nil, err
	}
	return &Store{
		DB: d, Entries: entries.New(d), Policies: policies.New(d), Identities: identities.New(d), Factors: identities.NewFactors(d),
		Offences: sqloffences.New(d), Proposals: sqloffences.NewProposals(d),
		Audit: operations.NewAudit(d), Bouncers: operations.NewBouncers(d), Channels: operations.NewChannels(d), Crawlers: operations.NewCrawlers(d), Jobs: operations.NewJobs(d), Nodes: operations.NewNodes(d), Notes: operations.NewNotes(d),
		Outbox: operations.NewOutbox(d), Profiles: sqlprofiles.New(d), Reports: operations.NewReports(d), Retention: operations.NewRetention(d), Views: operations.NewViews(d),
	}, nil
}

// Prepare brings the schema up to date and seeds a new database; see Seeded. It
// may be called by any number of nodes at once, and again after it failed.
func (s *Store) Prepare(ctx context.Context) error {
	if err := s.DB.Prepare(ctx); err != nil {
		return err
	}
	if err := s.seed(ctx); err != nil {
		return err
	}
	return s.sealTOTP(ctx)
}

// sealTOTP seals the second factors that a build of before stored as they are.
func (s *Store) sealTOTP(ctx context.Context) error {
	var plain bool
	if err := s.View(ctx, func(t *db.Tx) (err error) {
		plain, err = db.HasPlainTOTP(t)
		return err
	}); err != nil || !plain {
		return err
	}
	return s.Write(ctx, db.SealPlainTOTP)
}
