// Package sqlstore stores policies, blocks, exemptions, identities, offences and the audit log
// in SQLite or Postgres, with one set of queries. The two differ only in opening, in
// classifying errors and in their migrations.
//
// Each subject has its own package here: entries, policies, identities, offences, operations.
// All use package db, which runs their transactions. This package combines them, and contains
// what reads or changes several of them at once.
//
// Every change that an operator can see takes the next revision from one locked row, stores it
// in the changed rows, and writes its audit record in the same transaction. So a node that
// follows the revisions misses nothing, however late a transaction commits.
package sqlstore

import (
	"context"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/sqlstore/entries"
	"github.com/stint-dev/stint/internal/sqlstore/identities"
	sqloffences "github.com/stint-dev/stint/internal/sqlstore/offences"
	"github.com/stint-dev/stint/internal/sqlstore/operations"
	"github.com/stint-dev/stint/internal/sqlstore/policies"
	sqlprofiles "github.com/stint-dev/stint/internal/sqlstore/profiles"
)

// Options are the options of a store besides its location. The zero value is usable.
type Options = db.Options

// Store holds the store of each subject. All share the connections, transactions and revision
// of one database. A Store is safe for concurrent use and, on Postgres, by several nodes. See
// Open.
type Store struct {
	*db.DB
	// These are embedded, so that a Store is the store of use cases that need no other.
	*operations.Audit
	*operations.Nodes

	// FirstPolicies are those of a new database, which Open and Prepare seed. nil means the policy
	// default, which limits all keys.
	FirstPolicies []*rules.Policy

	Entries      *entries.Store
	Policies     *policies.Store
	Identities   *identities.Store
	Factors      *identities.Factors
	Offences     *sqloffences.Store
	Proposals    *sqloffences.Proposals
	Attacks      *operations.Attacks
	Bouncers     *operations.Bouncers
	BlockSources *operations.BlockSources
	Channels     *operations.Channels
	Erasure      *operations.Erasure
	Crawlers     *operations.Crawlers
	Sites        *operations.Sites
	Jobs         *operations.Jobs
	Notes        *operations.Notes
	Outbox       *operations.Outbox
	Profiles     *sqlprofiles.Store
	Reports      *operations.Reports
	Retention    *operations.Retention
}

// Open returns a store that is ready for use: it migrates the schema and seeds a new database.
// url is "postgres://...", "postgresql://...", "sqlite:///path" or the path of an SQLite file.
// If the database is unreachable, the error is a *fault.Error of code Unavailable. No error
// contains a password.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	s, err := New(url, opts)
	if err != nil {
		return nil, err
	}
	if err := s.Prepare(ctx); err != nil {
		_ = s.Close() // the first error matters
		return nil, err
	}
	return s, nil
}

// New returns a store that has not contacted its database yet, for a node that must start while
// the database is unreachable. Call Prepare before any other method.
func New(url string, opts Options) (*Store, error) {
	d, err := db.Open(url, opts)
	if err != nil {
		return nil, err
	}
	return &Store{
		DB: d, Entries: entries.New(d), Policies: policies.New(d), Identities: identities.New(d), Factors: identities.NewFactors(d),
		Offences: sqloffences.New(d), Proposals: sqloffences.NewProposals(d),
		Attacks: operations.NewAttacks(d), Audit: operations.NewAudit(d), Bouncers: operations.NewBouncers(d), BlockSources: operations.NewBlockSources(d), Channels: operations.NewChannels(d), Crawlers: operations.NewCrawlers(d), Sites: operations.NewSites(d), Erasure: operations.NewErasure(d), Jobs: operations.NewJobs(d), Nodes: operations.NewNodes(d), Notes: operations.NewNotes(d),
		Outbox: operations.NewOutbox(d), Profiles: sqlprofiles.New(d), Reports: operations.NewReports(d), Retention: operations.NewRetention(d),
	}, nil
}

// Prepare migrates the schema and seeds a new database. Several nodes may call it
// at the same time, and it may be called again after an error.
func (s *Store) Prepare(ctx context.Context) error {
	if err := s.DB.Prepare(ctx); err != nil {
		return err
	}
	if err := s.seed(ctx); err != nil {
		return err
	}
	return s.sealTOTP(ctx)
}

// sealTOTP seals the second factors that an earlier release stored unencrypted.
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
