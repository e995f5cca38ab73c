package sqlstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// Setting returns a setting of Postgres as a transaction sees it.
func (s *Store) Setting(t testing.TB, ctx context.Context, name string) (value string) {
	t.Helper()
	err := s.View(ctx, func(t *db.Tx) error {
		_, err := t.One("SELECT current_setting($1)", []any{name}, &value)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// Sleep has Postgres do nothing for some seconds.
func (s *Store) Sleep(ctx context.Context, seconds string) error {
	return s.View(ctx, func(t *db.Tx) error {
		_, err := t.Exec("SELECT pg_sleep(CAST($1 AS DOUBLE PRECISION))", seconds)
		return err
	})
}

// LimitPages bounds the SQLite file as a full disk does.
func (s *Store) LimitPages(t testing.TB, pages int) {
	t.Helper()
	err := s.Write(t.Context(), func(t *db.Tx) error {
		_, err := t.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
