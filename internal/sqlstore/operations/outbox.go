package operations

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	insertNotification = `
INSERT INTO notifications (kind, at, subject, body, facts, page, happenings) `
	notificationColumns = `n.id, n.kind, n.at, n.subject, n.body, n.facts, n.page, n.happenings`
	deliveryColumns     = `
SELECT ` + notificationColumns + `,
       d.channel, d.attempts, d.next_at, d.sent_at, d.failed_at, d.problem
FROM deliveries d JOIN notifications n ON n.id = d.notification_id `
	// selectDue bounds each kind separately, so that none hides another. It includes deliveries
	// whose time is further ahead than any retry, or that have had no attempt: a node whose
	// clock was ahead wrote that time.
	selectDue = `
SELECT id, kind, at, attempts, happenings FROM (
    SELECT n.id, n.kind, n.at, d.attempts, n.happenings, row_number() OVER (PARTITION BY n.kind ORDER BY n.id) AS place
    FROM deliveries d JOIN notifications n ON n.id = d.notification_id
    WHERE d.channel = $1 AND (d.next_at <= $2 OR d.attempts = 0 OR d.next_at > $4) AND d.sent_at = 0 AND d.failed_at = 0) AS due
WHERE place <= $3 ORDER BY id`
	selectDeliveries = deliveryColumns + `ORDER BY n.id DESC, d.channel LIMIT $1`
	selectLastSent   = `SELECT COALESCE(MAX(sent_at), 0) FROM deliveries WHERE channel = $1 AND kind = $2 AND sent_at <= $3`
	markedOnes       = ` WHERE channel = $2 AND notification_id IN (SELECT id FROM asked)`
)

var (
	notificationTypes = []string{db.TextColumn, db.IntColumn, db.TextColumn, db.TextColumn, db.TextColumn, db.BytesColumn, db.IntColumn}
	askedIDs          = db.Asked([]string{db.IntColumn}, "id")

	// insertDeliveries creates a delivery for each new notification.
	insertDeliveries = `INSERT INTO deliveries (notification_id, channel, kind, next_at) ` +
		db.BulkSelect([]string{db.IntColumn, db.TextColumn, db.TextColumn, db.IntColumn})
	selectNotifications = askedIDs + `
SELECT ` + notificationColumns + ` FROM notifications n WHERE n.id IN (SELECT id FROM asked) ORDER BY n.id`
	markSent   = askedIDs + `UPDATE deliveries SET sent_at = $3, attempts = attempts + 1, problem = ''` + markedOnes
	markTried  = askedIDs + `UPDATE deliveries SET next_at = $3, attempts = attempts + 1, problem = $4` + markedOnes
	markFailed = askedIDs + `UPDATE deliveries SET failed_at = $3, attempts = attempts + 1, problem = $4` + markedOnes
)

var _ notify.Store = (*Outbox)(nil)

// Outbox implements notify.Store.
type Outbox struct{ leases }

// NewOutbox returns the store of the notifications in a database.
func NewOutbox(d *db.DB) *Outbox { return &Outbox{leases{d}} }

// AddNotifications implements notify.Store.
func (s *Outbox) AddNotifications(ctx context.Context, all []notify.Notification, channels []string) error {
	rows := make([][]any, len(all))
	for i, n := range all {
		facts, err := json.Marshal(n.Facts, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return err
		}
		rows[i] = []any{string(n.Kind), db.ToMS(n.At), db.CleanText(n.Subject), db.CleanText(n.Text), db.CleanText(string(facts)), n.Page, max(n.Happenings, 1)}
	}
	return s.db.Write(ctx, func(t *db.Tx) error {
		added, err := db.EachOf(t, func(r db.Row) (d notify.Delivery, err error) {
			err = r.Scan(&d.ID, &d.Kind, db.MS(&d.At))
			return d, err
		}, insertNotification+db.BulkSelect(notificationTypes)+` RETURNING id, kind, at`, rows)
		if err != nil {
			return err
		}
		var deliveries [][]any
		for _, channel := range channels {
			for _, d := range added {
				deliveries = append(deliveries, []any{d.ID, channel, string(d.Kind), db.ToMS(d.At)})
			}
		}
		return t.ExecOf(insertDeliveries, deliveries)
	})
}

