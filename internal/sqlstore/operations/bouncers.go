package operations

import (
	"context"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/bouncers"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	bouncerColumns = `
SELECT b.token_id, b.address, b.type, coalesce(t.name, ''), ' ' || coalesce(t.scopes, '') || ' ' LIKE '% captcha %', b.version, b.mode, b.first_at, b.last_at, b.sent,
    b.cursor_revision, b.cursor_at, b.before_revision, b.before_at, b.full_at
FROM bouncers b LEFT JOIN tokens t ON t.id = b.token_id `
	findBouncer  = bouncerColumns + `WHERE b.token_id = $1 AND b.address = $2 AND b.type = $3`
	listBouncers = bouncerColumns + `WHERE b.last_at >= $1 ORDER BY 4, b.token_id, b.address, b.type`
	putBouncer   = `
INSERT INTO bouncers (token_id, address, type, version, mode, first_at, last_at, sent)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (token_id, address, type) DO UPDATE SET version = excluded.version, mode = excluded.mode,
    last_at = excluded.last_at, sent = bouncers.sent + excluded.sent`
	moveCursor = `
UPDATE bouncers SET cursor_revision = $4, cursor_at = $5, before_revision = $6, before_at = $7, full_at = $8
WHERE token_id = $1 AND address = $2 AND type = $3`
	deleteSurplusBouncers = `
DELETE FROM bouncers WHERE token_id = $1 AND (address, type) NOT IN
    (SELECT address, type FROM bouncers WHERE token_id = $1 ORDER BY last_at DESC, address, type LIMIT $2)`
	deleteBouncers = `DELETE FROM bouncers WHERE last_at < $1`
)

// Bouncers implements admin.BouncerStore.
type Bouncers struct{ db *db.DB }

// NewBouncers returns the store of the bouncers in a database.
func NewBouncers(d *db.DB) *Bouncers { return &Bouncers{d} }

// Bouncers implements admin.BouncerStore.
func (s *Bouncers) Bouncers(ctx context.Context, since time.Time) ([]bouncers.Bouncer, error) {
	return db.List(ctx, s.db, scanBouncer, listBouncers, db.ToMS(since))
}

// FindBouncer implements admin.BouncerStore.
func (s *Bouncers) FindBouncer(ctx context.Context, id bouncers.ID) (b bouncers.Bouncer, found bool, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		all, err := db.Each(t, scanBouncer, findBouncer, id.TokenID, id.Address.String(), id.Type)
		if found = len(all) > 0; found {
			b = all[0]
		}
		return err
	})
	return b, found, err
}

func scanBouncer(r db.Row) (b bouncers.Bouncer, err error) {
	var address string
	if err := r.Scan(&b.TokenID, &address, &b.Type, &b.TokenName, &b.MayCaptcha, &b.Version, &b.Mode, db.MS(&b.First), db.MS(&b.Last), &b.Sent,
		&b.Cursor.Last.Revision, db.MS(&b.Cursor.Last.At), &b.Cursor.Before.Revision, db.MS(&b.Cursor.Before.At), db.MS(&b.Cursor.Full)); err != nil {
		return b, err
	}
	b.Address, err = netip.ParseAddr(address)
	return b, err
}

// PutBouncer implements admin.BouncerStore.
func (s *Bouncers) PutBouncer(ctx context.Context, b bouncers.Bouncer) error {
	for field, text := range map[string]string{"type": b.Type, "version": b.Version} {
		if err := db.CheckText(field, text); err != nil {
			return err
		}
	}
	return s.db.Write(ctx, func(t *db.Tx) error {
		id := []any{b.TokenID, b.Address.String(), b.Type}
		_, err := t.Exec(putBouncer, append(id, b.Version, string(b.Mode), db.ToMS(b.First), db.ToMS(b.Last), b.Sent)...)
		if err == nil && b.Mode == bouncers.Stream {
			c := b.Cursor
			_, err = t.Exec(moveCursor, append(id, c.Last.Revision, db.ToMS(c.Last.At), c.Before.Revision, db.ToMS(c.Before.At), db.ToMS(c.Full))...)
		}
		if err == nil {
			_, err = t.Exec(deleteSurplusBouncers, b.TokenID, bouncers.MaxPerToken)
		}
		return err
	})
}

// DeleteBouncers deletes the bouncers that have sent no request since an instant.
func (s *Bouncers) DeleteBouncers(ctx context.Context, before time.Time) (int, error) {
	return deleteBefore(ctx, s.db, deleteBouncers, before)
}
