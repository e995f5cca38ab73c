package api

import (
	"context"
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

// verifyTimeout bounds a verification, which reads the whole audit.
const verifyTimeout = 5 * time.Minute

// verifyAudit verifies the chain, one verification at a time on a node.
func (s *API) verifyAudit(c *httpserver.Call) error {
	q := c.ParseQuery("head")
	if q.Err() != nil {
		return q.Err()
	}
	var kept audit.Link
	if q.Given("head") {
		var err error
		if kept, err = audit.ParseHead(q.Line("head")); err != nil {
			return err
		}
	}
	if q.Err() != nil {
		return q.Err()
	}
	if !s.verifying.TryLock() {
		return fault.New(fault.Conflict, "This node is verifying the audit already; ask again when it has done so.")
	}
	defer s.verifying.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), verifyTimeout)
	defer cancel()
	v, err := s.Audit.VerifyAudit(ctx, kept)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromVerification(v))
}
