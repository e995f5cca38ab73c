package openid

import "slices"

// Reason is a short reason why a login failed. There are few reasons, and none contains what
// the browser or the provider sent.
type Reason string

// The reasons.
const (
	WrongState   Reason = "the answer does not belong to a login of this browser"
	FlowExpired  Reason = "the login took too long"
	WrongIssuer  Reason = "the answer names another provider"
	NoCode       Reason = "the answer has no code"
	Unreachable  Reason = "the provider could not be reached"
	CodeRefused  Reason = "the provider did not accept the code"
	NoIDToken    Reason = "the provider sent no ID token"
	InvalidToken Reason = "the ID token is not valid"
	TokenExpired Reason = "the ID token has expired"
	WrongNonce   Reason = "the ID token belongs to another login"
	WrongParty   Reason = "the ID token is for another client"
	NoSubject    Reason = "the ID token has no valid subject"
	NoGroups     Reason = "the provider sent no groups"
	NoRole       Reason = "no group has a role here"
	Replayed     Reason = "this login was finished before"
	Disabled     Reason = "the user is disabled"
)

// errorCodes are the codes of OAuth 2.0 and OpenID Connect. Other texts from a provider are not
// shown.
var errorCodes = []string{
	"access_denied", "invalid_request", "unauthorized_client", "unsupported_response_type", "invalid_scope", "server_error",
	"temporarily_unavailable", "interaction_required", "login_required", "account_selection_required", "consent_required",
}

func refusedBy(code string) Reason {
	if !slices.Contains(errorCodes, code) {
		code = "an unknown error"
	}
	return Reason("the provider answered " + code)
}

// Failure is the error of a login that the provider, the browser or the groups did not allow.
type Failure struct {
	Reason Reason
	// Person is the person according to the provider, nil until that is verified.
	Person *Person
	cause  error
}

// Error returns the reason.
func (f *Failure) Error() string { return string(f.Reason) }

// Unwrap returns the cause, for logs of this server only.
func (f *Failure) Unwrap() error { return f.cause }
