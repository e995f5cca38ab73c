package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/algorithms"
	v1 "github.com/stint-dev/stint/internal/api/v1"
)

// listAlgorithms answers with the ways to count that a policy may name.
func (s *Server) listAlgorithms(c *Call) error {
	if err := c.query().err; err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, wholePage(algorithms.All(), v1.FromAlgorithm))
}
