package client

import (
	"context"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Escalations reads the events of escalation and resumes paused escalation.
type Escalations struct{ conn *conn }

// Events returns the events that filter selects, newest first, at most limit, all for 0.
// filter holds the API's query parameters.
func (e Escalations) Events(ctx context.Context, filter url.Values, limit int) (Listing[wire.EscalationEvent], error) {
	return list[wire.EscalationEvent](ctx, e.conn, wire.PathEscalations+"/events", filter, limit)
}

// Paused returns the policies whose escalation is paused.
func (e Escalations) Paused(ctx context.Context) ([]wire.EscalationPause, error) {
	return items[wire.EscalationPause](ctx, e.conn, get(wire.PathEscalations+"/paused"))
}

// Resume resumes a policy's paused escalation.
func (e Escalations) Resume(ctx context.Context, policy string) error {
	return e.conn.do(ctx, post(wire.PathEscalations+"/"+url.PathEscape(policy)+"/resume", nil), nil)
}
