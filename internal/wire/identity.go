package wire

// Token is an API token; its secret is shown once, when it is made.
type Token struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Hint       string   `json:"hint"`   // the first characters of the secret
	Scopes     []string `json:"scopes"` // of check, bouncer, read, operate and admin
	Author     string   `json:"author"`
	Active     bool     `json:"active"`
	CreatedAt  Time     `json:"created_at"`
	ExpiresAt  Time     `json:"expires_at"`   // null: never
	LastUsedAt Time     `json:"last_used_at"` // to within a minute
	RevokedAt  Time     `json:"revoked_at"`   // when it was revoked, null otherwise
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
	Name      Change[string]   `json:"name,omitzero"`
	ExpiresIn Change[Duration] `json:"expires_in,omitzero"`
	ExpiresAt Change[Time]     `json:"expires_at,omitzero"` // null: never
}

// RotateRequest replaces a token by a new one of the same scopes and lifetime;
// the old one stays valid for the overlap.
type RotateRequest struct {
	// Overlap is 24h if omitted; "0s" ends the old token at once.
	Overlap Change[Duration] `json:"overlap,omitzero"`
}

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

// UserRequest makes a user.
type UserRequest struct {
	Name     string `json:"name"`
	Role     string `json:"role" enum:"viewer,operator,admin"`
	Password string `json:"password"`
}

// UserPatch changes a user.
type UserPatch struct {
	Role     Change[string] `json:"role,omitzero" enum:"viewer,operator,admin"`
	Disabled Change[bool]   `json:"disabled,omitzero"`
}

// PasswordRequest sets a user's password and ends the user's sessions.
type PasswordRequest struct {
	Password string `json:"password"`
}

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
