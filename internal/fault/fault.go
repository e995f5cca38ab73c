// Package fault holds the one error type that says what an operator or caller
// did wrong, so that every front end can translate it through one table. Any
// other error means breakage.
package fault

import (
	"errors"
	"fmt"
)

// Code says what kind of mistake it was.
type Code string

// The codes, each with the one place where front ends translate it.
const (
	Invalid      Code = "invalid"   // a field is wrong
	Malformed    Code = "malformed" // it cannot even be read
	Unsupported  Code = "unsupported_media_type"
	NotFound     Code = "not_found"             // nothing of that name
	Conflict     Code = "conflict"              // something stands in the way
	Unauthorized Code = "unauthorized"          // no or a bad credential
	Forbidden    Code = "forbidden"             // a credential that may not do this
	NeedVersion  Code = "precondition_required" // replacing needs the version replaced
	Outdated     Code = "precondition_failed"   // somebody changed it meanwhile
	NeedConfirm  Code = "confirmation_required" // it is wide; repeat it confirmed
	TooMany      Code = "too_many"              // tried too often
	TooLarge     Code = "too_large"
	Unavailable  Code = "unavailable" // a part is unreachable; nothing was changed
)

// Error is a mistake that its maker can mend.
type Error struct {
	Code Code
	// Field names what was wrong as the API spells it, "" when it is the whole.
	Field string
	// Message is one sentence, safe to print, that says what was wrong and
	// what would be right.
	Message string
	// Detail is added to the answer's members, nil for none.
	Detail map[string]any
	// Err is what lies beneath, for the logs only.
	Err error
}

// Error returns the field and the message.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// Unwrap returns what lies beneath.
func (e *Error) Unwrap() error { return e.Err }

// New returns an error of a code.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Field returns an Invalid error about one field.
func Field(field, format string, args ...any) *Error {
	return &Error{Code: Invalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// Is reports whether err holds an *Error of that code.
func Is(err error, code Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}
