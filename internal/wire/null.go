package wire

import (
	"errors"
	"reflect"

	"github.com/go-json-experiment/json"
)

// NullString is a text that is null on the wire where it is empty.
type NullString string

// MarshalJSON writes null or the text.
func (s NullString) MarshalJSON() ([]byte, error) {
	if s == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(s))
}

// TakesNull reports that null is the empty text.
func (NullString) TakesNull() bool { return true }

// Nullable is a type of fields of which requests may say null.
type Nullable interface {
	// TakesNull reports whether null means something. It does not depend on the value.
	TakesNull() bool
}

// TakesNull reports whether requests may say null of a field of type t: if it is a
// pointer, or Nullable and says so. Of all others null says nothing, and is refused.
func TakesNull(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		return true
	}
	n, is := reflect.Zero(t).Interface().(Nullable)
	return is && n.TakesNull()
}

// Change is a field of a PATCH: a field that is not sent stays as it is, and the zero
// value clears it. The zero Change is not sent.
type Change[T any] struct {
	Given bool
	Value T
}

// To returns a change to value.
func To[T any](value T) Change[T] { return Change[T]{Given: true, Value: value} }

// IsZero reports whether the field is not sent.
func (c Change[T]) IsZero() bool { return !c.Given }

// MarshalJSON writes the value.
func (c Change[T]) MarshalJSON() ([]byte, error) { return json.Marshal(c.Value) }

// TakesNull reports whether null means something of the value.
func (Change[T]) TakesNull() bool { return TakesNull(reflect.TypeFor[T]()) }

func (Change[T]) valueType() reflect.Type { return reflect.TypeFor[T]() }

// ValueType returns the type of the value of a Change, and t for another type.
func ValueType(t reflect.Type) reflect.Type {
	if c, is := reflect.Zero(t).Interface().(interface{ valueType() reflect.Type }); is {
		return c.valueType()
	}
	return t
}

// UnmarshalJSON reads a value, null being its zero.
func (c *Change[T]) UnmarshalJSON(text []byte) error {
	*c = Change[T]{Given: true}
	err := json.Unmarshal(text, &c.Value)
	if errors.Is(err, errNoDuration) { // here 0 differs from not sent
		return nil
	}
	return err
}
