package form

import (
	"errors"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/fault"
)

// FieldErrors are the errors of a form's fields, by name.
type FieldErrors map[string]string

// Add records err if it concerns a field, and returns any other error.
func (e FieldErrors) Add(err error) error {
	var invalid *fault.Error
	if !errors.As(err, &invalid) || invalid.Field == "" {
		return err
	}
	name, _, _ := strings.Cut(invalid.Field, "[") // for an element, use its list
	e[name] = format.Capital(invalid.Message)
	return nil
}
