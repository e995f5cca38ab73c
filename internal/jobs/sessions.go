package jobs

import (
	"context"
	"time"
)

// SessionDeleter forgets the sessions that ended before an instant.
type SessionDeleter interface {
	DeleteExpiredSessions(ctx context.Context, at time.Time) error
}

// ExpireSessions returns the job that forgets the logins that have ended. None
// of them is good for anything since; expired tokens are shown as such for a
// while and go with DeletePast.
func ExpireSessions(store SessionDeleter, now func() time.Time) Job {
	return Job{
		Name: "expire-sessions", Help: "Deletes sessions that have ended.",
		Schedule: "12 * * * *",
		Run: func(ctx context.Context, _ time.Time) (string, error) {
			return "deleted the ended sessions", store.DeleteExpiredSessions(ctx, now())
		},
	}
}
