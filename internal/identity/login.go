package identity

// LoginMethod is what somebody proves to be a user by, or the holder of a token.
type LoginMethod string

// The methods.
const (
	ByPassword     LoginMethod = "password"
	ByTOTP         LoginMethod = "totp" // a code of an authenticator app
	ByRecoveryCode LoginMethod = "recovery_code"
	ByOpenID       LoginMethod = "openid"
	ByToken        LoginMethod = "token"
)

// LoginOutcome is the outcome of an attempt.
type LoginOutcome string

// The outcomes.
const (
	LoginOK        LoginOutcome = "ok"
	LoginPending   LoginOutcome = "pending" // the password was right, a code is awaited
	LoginRefused   LoginOutcome = "refused"
	LoginThrottled LoginOutcome = "throttled" // too many before it; nothing was looked at
	LoginFailed    LoginOutcome = "failed"    // the database or the provider did not answer
)

// LoginOutcomes returns the possible outcomes of each method. Valid tokens are not listed: every
// request has one.
func LoginOutcomes() map[LoginMethod][]LoginOutcome {
	all := []LoginOutcome{LoginOK, LoginRefused, LoginThrottled, LoginFailed}
	return map[LoginMethod][]LoginOutcome{
		ByPassword: append([]LoginOutcome{LoginPending}, all...), ByTOTP: all, ByRecoveryCode: all, ByOpenID: all,
		ByToken: {LoginRefused, LoginThrottled},
	}
}

// LoginMethodOfCode returns the method of what somebody typed as a second factor.
func LoginMethodOfCode(typed string) LoginMethod {
	if IsRecoveryCode(typed) {
		return ByRecoveryCode
	}
	return ByTOTP
}
