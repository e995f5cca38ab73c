package sqlstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/sqlstore/entries"
	"github.com/stint-dev/stint/internal/sqlstore/identities"
	"github.com/stint-dev/stint/internal/sqlstore/policies"
	sqlprofiles "github.com/stint-dev/stint/internal/sqlstore/profiles"
)

// Restore replaces everything in the embedded database with the content of a backup that a node
// can load; see db.DB.Restore.
func (s *Store) Restore(ctx context.Context, by audit.Actor, path string) error {
	return s.DB.Restore(ctx, by, path, db.RestoreOptions{
		Check: s.checkContents, TOTPStep: identity.TOTPStepAt, CountAdmins: identities.CountAdmins, BootstrapAuthor: identity.BootstrapAuthor,
	})
}

// BackupContents counts what a backup contains: policies, active entries, users, and tokens
// that were not revoked.
type BackupContents struct{ Policies, Blocks, Exemptions, Users, Tokens int64 }

// VerifyBackup checks a backup as Restore does, without changing anything, and returns its
// contents.
func (s *Store) VerifyBackup(ctx context.Context, path string) (held BackupContents, err error) {
	err = db.VerifyBackup(ctx, s.DB, path, func(ctx context.Context, path string) error {
		if err := s.checkContents(ctx, path); err != nil {
			return err
		}
		copied, err := New(path, Options{Now: s.LocalNow})
		if err != nil {
			return err
		}
		defer copied.Close()
		return copied.View(ctx, func(t *db.Tx) error {
			_, err := t.One(countContents, nil, &held.Policies, &held.Blocks, &held.Exemptions, &held.Users, &held.Tokens)
			return err
		})
	})
	return held, err
}

const countContents = `
SELECT (SELECT count(*) FROM policies WHERE deleted_at = 0),
	(SELECT count(*) FROM entries WHERE kind = 'block' AND ended_at = 0),
	(SELECT count(*) FROM entries WHERE kind = 'exemption' AND ended_at = 0),
	(SELECT count(*) FROM users), (SELECT count(*) FROM tokens WHERE revoked_at = 0)`

// checkContents reads everything that a node reads from a database, so that a restore refuses a
// database that no node could load. The file already has the schema of this program.
func (s *Store) checkContents(ctx context.Context, path string) error {
	restored, err := New(path, Options{Now: s.LocalNow})
	if err != nil {
		return err
	}
	defer restored.Close()
	if err := restored.CheckCompatible(ctx); err != nil {
		return db.NotABackup(err, "%s", db.Clip(err.Error()))
	}
	if err := restored.readAll(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return db.NotABackup(err, "%s", db.Clip(err.Error()))
	}
	return nil
}

// readAll reads everything that a catalog reads, and every version of a policy.
func (s *Store) readAll(ctx context.Context) error {
	if err := s.View(ctx, checkVersions); err != nil {
		return err
	}
	if err := s.EachChange(ctx, catalog.Position{}, checkChanges); err != nil {
		return err
	}
	return s.View(ctx, func(t *db.Tx) error {
		if err := db.Stream(t, new(entries.EntryScanner).Scan, `SELECT `+entries.EntryFields+` FROM entries`, nil, readablePattern); err != nil {
			return err
		}
		if err := db.Stream(t, sqlprofiles.Scan, `SELECT `+sqlprofiles.Fields+` FROM profiles`, nil, func(*profiles.Profile) error { return nil }); err != nil {
			return err
		}
		if err := db.Stream(t, identities.ScanToken, identities.ReadTokens, nil, checkToken); err != nil {
			return err
		}
		return db.Stream(t, policies.Scan, policies.PolicyColumns, nil, func(p *policies.Stored) error { return checkPolicy(p.Policy) })
	})
}

// checkVersions checks that the current version of every policy exists.
func checkVersions(t *db.Tx) error {
	var lost int64
	if _, err := t.One(countLostVersions, nil, &lost); err != nil {
		return err
	}
	if lost > 0 {
		return fmt.Errorf("%d policies lack their current version", lost)
	}
	return nil
}

const countLostVersions = `
SELECT count(*) FROM policies p
WHERE NOT EXISTS (SELECT 1 FROM policy_versions v WHERE v.policy_id = p.id AND v.version = p.version)`

// checkChanges checks what a node reads at its start. readAll reads ended entries too, which a
// node does not.
func checkChanges(ch catalog.Changes) error {
	if ch.Settings == nil || len(ch.Settings.Secret) < 16 || ch.Settings.IPv6Bits < 1 || ch.Settings.IPv6Bits > 128 {
		return errors.New("the settings that all nodes share are missing or wrong")
	}
	for _, err := range ch.Entries {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkPolicy(p *rules.Policy) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("policy %d version %d: %w", p.ID, p.Version, err)
	}
	return nil
}

func checkToken(t *identity.Token) error {
	if len(t.Hash) != sha256.Size {
		return fmt.Errorf("the hash of the token %s is not a SHA-256", db.Quote(t.ID))
	}
	return nil
}

// readablePattern returns an error for an entry whose pattern is refused.
func readablePattern(e *blocks.Entry) error {
	if !e.Pattern.IsZero() {
		return nil
	}
	_, err := keys.Parser{}.Pattern(e.Pattern.String())
	return fmt.Errorf("entry %s: %w", e.ID, err)
}
