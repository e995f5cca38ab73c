package operations

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/wire"
)

// Sites implements answers.SiteStore and admin/operations.SiteStore.
type Sites struct{ db *db.DB }

// NewSites returns the store of what is known of sites in a database.
func NewSites(d *db.DB) *Sites { return &Sites{d} }

const (
	findSites    = `SELECT host, own_paths, forgotten_at, known FROM sites `
	putSites     = `INSERT INTO sites (host, known, written_at) `
	replaceSites = ` ON CONFLICT (host) DO UPDATE SET known = excluded.known, written_at = excluded.written_at`
	boundSites   = `
DELETE FROM sites WHERE host IN (SELECT host FROM sites WHERE own_paths = '[]' ORDER BY written_at DESC, host LIMIT 1000000 OFFSET $1)`
	correctSite = `
INSERT INTO sites (host, own_paths, forgotten_at, written_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (host) DO UPDATE SET own_paths = excluded.own_paths, forgotten_at = excluded.forgotten_at, written_at = excluded.written_at`
)

var siteColumns = []string{db.TextColumn, db.TextColumn, db.IntColumn}

// scanSite reads a row. What is damaged of it is as if it were not known.
func scanSite(r db.Row) (s answers.StoredSite, err error) {
	var own, known string
	err = r.Scan(&s.Host, &own, db.MS(&s.Forgotten), &known)
	if json.Unmarshal([]byte(own), &s.Own) != nil {
		s.Own = nil
	}
	if json.Unmarshal([]byte(known), &s.Known) != nil {
		s.Known = answers.SiteState{}
	}
	return s, err
}

// Sites implements answers.SiteStore.
func (s *Sites) Sites(ctx context.Context) ([]answers.StoredSite, error) {
	return db.List(ctx, s.db, scanSite, findSites+"ORDER BY written_at DESC, host")
}

// PutSites implements answers.SiteStore.
func (s *Sites) PutSites(ctx context.Context, all []answers.StoredSite) error {
	return s.db.Write(ctx, func(t *db.Tx) error {
		rows := make([][]any, len(all))
		for i := range all {
			known, err := json.Marshal(&all[i].Known, json.Deterministic(true))
			if err != nil {
				return err
			}
			rows[i] = []any{all[i].Host, string(known), db.ToMS(t.Now)}
		}
		if err := t.Upsert(putSites, replaceSites, siteColumns, rows); err != nil {
			return err
		}
		_, err := t.Exec(boundSites, int64(answers.MaxStored))
		return err
	})
}

// siteSnapshot is the form of what an operator has said of a site in the audit log.
type siteSnapshot struct {
	Host     string   `json:"host"`
	OwnPaths []string `json:"own_paths"`
}

// CorrectSite implements admin/operations.SiteStore.
func (s *Sites) CorrectSite(ctx context.Context, by audit.Actor, r wire.SiteRequest) error {
	return s.db.Change(ctx, by, func(t *db.Tx) error {
		found, err := db.Each(t, scanSite, findSites+"WHERE host = $1", r.Host)
		if err != nil {
			return err
		}
		var before any
		paths, forgotten := []string{}, int64(0)
		if len(found) > 0 {
			paths, forgotten = found[0].Own, db.ToMS(found[0].Forgotten)
			before = siteSnapshot{r.Host, paths}
		}
		var did []string
		if r.OwnPaths != nil {
			paths, did = r.OwnPaths, append(did, "named the paths that are its own")
		}
		if r.Forget {
			forgotten, did = db.ToMS(t.Now), append(did, "forgot what was learned of it")
		}
		own, err := json.Marshal(paths)
		if err != nil {
			return err
		}
		if _, err := t.Exec(correctSite, r.Host, string(own), forgotten, db.ToMS(t.Now)); err != nil {
			return err
		}
		name := cmp.Or(r.Host, "of unknown hosts")
		return t.Record("site.correct", "site", name, fmt.Sprintf("Site %q: %s.", name, strings.Join(did, ", ")), before, siteSnapshot{r.Host, paths})
	})
}
