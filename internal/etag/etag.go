// Package etag names the states of what operators change, so that nobody overwrites a
// change that they have not seen. A number that counts versions is not enough: it begins
// again for what is deleted and made again, and goes back with a restore.
package etag

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"

	"github.com/stint-dev/stint/internal/fault"
)

// Tag names one state of one thing. No other state has it, neither of what had the same
// name before nor of what a restore brings back.
type Tag string

// What a change may expect beside a state.
const (
	New Tag = ""  // there is nothing yet
	Any Tag = "*" // any state, or nothing
)

// Of returns the tag of the state that no other has these parts of: an id, a revision and
// the instant of the change in milliseconds, for example.
func Of(parts ...any) Tag {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%v\x00", part)
	}
	return Tag(hex.EncodeToString(sum.Sum(nil)[:8]))
}

var form = regexp.MustCompile(`^(\d+-)?[0-9a-f]{16}$`)

// Parse reads a tag that a client sends back without its quotes; "" is New and "*" is Any.
// The error is a fault of the field.
func Parse(field, text string) (Tag, error) {
	if tag := Tag(text); tag == New || tag == Any || form.MatchString(text) {
		return tag, nil
	}
	return New, fault.Field(field, "must be the ETag of what you have read, or *; the number of a version is not enough")
}

// Check returns a fault unless a change that expects a state may be made where the state is
// now, New for nothing: NotFound, NeedVersion or Outdated. what names the thing in
// messages: `policy "default"`.
func Check(what string, now, expect Tag) error {
	switch {
	case expect == Any || expect == now:
		return nil
	case now == New:
		return fault.New(fault.NotFound, "There is no %s.", what)
	case expect == New:
		return fault.New(fault.NeedVersion, "There is a %s; changing it needs the ETag of what you have seen of it, which is now %q, or * for any.", what, string(now))
	}
	e := fault.New(fault.Outdated, "The %s was changed since you read it; read it again.", what)
	e.Detail = map[string]any{"etag": string(now)}
	return e
}
