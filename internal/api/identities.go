package api

import (
	"slices"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

func identityRoutes(t *identities.Tokens, u *identities.Users) []route {
	return []route{
		routes.Does(wire.ListTokens, t.Find),
		routes.Does(wire.AddToken, t.Create),
		routes.Does(wire.GetToken, t.ByID),
		routes.Does(wire.ChangeToken, t.Update),
		routes.Does(wire.RotateToken, t.Rotate),
		routes.Does(wire.RevokeToken, t.Revoke),

		routes.Does(wire.ListUsers, u.Find),
		routes.Does(wire.AddUser, u.Create),
		routes.Does(wire.GetUser, u.ByID),
		routes.Does(wire.ChangeUser, u.Update),
		routes.Does(wire.SetPassword, u.SetPassword),
		routes.Does(wire.InviteUser, u.Invite),
		routes.Does(wire.ResetTOTP, u.ResetTOTP),
		routes.Does(wire.DeleteUser, u.Delete),
		routes.Answers(wire.WhoAmI, whoami),
	}
}

func whoami(c *httpserver.Call, _ wire.None) (wire.Whoami, error) {
	p := c.Principal
	// Account is what a session gives, and no scope of a token.
	scopes := slices.DeleteFunc(slices.Clone(p.Access), func(a identity.Access) bool { return a == identity.Account })
	who := wire.Whoami{
		Kind: string(p.Kind), ID: p.ID, Name: p.Name, Scopes: wire.Texts(scopes),
		ExpiresAt: wire.At(p.Expires), Address: c.Address.String(),
	}
	if p.Role != "" {
		role := string(p.Role)
		who.Role = &role
	}
	return who, nil
}
