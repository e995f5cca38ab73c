package entries

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bouncers"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

var (
	// changesForBouncers has a separate query for each condition, so that each uses its index.
	changesForBouncers = `SELECT ` + EntryFields + ` FROM entries WHERE (scope = '' AND action = '' OR $4 <> 0 AND action = 'challenge' AND scope IN ('', '` + blocks.ChallengeScope + `')) AND id IN (
    SELECT id FROM entries WHERE revision > $1
    UNION SELECT id FROM entries WHERE kind = 'block' AND expires_at > $2 AND expires_at <= $3
    UNION SELECT id FROM entries WHERE kind = 'exemption' AND expires_at > $2 AND expires_at <= $3
    UNION SELECT entry_id FROM entry_versions WHERE expires_at > $2 AND expires_at <= $3)`
	formerEntries = `
SELECT entry_id, revision, replaced, expires_at, ended_at, reason FROM entry_versions WHERE replaced > $1
UNION ALL
SELECT entry_id, revision, replaced, expires_at, ended_at, reason FROM entry_versions
WHERE replaced <= $1 AND expires_at > $2 AND expires_at <= $3`
)

// BouncerChanges implements admin.BouncerChanges.
func (s *Store) BouncerChanges(ctx context.Context, since int64, from, to time.Time, captchas bool) (ch bouncers.Changes, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		ch = bouncers.Changes{}
		if _, err := t.One(db.ReadRevision, nil, &ch.Revision); err != nil {
			return err
		}
		args := []any{since, db.ToMS(from), db.ToMS(to)}
		asked := int64(0)
		if captchas {
			asked = 1
		}
		all, err := db.Each(t, new(EntryScanner).Scan, changesForBouncers, append(args[:len(args):len(args)], asked)...)
		if err != nil || len(all) == 0 {
			return err
		}
		byID := make(map[string]*blocks.History, len(all))
		for _, e := range all {
			if e.Pattern.IsZero() { // it selects no key, neither here nor on the nodes
				continue
			}
			h := &blocks.History{Entry: e}
			byID[e.ID] = h
			ch.Entries = append(ch.Entries, h)
		}
		return db.Stream(t, scanFormer, formerEntries, args, func(f former) error {
			if h := byID[f.id]; h != nil {
				h.Former = append(h.Former, f.Former)
			}
			return nil
		})
	})
	return ch, err
}

type former struct {
	id string
	blocks.Former
}

func scanFormer(r db.Row) (f former, err error) {
	err = r.Scan(&f.id, &f.Revision, &f.Replaced, db.Expiry(&f.Expires), db.MS(&f.Ended), &f.Reason)
	return f, err
}
