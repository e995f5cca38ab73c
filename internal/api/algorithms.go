package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/httpserver"
)

// listAlgorithms answers with the ways to count that a policy may name.
func (s *API) listAlgorithms(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wholePage(algorithms.All(), fromAlgorithm))
}
