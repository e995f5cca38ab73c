// Package fault has the error type of mistakes that a caller can fix, so that
// every front end translates them by one table. Any other error is a failure of
// Stint.
package fault

import (
	"errors"
	"fmt"
)

// Code says what kind of mistake it was.
type Code string

// The codes.
const (
	Invalid      Code = "invalid"   // a field is wrong
	Malformed    Code = "malformed" // it cannot be read
	Unsupported  Code = "unsupported_media_type"
	NotFound     Code = "not_found"             // nothing of that name
	Conflict     Code = "conflict"              // it contradicts what exists
	Settled      Code = "settled"               // it is settled already, in another way
	Expired      Code = "expired"               // its time is over
	Unauthorized Code = "unauthorized"          // no or a bad credential
	Forbidden    Code = "forbidden"             // a credential without the access
	NeedVersion  Code = "precondition_required" // changing it needs its ETag
	Outdated     Code = "precondition_failed"   // it was changed since it was read
	NeedConfirm  Code = "confirmation_required" // it is broad; repeat it confirmed
	// Proposed: it is broad and comes from a source that cannot confirm it. It is kept as a
	// proposal, which an operator can accept.
	Proposed Code = "proposed"
	TooMany  Code = "too_many" // tried too often
	TooLarge Code = "too_large"
	// Unavailable: a part is unreachable. Nothing was changed, or repeating the request does
	// no harm.
	Unavailable Code = "unavailable"
	// Saved: the change was saved, and what had to follow it failed. It must not be repeated.
	Saved Code = "saved"
	// MaybeSaved: whether the change was saved is not known. Look before it is repeated.
	MaybeSaved Code = "maybe_saved"
)

// Error is a mistake that the caller can fix.
type Error struct {
	Code Code
	// Field names what is wrong as the API spells it, "" for the whole request.
	Field string
	// Message is one sentence, safe to print, that says what is wrong and what
	// is allowed.
	Message string
	// Detail is added to the answer's members, nil for none.
	Detail map[string]any
	// Err is the cause, for logs only.
	Err error
}

// Error returns the field and the message.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns an error of a code.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Field returns an Invalid error about one field.
func Field(field, format string, args ...any) *Error {
	return &Error{Code: Invalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// NoSuch returns an Invalid error about a field that names what does not exist, as a policy.
// Its answer has the member unknown, for programs.
func NoSuch(field, format string, args ...any) *Error {
	e := Field(field, format, args...)
	e.Detail = map[string]any{"unknown": true}
	return e
}

// Is reports whether err wraps an *Error of that code.
func Is(err error, code Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}
