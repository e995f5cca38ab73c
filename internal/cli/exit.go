package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
)

// Code is what the process exits with.
type Code int

// The exit codes, the same for every command.
const (
	OK          Code = 0
	Failed      Code = 1   // it was understood and did not work
	Usage       Code = 2   // it was not understood: a command, flag, argument or file
	Refused     Code = 3   // check and run: the answer was limited, blocked or unavailable
	Unreachable Code = 4   // no answer was had from the server
	Different   Code = 5   // apply --dry-run: there is something to change
	Unconfirmed Code = 6   // it needs a confirmation that was not given; nothing was changed
	Interrupted Code = 130 // by Ctrl-C
)

// exitHelp is the part of the root command's help that explains the codes.
const exitHelp = `Exit codes:
  0  it was done, or the check was allowed
  1  it did not work; nothing was changed unless the message says so
  2  the command, a flag, an argument or a file was wrong; nothing was sent
  3  check, run: the request was refused
  4  the server could not be reached
  5  apply --dry-run: there is something to change
  6  it needs a confirmation (--yes, --confirm-broad) that was not given; nothing was changed

run exits with its command's own code, and with one of these where the command was not run.`

// exitError ends a command with a code of its own. It has been said already
// why where err is nil.
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

// usagef says what is wrong with what was typed or with a file, and what would
// be right.
func usagef(format string, args ...any) error {
	return &exitError{Usage, fmt.Errorf(format, args...)}
}

// codeOf returns what an error makes the process exit with.
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

// explain writes an error as what is to be printed, one line and for a problem
// with several fields one more for each. It is safe on a terminal.
func explain(err error) []string {
	var exit *exitError
	if errors.As(err, &exit) && exit.err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return []string{"interrupted"}
	}
	var problem *v1.Problem
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

// advice adds what to do about errors that have one common cause.
func advice(err error) string {
	var unreachable *client.Unreachable
	var problem *v1.Problem
	switch {
	case errors.As(err, &unreachable):
		return "; start the server there, or name another by --url or STINT_ADMIN_URL (for check --check-url or STINT_CHECK_URL)"
	case errors.As(err, &problem) && problem.Status == 401:
		return " (the token is read from STINT_ADMIN_TOKEN or --token-file)"
	case errors.As(err, &problem) && problem.Status == 412:
		return " (look at it again, then repeat the change)"
	}
	return ""
}
