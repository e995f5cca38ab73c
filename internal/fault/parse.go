package fault

import (
	"errors"

	"github.com/stint-dev/stint/internal/keys"
)

// ParseKey parses the key that a field holds. Its error is an Invalid one about the field.
func ParseKey(parser keys.Parser, field, text string) (keys.Key, error) {
	key, err := parser.Key(text)
	return key, OfField(field, err)
}

// ReadKey reads the key that an operator wrote into a field. Its error is as that of ParseKey.
func ReadKey(r keys.Reading, field, text string) (keys.Key, error) {
	key, err := r.Key(text)
	return key, OfField(field, err)
}

// ReadPattern reads the one pattern that an operator wrote into a field. Its error is as that of
// ParseKey.
func ReadPattern(r keys.Reading, field, text string) (keys.Pattern, error) {
	pattern, err := r.Pattern(text)
	return pattern, OfField(field, err)
}

// ReadPatterns is ReadPattern for one or more patterns.
func ReadPatterns(r keys.Reading, field, text string) ([]keys.Pattern, error) {
	all, err := r.Patterns(text)
	return all, OfField(field, err)
}

// OfField returns the fault that reading the text of a field ended with, nil for nil.
func OfField(field string, err error) error {
	if err == nil {
		return nil
	}
	if wrong, isOfKey := errors.AsType[*keys.Error](err); isOfKey {
		return Field(field, "%s", wrong.Problem)
	}
	return Field(field, "%s", err)
}
