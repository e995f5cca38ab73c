package jobs

import (
	"context"
	"time"
)

// SessionDeleter deletes the sessions that expired before an instant.
type SessionDeleter interface {
	DeleteExpiredSessions(ctx context.Context, at time.Time) error
}

// ExpireSessions returns the job that deletes expired sessions, which have no further use.
// Expired tokens are still shown for a while; DeletePast deletes them.
func ExpireSessions(store SessionDeleter, now func() time.Time) Job {
	return Job{
		Name: "expire-sessions", Help: "Deletes sessions that have ended.",
		Schedule: "12 * * * *",
		Run: func(ctx context.Context, _ time.Time) (string, error) {
			return "deleted the ended sessions", store.DeleteExpiredSessions(ctx, now())
		},
	}
}
