package identities

import (
	"errors"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/openid"
)

// LoginCounter counts attempts to log in, and to confirm a change of one's own account with
// password or code, for metrics.
type LoginCounter interface {
	CountLogin(by identity.LoginMethod, outcome identity.LoginOutcome)
}

// count counts the outcome of an attempt, unless to is nil.
func count(to LoginCounter, by identity.LoginMethod, outcome identity.LoginOutcome) {
	if to != nil {
		to.CountLogin(by, outcome)
	}
}

// outcomeOf returns the outcome of an attempt with the error err.
func outcomeOf(err error) identity.LoginOutcome {
	var throttled *ThrottledLogin
	var password *WrongPassword
	var code *WrongCode
	var failure *openid.Failure
	switch {
	case err == nil:
		return identity.LoginOK
	case errors.As(err, &throttled):
		return identity.LoginThrottled
	case errors.As(err, &password), errors.As(err, &code), fault.Is(err, fault.NotFound), fault.Is(err, fault.Conflict), fault.Is(err, fault.Invalid):
		return identity.LoginRefused
	case errors.As(err, &failure) && failure.Reason != openid.Unreachable:
		return identity.LoginRefused
	}
	return identity.LoginFailed
}
