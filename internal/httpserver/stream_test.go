package httpserver

import (
	"errors"
	"testing"

	"github.com/stint-dev/stint/internal/supervise"
)

// brokenBody is a body with a bug.
type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { panic("a bug in the body") }
func (brokenBody) Close() error             { panic("a bug in the body") }

func TestGuardedBodyReturnsPanicsAsErrors(t *testing.T) {
	body := GuardedBody{Body: brokenBody{}}
	var p *supervise.Panic
	if n, err := body.Read(make([]byte, 8)); n != 0 || !errors.As(err, &p) {
		t.Errorf("Read: got %d bytes, %v, want a panic error", n, err)
	}
	if err := body.Close(); !errors.As(err, &p) {
		t.Errorf("Close: got %v, want a panic error", err)
	}
}
