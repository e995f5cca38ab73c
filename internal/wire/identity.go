package wire

// The paths of what is declared here.
const (
	PathTokens = "/v1/tokens"
	PathUsers  = "/v1/users"
	PathWhoami = "/v1/whoami"
)

// TagIdentities is the group of these operations in the OpenAPI document.
var TagIdentities = Tag{"identities", "Tokens and users."}

// Token is an API token; its secret is shown once, when it is made.
type Token struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Hint       string   `json:"hint"`   // the first characters of the secret
	Scopes     []string `json:"scopes"` // of check, bouncer, captcha, read, operate and admin
	Author     string   `json:"author"`
	Active     bool     `json:"active"`
	CreatedAt  Time     `json:"created_at"`
	ExpiresAt  Time     `json:"expires_at"`   // null: never
	LastUsedAt Time     `json:"last_used_at"` // to within a minute
	RevokedAt  Time     `json:"revoked_at"`   // when it was revoked, null otherwise
}

// GetID returns the id.
func (t Token) GetID() string { return t.ID }

// Location is the path of the token.
func (t Token) Location() string { return PathTokens + "/" + t.ID }

// TokenList selects tokens.
type TokenList struct {
	Search string `query:"search" json:"-"`                                     // Only tokens whose name or beginning of the secret contains this text, case-insensitive, and the one whose whole secret it is.
	Order  string `query:"order" json:"-" enum:"created,name,last_used,expiry"` // created, also if omitted: the oldest first; name; last_used: the last used first; expiry: what ends or ended soonest first.
	WholeList
	State string `query:"state" json:"-" enum:"active,ended,all"` // The state of the tokens; all if omitted.
}

// TokenRequest makes a token. With neither ExpiresIn nor ExpiresAt it never
// expires.
type TokenRequest struct {
	Name      string   `json:"name"`
	Scopes    []string `json:"scopes"` // what it may do
	ExpiresIn Duration `json:"expires_in,omitzero"`
	ExpiresAt Time     `json:"expires_at,omitzero"`
}

// CreatedToken is a new token with its secret, which is shown nowhere else.
type CreatedToken struct {
	Token
	Secret string `json:"secret"` // what requests send as the token
	// Replaces is the token that a rotation replaces, with its new end.
	Replaces *Token `json:"replaces"`
	// Warnings says that the token is saved and does not work on this node yet, because the
	// database became unreachable.
	Warnings []string `json:"warnings"`
}

// TokenPatch changes a token.
type TokenPatch struct {
	ID        string           `path:"id" json:"-"`
	Name      Change[string]   `json:"name,omitzero"`
	ExpiresIn Change[Duration] `json:"expires_in,omitzero"`
	ExpiresAt Change[Time]     `json:"expires_at,omitzero"` // null: never
}

// RotateRequest replaces a token by a new one of the same scopes and lifetime;
// the old one stays valid for the overlap.
type RotateRequest struct {
	ID string `path:"id" json:"-"`
	// Overlap is 24h if omitted; "0s" ends the old token at once.
	Overlap Change[Duration] `json:"overlap,omitzero"`
}

// The operations of tokens.
var (
	ListTokens = Op[TokenList, Page[Token]]{
		ID: "listTokens", Route: "GET " + PathTokens, Access: "admin", Tag: TagIdentities,
		Summary: "List the tokens, all or a page; ended ones are included.", Answer: "The tokens.",
	}
	AddToken = Op[TokenRequest, CreatedToken]{
		ID: "addToken", Route: "POST " + PathTokens, Access: "admin", Tag: TagIdentities, Created: true,
		Summary: "Create a token; its secret is shown only once.", Answer: "Created.",
	}
	GetToken = Op[ByID, Token]{
		ID: "getToken", Route: "GET " + PathTokens + "/:id", Access: "admin", Tag: TagIdentities,
		Summary: "Show a token.", Answer: "The token.",
	}
	ChangeToken = Op[TokenPatch, Token]{
		ID: "changeToken", Route: "PATCH " + PathTokens + "/:id", Access: "admin", Tag: TagIdentities,
		Summary: "Change a token's name or end.", Answer: "The token.",
	}
	RotateToken = Op[RotateRequest, CreatedToken]{
		ID: "rotateToken", Route: "POST " + PathTokens + "/:id/rotate", Access: "admin", Tag: TagIdentities, Created: true, OptionalBody: true,
		Summary: "Replace a token with a new one; the old one stays valid for the overlap.", Answer: "Created.",
	}
	RevokeToken = Op[ByID, Token]{
		ID: "revokeToken", Route: "DELETE " + PathTokens + "/:id", Access: "admin", Tag: TagIdentities,
		Summary: "Revoke a token on every node.", Answer: "The token.",
	}
)

// User is a person who logs in.
type User struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Role        string `json:"role" enum:"viewer,operator,admin"` // viewer, operator or admin
	Disabled    bool   `json:"disabled"`
	Source      string `json:"source" enum:"local,oidc"` // local with a password, oidc for a user of the OpenID provider
	Issuer      string `json:"issuer"`                   // the OpenID provider, "" for a local user
	Subject     string `json:"subject"`                  // the id of the user at the provider, "" for a local user
	CreatedAt   Time   `json:"created_at"`
	LastLoginAt Time   `json:"last_login_at"` // null: never
	DisabledAt  Time   `json:"disabled_at"`   // null if the user can log in
	TOTPSince   Time   `json:"totp_since"`    // since when logins need a code of an app too, null if they do not
}

