package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

// Code is what the process exits with.
type Code int

// The exit codes, the same nevery command.
const (
	OK          Code = 0
	Failed      Code = 1   // the request failed
	Usage       Code = 2   // a command, flag, argument or file is wrong
	Refused     Code = 3   // check and run: the answer was limited, blocked or unavailable
	Unreachable Code = 4   // the server did not answer
	Different   Code = 5   // apply --dry-run: there are changes to apply
	Unconfirmed Code = 6   // a confirmation is required; nothing was changed
	Interrupted Code = 130 // by Ctrl-C
)

// exitHelp is the part of the root command's help that explains the codes.
const exitHelp = `Exit codes:
  0  success, or the check was allowed
  1  failure; nothing was changed unless the message says so
  2  the command, a flag, an argument or a file is wrong; nothing was sent
  3  check, run: the request was refused
  4  the server is unreachable
  5  apply --dry-run: there are changes to apply
  6  a confirmation (--yes, --confirm-broad) is required; nothing was changed

run exits with its command's own code, and with one of these where the command was not run.`

// exitError ends a command with its own exit code. A nil err means that the reason
// has already been printed.
type exitError struct {
	code Code
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usagef returns a usage error: what is wrong with the arguments or a file, and
// what is allowed.
func usagef(format string, args ...any) error {
	return &exitError{Usage, fmt.Errorf(format, args...)}
}

// codeOf returns the exit code for an error.
func codeOf(err error) Code {
	var exit *exitError
	var unreachable *client.Unreachable
	switch {
	case err == nil:
		return OK
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &unreachable):
		return Unreachable
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, fs.ErrNotExist):
		return Usage
	default:
		return Failed
	}
}

// explain formats an error for printing: one line, and one more for each further
// field of a problem. The lines are safe on a terminal.
func explain(err error) []string {
	var exit *exitError
	if errors.As(err, &exit) && exit.err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return []string{"interrupted"}
	}
	var problem *wire.Problem
	if !errors.As(err, &problem) {
		return []string{output.Escape(err.Error()) + advice(err)}
	}
	text := problem.Error()
	if problem.Field != "" && !strings.HasPrefix(text, problem.Field) {
		text = problem.Field + ": " + text
	}
	if about, wrapped := strings.CutSuffix(err.Error(), problem.Error()); wrapped {
		text = about + text
	}
	lines := []string{output.Escape(text) + advice(err)}
	for _, field := range problem.Errors {
		if field.Field != problem.Field {
			lines = append(lines, "  "+output.Escape(field.Field+": "+field.Detail))
		}
	}
	return lines
}

// advice returns what to do about an error with one common cause.
func advice(err error) string {
	var unreachable *client.Unreachable
	var problem *wire.Problem
	switch {
	case errors.As(err, &unreachable):
		return "; start the server, or set another address with --url or STINT_ADMIN_URL (for check: --check-url or STINT_CHECK_URL)"
	case errors.As(err, &problem) && problem.Status == 401:
		return " (the token is read from STINT_ADMIN_TOKEN or --token-file)"
	case errors.As(err, &problem) && problem.Status == 412:
		return " (read it again, then repeat the change)"
	}
	return ""
}
