package sqlstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/sqlstore/policies"
)

const (
	readSeeded = `SELECT seeded_at FROM revision WHERE id = 1`
	markSeeded = `UPDATE revision SET seeded_at = $1 WHERE id = 1`

	addSetting   = `INSERT INTO settings (name, value, revision) VALUES ($1, $2, $3)`
	readSettings = `SELECT name, value FROM settings`

	readFirstStart = `SELECT value FROM settings WHERE name = 'first_start'`
	endFirstStart  = `DELETE FROM settings WHERE name = 'first_start'`
)

// Names of the settings that all nodes share.
const (
	ipv6BitsSetting = "ipv6_bits"
	secretSetting   = "secret"
	// firstStartSetting exists until EndFirstStart is called.
	firstStartSetting = "first_start"
)

// seed fills a new database. The revision row is locked, so one node seeds, and the others wait
// and then see that it is done.
func (s *Store) seed(ctx context.Context) error {
	var done int64
	if err := s.View(ctx, func(t *db.Tx) error {
		_, err := t.One(readSeeded, nil, &done)
		return err
	}); err != nil || done != 0 {
		return err
	}
	return s.Change(ctx, audit.SystemActor("built-in"), func(t *db.Tx) error {
		if _, err := t.One(readSeeded, nil, &done); err != nil {
			return err
		}
		if done != 0 {
			return db.ErrUnchanged
		}
		if _, err := t.Exec(markSeeded, db.ToMS(t.Now)); err != nil {
			return err
		}
		if err := seedSettings(t); err != nil {
			return err
		}
		first := s.FirstPolicies
		if first == nil {
			policy, err := seedPolicy()
			if err != nil {
				return err
			}
			first = append(first, policy)
		}
		for _, policy := range first {
			if _, err := policies.In(t).CreatePolicy(policy); err != nil {
				return err
			}
		}
		return nil
	})
}

func seedSettings(t *db.Tx) error {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return fmt.Errorf("make the secret: %w", err)
	}
	for name, value := range map[string]string{
		ipv6BitsSetting: strconv.Itoa(keys.DefaultIPv6Bits),
		secretSetting:   hex.EncodeToString(secret),

		firstStartSetting: "pending",
	} {
		if _, err := t.Exec(addSetting, name, value, t.Revision); err != nil {
			return err
		}
	}
	return nil
}

// FirstStart calls create, which creates and prints the first credentials, if no node has
// finished doing so since the database was seeded. It does nothing while another node is doing
// it. If that node was killed, create is called again, and finds what the killed node created.
func (s *Store) FirstStart(ctx context.Context, create func() error) error {
	if awaits, err := s.AwaitsFirstStart(ctx); err != nil || !awaits {
		return err
	}
	return db.AsFirstStart(ctx, s.DB, func() error {
		// Another node may have finished before this one had the lock.
		if awaits, err := s.AwaitsFirstStart(ctx); err != nil || !awaits {
			return err
		}
		if err := create(); err != nil {
			return err
		}
		return s.EndFirstStart(ctx)
	})
}

// AwaitsFirstStart reports whether EndFirstStart has not been called since the database was
// seeded.
func (s *Store) AwaitsFirstStart(ctx context.Context) (awaits bool, err error) {
	err = s.View(ctx, func(t *db.Tx) error {
		var value string
		awaits, err = t.One(readFirstStart, nil, &value)
		return err
	})
	return awaits, err
}

// EndFirstStart records that the first credentials were printed or replaced.
func (s *Store) EndFirstStart(ctx context.Context) error {
	return s.Write(ctx, func(t *db.Tx) error {
		_, err := t.Exec(endFirstStart)
		return err
	})
}

// seedPolicy returns the policy of a new database, which limits all keys.
func seedPolicy() (*rules.Policy, error) {
	everyone, err := keys.Parser{}.Pattern("*")
	if err != nil {
		return nil, err
	}
	stack, err := rules.ParseStack([]string{"1/s", "20/m", "200/h", "800/d"})
	if err != nil {
		return nil, err
	}
	return &rules.Policy{
		Name: "default", Match: []keys.Pattern{everyone}, Rules: stack,
		Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog,
	}, nil
}

// settings reads the shared settings.
func settings(t *db.Tx) (*catalog.Settings, error) {
	type setting struct{ name, value string }
	all, err := db.Each(t, func(r db.Row) (s setting, err error) {
		err = r.Scan(&s.name, &s.value)
		return s, err
	}, readSettings)
	if err != nil {
		return nil, err
	}
	settings := &catalog.Settings{}
	for _, s := range all {
		switch s.name {
		case ipv6BitsSetting:
			settings.IPv6Bits, err = strconv.Atoi(s.value)
		case secretSetting:
			settings.Secret, err = hex.DecodeString(s.value)
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the setting %s cannot be read: %w", s.name, err)
		}
	}
	if len(settings.Secret) == 0 {
		// The revision of a backup is there before the settings and tokens, and would never be read again.
		return nil, &fault.Error{Code: fault.Unavailable, Message: "The database lacks its settings, as while a backup is being restored; nothing was changed."}
	}
	return settings, nil
}
