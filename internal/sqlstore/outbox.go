package sqlstore

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/notify"
)

const (
	insertNotification = `
INSERT INTO notifications (kind, at, subject, body, facts, page) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id`
	insertDelivery = `
INSERT INTO deliveries (notification_id, channel, kind, next_at) VALUES ($1, $2, $3, $4)`
	deliveryColumns = `
SELECT n.id, n.kind, n.at, n.subject, n.body, n.facts, n.page,
       d.channel, d.attempts, d.next_at, d.sent_at, d.failed_at, d.problem
FROM deliveries d JOIN notifications n ON n.id = d.notification_id `
	selectDue = deliveryColumns + `
WHERE d.channel = $1 AND d.next_at <= $2 AND d.sent_at = 0 AND d.failed_at = 0 ORDER BY n.id LIMIT $3`
	selectDeliveries = deliveryColumns + `ORDER BY n.id DESC, d.channel LIMIT $1`
	selectLastSent   = `SELECT COALESCE(MAX(sent_at), 0) FROM deliveries WHERE channel = $1 AND kind = $2`
	markSent         = `
UPDATE deliveries SET sent_at = $3, attempts = attempts + 1, problem = '' WHERE channel = $1 AND notification_id = $2`
	markTried = `
UPDATE deliveries SET next_at = $3, attempts = attempts + 1, problem = $4 WHERE channel = $1 AND notification_id = $2`
	markFailed = `
UPDATE deliveries SET failed_at = $3, attempts = attempts + 1, problem = $4 WHERE channel = $1 AND notification_id = $2`
	deleteNotifications = `DELETE FROM notifications WHERE at < $1`
)

var _ notify.Store = (*Store)(nil)

// AddNotification puts n into the outbox of each channel.
func (s *Store) AddNotification(ctx context.Context, n notify.Notification, channels []string) error {
	facts, err := json.Marshal(n.Facts, json.Deterministic(true))
	if err != nil {
		return err
	}
	return s.write(ctx, func(t *tx) error {
		var id int64
		if _, err := t.one(insertNotification, []any{string(n.Kind), toMS(n.At), n.Subject, n.Text, string(facts), n.Page}, &id); err != nil {
			return err
		}
		for _, channel := range channels {
			if _, err := t.exec(insertDelivery, id, channel, string(n.Kind), toMS(n.At)); err != nil {
				return err
			}
		}
		return nil
	})
}

// DueDeliveries returns what is neither sent nor given up and may be tried at
// now, the oldest first.
func (s *Store) DueDeliveries(ctx context.Context, channel string, now time.Time, limit int) ([]notify.Delivery, error) {
	return s.deliveries(ctx, selectDue, channel, toMS(now), limit)
}

// Deliveries returns the newest deliveries.
func (s *Store) Deliveries(ctx context.Context, limit int) ([]notify.Delivery, error) {
	return s.deliveries(ctx, selectDeliveries, limit)
}

func (s *Store) deliveries(ctx context.Context, query string, args ...any) (all []notify.Delivery, err error) {
	err = s.view(ctx, func(t *tx) error {
		all, err = each(t, scanDelivery, query, args...)
		return err
	})
	return all, err
}

func scanDelivery(r row) (notify.Delivery, error) {
	var (
		d                      notify.Delivery
		kind                   string
		facts                  []byte
		at, next, sent, failed int64
	)
	err := r.Scan(&d.ID, &kind, &at, &d.Subject, &d.Text, &facts, &d.Page,
		&d.Channel, &d.Attempts, &next, &sent, &failed, &d.Err)
	if err != nil {
		return d, err
	}
	d.Kind, d.At, d.Next, d.Sent, d.Failed = notify.Kind(kind), fromMS(at), fromMS(next), fromMS(sent), fromMS(failed)
	return d, json.Unmarshal(facts, &d.Facts)
}

// LastSent returns when a channel last sent something of a kind, zero for
// never.
func (s *Store) LastSent(ctx context.Context, channel string, kind notify.Kind) (at time.Time, err error) {
	err = s.view(ctx, func(t *tx) error {
		var ms int64
		_, err := t.one(selectLastSent, []any{channel, string(kind)}, &ms)
		at = fromMS(ms)
		return err
	})
	return at, err
}

// MarkSent notes that deliveries have arrived.
func (s *Store) MarkSent(ctx context.Context, channel string, ids []int64, at time.Time) error {
	return s.mark(ctx, markSent, channel, ids, toMS(at))
}

// MarkTried notes an attempt that failed and when the next is due.
func (s *Store) MarkTried(ctx context.Context, channel string, ids []int64, next time.Time, problem string) error {
	return s.mark(ctx, markTried, channel, ids, toMS(next), problem)
}

// MarkFailed notes deliveries that are given up.
func (s *Store) MarkFailed(ctx context.Context, channel string, ids []int64, at time.Time, problem string) error {
	return s.mark(ctx, markFailed, channel, ids, toMS(at), problem)
}

func (s *Store) mark(ctx context.Context, statement, channel string, ids []int64, args ...any) error {
	return s.write(ctx, func(t *tx) error {
		for _, id := range ids {
			if _, err := t.exec(statement, append([]any{channel, id}, args...)...); err != nil {
				return err
			}
		}
		return nil
	})
}

// DeleteNotifications forgets what happened before an instant, sent or not.
func (s *Store) DeleteNotifications(ctx context.Context, before time.Time) (int, error) {
	return s.deleteBefore(ctx, deleteNotifications, before)
}
