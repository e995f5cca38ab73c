package wire

import (
	"errors"

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

var errNullBool = errors.New("must be true or false; leave it out to keep it")

// Change is a field of a PATCH: a field that is not sent stays as it is, and
// null or the zero value clears it; null is refused where the value is a bool. The zero
// Change is not sent.
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

// UnmarshalJSON reads a value, null being its zero.
func (c *Change[T]) UnmarshalJSON(text []byte) error {
	*c = Change[T]{Given: true}
	if _, isBool := any(c.Value).(bool); isBool && string(text) == "null" {
		return errNullBool // programs that write null for what they leave out must not disable anything
	}
	err := json.Unmarshal(text, &c.Value)
	if errors.Is(err, errNoDuration) { // here 0 differs from not sent
		return nil
	}
	return err
}