// GetID returns the id.
func (u User) GetID() string { return u.ID }

// Location is the path of the user.
func (u User) Location() string { return PathUsers + "/" + u.ID }

// UserList selects users.
type UserList struct {
	Search string `query:"search" json:"-"`                                    // Only users whose name contains this text, case-insensitive.
	Order  string `query:"order" json:"-" enum:"name,role,last_login,created"` // name, also if omitted; role: admin, operator, viewer; last_login: the last login first; created: the newest first.
	WholeList
}

// UserRequest makes a user.
type UserRequest struct {
	Name     string `json:"name"`
	Role     string `json:"role" enum:"viewer,operator,admin"`
	Password string `json:"password,omitzero"` // omitted: the user logs in after an invitation
}

// InvitationRequest invites a user to set a password.
type InvitationRequest struct {
	ID        string   `path:"id" json:"-"`
	ExpiresIn Duration `json:"expires_in,omitzero"` // 1m to 30d; 3d if omitted
}

// Invitation is a link by which a user sets a password, once.
type Invitation struct {
	User      string `json:"user"` // the name
	Path      string `json:"path"` // the path and query of the page, after the address of the admin pages
	ExpiresAt Time   `json:"expires_at"`
}

// UserPatch changes a user.
type UserPatch struct {
	ID       string         `path:"id" json:"-"`
	Role     Change[string] `json:"role,omitzero" enum:"viewer,operator,admin"`
	Disabled Change[bool]   `json:"disabled,omitzero"`
}

// PasswordRequest sets a user's password and ends the user's sessions.
type PasswordRequest struct {
	ID       string `path:"id" json:"-"`
	Password string `json:"password"`
}

// The operations of users.
var (
	ListUsers = Op[UserList, Page[User]]{
		ID: "listUsers", Route: "GET " + PathUsers, Access: "admin", Tag: TagIdentities,
		Summary: "List the users, all or a page.", Answer: "The users.",
	}
	AddUser = Op[UserRequest, User]{
		ID: "addUser", Route: "POST " + PathUsers, Access: "admin", Tag: TagIdentities, Created: true,
		Summary: "Create a user.", Answer: "Created.",
	}
	GetUser = Op[ByID, User]{
		ID: "getUser", Route: "GET " + PathUsers + "/:id", Access: "admin", Tag: TagIdentities,
		Summary: "Show a user.", Answer: "The user.",
	}
	ChangeUser = Op[UserPatch, User]{
		ID: "changeUser", Route: "PATCH " + PathUsers + "/:id", Access: "admin", Tag: TagIdentities,
		Summary: "Change a user's role, or disable or enable the user.", Answer: "The user.",
	}
	SetPassword = Op[PasswordRequest, User]{
		ID: "setPassword", Route: "PUT " + PathUsers + "/:id/password", Access: "admin", Tag: TagIdentities,
		Summary: "Set a user's password and end the user's sessions.", Answer: "The user.",
	}
	InviteUser = Op[InvitationRequest, Invitation]{
		ID: "inviteUser", Route: "POST " + PathUsers + "/:id/invitation", Access: "admin", Tag: TagIdentities, OptionalBody: true, Conflict: true,
		Summary: "Make a link by which a user sets a password.", Answer: "The link, which is shown only here.",
		Doc: "The link works until it expires, until the password is set by it or otherwise, and until the user is invited again, is disabled, gets another role, logs out or changes two-factor authentication. The present password works until then, and a second factor stays.",
	}
	ResetTOTP = Op[ByID, User]{
		ID: "resetTOTP", Route: "DELETE " + PathUsers + "/:id/totp", Access: "admin", Tag: TagIdentities,
		Summary: "Reset a user's two-factor authentication and end the user's sessions.", Answer: "The user.",
	}
	DeleteUser = Op[ByID, None]{
		ID: "deleteUser", Route: "DELETE " + PathUsers + "/:id", Access: "admin", Tag: TagIdentities,
		Summary: "Delete a user.", Answer: "Deleted.",
	}
)

// Whoami says whose credential a request carries and what it may do.
type Whoami struct {
	Kind   string   `json:"kind" enum:"user,token"` // user or token
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Role   *string  `json:"role" enum:"viewer,operator,admin"` // of a user
	Scopes []string `json:"scopes"`                            // what it gives
	// ExpiresAt is the end of a token, null if there is none.
	ExpiresAt Time `json:"expires_at"`
	// Address is where the request came from.
	Address string `json:"address"`
}

// WhoAmI is the operation that answers a Whoami.
var WhoAmI = Op[None, Whoami]{
	ID: "whoami", Route: "GET " + PathWhoami, Access: "read", Tag: TagIdentities,
	Summary: "Show whose credential is used and what it may do.", Answer: "The user or token.",
}
