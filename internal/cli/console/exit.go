package console

import "fmt"

// Code is an exit code of the process.
type Code int

// The exit codes, the same for all commands.
const (
	OK          Code = 0
	Failed      Code = 1   // the request failed
	Usage       Code = 2   // a command, flag, argument or file is invalid, according to this program or the server
	Refused     Code = 3   // check and run: the request was limited or blocked, or got no response
	Unreachable Code = 4   // the server did not answer
	Different   Code = 5   // apply --dry-run: there are changes to apply
	Unconfirmed Code = 6   // a confirmation is required; nothing was changed
	NotFound    Code = 7   // what an argument or a flag names does not exist on the server
	Denied      Code = 8   // the token is missing, unknown or may not do this
	Proposed    Code = 9   // block add --source: it needs a confirmation and is kept as a proposal
	Interrupted Code = 130 // by Ctrl-C or SIGTERM
)

// ExitError ends a command with its own exit code. A nil Err means that the reason has
// already been printed.
type ExitError struct {
	Code Code
	Err  error
}

// Error returns the text of Err, or the exit code without one.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// Usagef returns a usage error: what is wrong with the arguments or a file, and what is
// allowed.
func Usagef(format string, args ...any) error {
	return &ExitError{Usage, fmt.Errorf(format, args...)}
}

// NotFoundf returns the error that what an argument names does not exist.
func NotFoundf(format string, args ...any) error {
	return &ExitError{NotFound, fmt.Errorf(format, args...)}
}
