package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

func (s *API) handleWhoami(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	p := c.Principal
	who := wire.Whoami{
		Kind: string(p.Kind), ID: p.ID, Name: p.Name, Scopes: fromAccess(p.Access),
		ExpiresAt: wire.At(p.Expires), Address: c.Address.String(),
	}
	if p.Role != "" {
		role := string(p.Role)
		who.Role = &role
	}
	return c.SendJSON(http.StatusOK, who)
}
