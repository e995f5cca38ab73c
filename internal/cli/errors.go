package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

// exitHelp is the part of the root command's help that explains the codes.
const exitHelp = `Exit codes:
  0  success, or the check was allowed
  1  failure, or a conflict with what exists; nothing was changed unless the message says so
  2  the command, a flag, an argument or a file is wrong; nothing was changed
  3  check, run: the request was refused
  4  the server is unreachable
  5  apply --dry-run: there are changes to apply
  6  a confirmation (--yes) is required; nothing was changed
  7  what an argument or a flag names does not exist, or the server does not have it
  8  the token is missing, unknown or may not do this
  9  block add --source: nothing is blocked; an operator can accept the proposal
130  interrupted by Ctrl-C or SIGTERM

run exits with its command's own code, and with one of these where the command was not run.`

// listenerError is an error of a command that called a listener.
type listenerError struct {
	error
	listener console.Listener
}

// Unwrap returns the error without its listener.
func (e *listenerError) Unwrap() error { return e.error }

// explainListener adds to an error that the command called a listener at base with a token, ""
// for none. It adds nothing if the error itself says that the address or the token is wrong.
func explainListener(err error, is console.Listener, base, token string) error {
	var problem *wire.Problem
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &problem):
	case problem.Status == http.StatusUnauthorized && token == "":
		return &console.ExitError{Code: console.Denied, Err: fmt.Errorf("no token: set %s or %s", is.EnvToken, is.TokenFlag)}
	case problem.Detail == wire.DetailNoPath:
		return console.Usagef("%s has nothing for this command, which needs the %s; set its address with %s or %s", base, is.Name, is.URLFlag, is.EnvURL)
	}
	return &listenerError{err, is}
}

// advisedError is an error of the server with what to do about it.
type advisedError struct {
	error
	advice string
}

// Unwrap returns the error without the advice.
func (e *advisedError) Unwrap() error { return e.error }

// codeOf returns the exit code for an error.
func codeOf(err error) console.Code {
	var exit *console.ExitError
	var unreachable *client.Unreachable
	var problem *wire.Problem
	switch {
	case err == nil:
		return console.OK
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &problem):
		return codeOfProblem(problem)
	case errors.As(err, &unreachable) && !unreachable.MaybeDone:
		return console.Unreachable
	case errors.Is(err, context.Canceled):
		return console.Interrupted
	case errors.Is(err, fs.ErrNotExist):
		return console.Usage
	default:
		return console.Failed
	}
}

// codeOfProblem returns the exit code for an error response of the server. It is the same as if
// this program had found the mistake.
func codeOfProblem(problem *wire.Problem) console.Code {
	if problem.Unknown {
		return console.NotFound
	}
	switch problem.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return console.Usage
	case http.StatusUnauthorized, http.StatusForbidden:
		return console.Denied
	case http.StatusNotFound:
		return console.NotFound
	}
	switch problem.Code {
	case "confirmation_required":
		return console.Unconfirmed
	case "proposed":
		return console.Proposed
	}
	return console.Failed
}

// explain formats an error for printing: one line, and one more for each further field of a
// problem. The lines are safe for a terminal.
func explain(err error) []string {
	var exit *console.ExitError
	if errors.As(err, &exit) && exit.Err == nil {
		return nil
	}
	var unreachable *client.Unreachable // a change may have been saved in this case
	if errors.Is(err, context.Canceled) && !errors.As(err, &unreachable) {
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

// advice returns what to do about an error with a common cause.
func advice(err error) string {
	var unreachable *client.Unreachable
	var problem *wire.Problem
	is := console.Admin
	if of := (*listenerError)(nil); errors.As(err, &of) {
		is = of.listener
	}
	var advised *advisedError
	switch {
	case errors.As(err, &advised):
		return advised.advice
	case errors.As(err, &unreachable) && unreachable.MaybeDone:
		return "" // Error says what to do before repeating it
	case unreachable != nil && unreachable.IsUntrusted():
		return fmt.Sprintf("; name the certificate of a private authority in SSL_CERT_FILE, or set an address that the certificate has with %s or %s", is.URLFlag, is.EnvURL)
	case unreachable != nil && unreachable.IsOtherScheme():
		return fmt.Sprintf("; set its address with %s or %s", is.URLFlag, is.EnvURL)
	case unreachable != nil:
		return fmt.Sprintf("; start the server, or set another address with %s or %s", is.URLFlag, is.EnvURL)
	case errors.As(err, &problem) && problem.Status == 401:
		return fmt.Sprintf(" (the token is read from %s or %s)", is.EnvToken, is.TokenFlag)
	case errors.As(err, &problem) && problem.Status == 412:
		return " (read it again, then repeat the change)"
	case problem != nil && undoOf(problem) != "":
		return " ('audit undo " + undoOf(problem) + "')"
	}
	return ""
}

// undoOf returns the id of the change whose undo brings back what a problem misses, "" for none.
func undoOf(problem *wire.Problem) string {
	var id int64
	if json.Unmarshal(problem.More["undo"], &id) != nil || id < 1 {
		return ""
	}
	return strconv.FormatInt(id, 10)
}