// Due implements notify.Store.
func (s *Outbox) Due(ctx context.Context, channel string, now time.Time) ([]notify.Due, error) {
	return db.List(ctx, s.db, func(r db.Row) (d notify.Due, err error) {
		err = r.Scan(&d.ID, &d.Kind, db.MS(&d.At), &d.Attempts, &d.Happenings)
		return d, err
	}, selectDue, channel, db.ToMS(now), notify.MaxDue, db.ToMS(now.Add(2*notify.LongestRetry)))
}

const selectBacklog = `
SELECT count(*), COALESCE(min(n.at), 0) FROM deliveries d JOIN notifications n ON n.id = d.notification_id
WHERE d.channel = $1 AND d.sent_at = 0 AND d.failed_at = 0`

// Backlog implements notify.Store.
func (s *Outbox) Backlog(ctx context.Context, channels []string) (n int, oldest time.Time, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		n, oldest = 0, time.Time{}
		for _, channel := range channels {
			var waiting int
			var at int64
			if _, err := t.One(selectBacklog, []any{channel}, &waiting, &at); err != nil {
				return err
			}
			if n += waiting; waiting > 0 && (oldest.IsZero() || db.FromMS(at).Before(oldest)) {
				oldest = db.FromMS(at)
			}
		}
		return nil
	})
	return n, oldest, err
}

// NotificationsOf implements notify.Store.
func (s *Outbox) NotificationsOf(ctx context.Context, ids []int64) (all []notify.Notification, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		all, err = db.EachOf(t, func(r db.Row) (notify.Notification, error) {
			return scanNotification(r)
		}, selectNotifications, idRows(ids))
		return err
	})
	return all, err
}

func idRows(ids []int64) [][]any {
	rows := make([][]any, len(ids))
	for i, id := range ids {
		rows[i] = []any{id}
	}
	return rows
}

// scanNotification reads notificationColumns, and the columns after them into more.
func scanNotification(r db.Row, more ...any) (n notify.Notification, err error) {
	var facts []byte
	if err := r.Scan(append([]any{&n.ID, &n.Kind, db.MS(&n.At), &n.Subject, &n.Text, &facts, &n.Page, &n.Happenings}, more...)...); err != nil {
		return n, err
	}
	return n, json.Unmarshal(facts, &n.Facts)
}

// Deliveries returns the newest deliveries.
func (s *Outbox) Deliveries(ctx context.Context, limit int) ([]notify.Delivery, error) {
	return s.deliveries(ctx, selectDeliveries, limit)
}

func (s *Outbox) deliveries(ctx context.Context, query string, args ...any) ([]notify.Delivery, error) {
	return db.List(ctx, s.db, scanDelivery, query, args...)
}

func scanDelivery(r db.Row) (d notify.Delivery, err error) {
	var next, sent, failed int64
	d.Notification, err = scanNotification(r, &d.Channel, &d.Attempts, &next, &sent, &failed, &d.Err)
	d.Next, d.Sent, d.Failed = db.FromMS(next), db.FromMS(sent), db.FromMS(failed)
	return d, err
}

// LastSent returns when a channel last sent a notification of a kind, zero for never.
func (s *Outbox) LastSent(ctx context.Context, channel string, kind notify.Kind, now time.Time) (at time.Time, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		var ms int64
		_, err := t.One(selectLastSent, []any{channel, string(kind), db.ToMS(now)}, &ms)
		at = db.FromMS(ms)
		return err
	})
	return at, err
}

// MarkSent records that deliveries have arrived.
func (s *Outbox) MarkSent(ctx context.Context, channel string, ids []int64, at time.Time) error {
	return s.mark(ctx, markSent, channel, ids, db.ToMS(at))
}

// MarkTried records a failed attempt and when the next one is due.
func (s *Outbox) MarkTried(ctx context.Context, channel string, ids []int64, next time.Time, problem string) error {
	return s.mark(ctx, markTried, channel, ids, db.ToMS(next), db.CleanText(problem))
}

// MarkFailed records deliveries that will not be tried again.
func (s *Outbox) MarkFailed(ctx context.Context, channel string, ids []int64, at time.Time, problem string) error {
	return s.mark(ctx, markFailed, channel, ids, db.ToMS(at), db.CleanText(problem))
}

func (s *Outbox) mark(ctx context.Context, statement, channel string, ids []int64, args ...any) error {
	return s.db.Write(ctx, func(t *db.Tx) error {
		return t.ExecOf(statement, idRows(ids), append([]any{channel}, args...)...)
	})
}
