package form

import (
	"errors"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

// FieldErrors are the errors of a form's fields, by name.
type FieldErrors map[string]string

// Add records err if it concerns a field, one of fields if any are given, and returns any other
// error.
func (e FieldErrors) Add(err error, fields ...string) error {
	var invalid *fault.Error
	if !errors.As(err, &invalid) || invalid.Field == "" {
		return err
	}
	name, _, _ := strings.Cut(invalid.Field, "[") // for an element, use its list
	if len(fields) > 0 && !slices.Contains(fields, name) {
		return err
	}
	e[name] = format.Capital(invalid.Message)
	return nil
}

// Again records err, which concerns a field, and shows the form again with the status of err. It
// returns any other error.
func (e FieldErrors) Again(err error, show func(status int) error) error {
	status := httpserver.StatusOf(err)
	if err := e.Add(err); err != nil {
		return err
	}
	return show(status)
}
