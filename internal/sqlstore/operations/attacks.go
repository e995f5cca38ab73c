package operations

import (
	"context"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// Attacks implements admin.AttackStore.
type Attacks struct{ leases }

// NewAttacks returns the store of the announced attacks in a database.
func NewAttacks(d *db.DB) *Attacks { return &Attacks{leases{d}} }

const (
	readAttacks  = `SELECT id, began_at, seen_at, ended_at, normal, peak, refused, sources FROM attacks WHERE `
	insertAttack = `
INSERT INTO attacks (id, began_at, seen_at, ended_at, normal, peak, refused, sources) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT DO NOTHING`
	updateAttack = `
UPDATE attacks SET seen_at = $2, ended_at = $3, peak = $4, refused = $5, sources = $6 WHERE id = $1 AND ended_at = 0 AND seen_at = $7`
)

func scanAttack(r db.Row) (*offences.AttackCourse, error) {
	c := &offences.AttackCourse{}
	var sources string
	if err := r.Scan(&c.ID, db.MS(&c.Began), db.MS(&c.Seen), db.MS(&c.Ended), &c.Normal, &c.Peak, &c.Refused, &sources); err != nil {
		return nil, err
	}
	return c, json.Unmarshal([]byte(sources), &c.Sources)
}

// OpenAttack implements admin.AttackStore.
func (s *Attacks) OpenAttack(ctx context.Context) (open *offences.AttackCourse, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		open = nil
		all, err := db.Each(t, scanAttack, readAttacks+"ended_at = 0")
		if len(all) > 0 {
			open = all[0]
		}
		return err
	})
	return open, err
}

// attackActions are the actions of the audit records, by news.
var attackActions = map[offences.News]string{
	offences.AttackBegan: "attack.begin", offences.SourceChanged: "attack.source", offences.AttackEnded: "attack.end",
}

// attackSnapshot is the form of an attack in the audit log.
type attackSnapshot struct {
	Began   time.Time               `json:"began_at"`
	Ended   *time.Time              `json:"ended_at"`
	Normal  float64                 `json:"normal"`
	Peak    float64                 `json:"peak"`
	Refused int64                   `json:"refused"`
	Sources []offences.CourseSource `json:"sources"`
}

func attackSnapshotOf(c *offences.AttackCourse) any {
	if c == nil {
		return nil
	}
	snapshot := attackSnapshot{Began: c.Began, Normal: c.Normal, Peak: c.Peak, Refused: c.Refused, Sources: c.Sources}
	if !c.Ended.IsZero() {
		snapshot.Ended = &c.Ended
	}
	return snapshot
}

// SaveAttack implements admin.AttackStore.
func (s *Attacks) SaveAttack(ctx context.Context, before, course *offences.AttackCourse, news offences.News, summary string) (saved bool, err error) {
	sources, err := json.Marshal(course.Sources, json.FormatNilSliceAsNull(false))
	if err != nil {
		return false, err
	}
	if course.ID == "" {
		if course.ID, err = db.NewID(); err != nil {
			return false, err
		}
	}
	save := func(t *db.Tx) error {
		var n int64
		var err error
		if before == nil {
			n, err = t.Exec(insertAttack, course.ID, db.ToMS(course.Began), db.ToMS(course.Seen), db.ToMS(course.Ended), course.Normal, course.Peak, course.Refused, string(sources))
		} else {
			n, err = t.Exec(updateAttack, course.ID, db.ToMS(course.Seen), db.ToMS(course.Ended), course.Peak, course.Refused, string(sources), db.ToMS(before.Seen))
		}
		saved = n > 0
		return err
	}
	if news == offences.NoNews {
		err = s.db.Write(ctx, save)
		return saved, err
	}
	err = s.db.Change(ctx, audit.SystemActor("attack-watch"), func(t *db.Tx) error {
		if err := save(t); err != nil {
			return err
		}
		if !saved {
			return db.ErrUnchanged
		}
		return t.Record(attackActions[news], "attack", course.ID, summary, attackSnapshotOf(before), attackSnapshotOf(course))
	})
	return saved, err
}

// FindAttacks implements admin.AttackStore.
func (s *Attacks) FindAttacks(ctx context.Context, cursor string, limit int) (page []*offences.AttackCourse, next string, err error) {
	if limit, err = paging.Limit(limit); err != nil {
		return nil, "", err
	}
	q := &db.Selection{}
	if err := q.AfterID(cursor); err != nil {
		return nil, "", err
	}
	err = s.db.View(ctx, func(t *db.Tx) error {
		all, err := db.Each(t, scanAttack, readAttacks+q.String()+" ORDER BY id DESC LIMIT "+strconv.Itoa(limit+1), q.Args...)
		page, next = db.CutPage(all, limit, func(c *offences.AttackCourse) string { return paging.Cursor(c.ID) })
		return err
	})
	return page, next, err
}
