package api

import (
	"net/http"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/httpserver"
)

func (s *API) handleWhoami(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	p := c.Principal
	who := v1.Whoami{
		Kind: string(p.Kind), ID: p.ID, Name: p.Name, Scopes: v1.FromAccess(p.Access),
		ExpiresAt: v1.At(p.Expires), Address: c.Address.String(),
	}
	if p.Role != "" {
		role := string(p.Role)
		who.Role = &role
	}
	return c.SendJSON(http.StatusOK, who)
}
