package httpserver

import (
	"errors"
	"testing"

	"github.com/stint-dev/stint/internal/supervise"
)

// brokenBody is a body with a bug.
type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { panic("a bug of the body") }
func (brokenBody) Close() error             { panic("a bug of the body") }

func TestGuardedBodyReturnsPanicsAsErrors(t *testing.T) {
	body := GuardedBody{Body: brokenBody{}}
	var p *supervise.Panic
	if n, err := body.Read(make([]byte, 8)); n != 0 || !errors.As(err, &p) {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if err := body.Close(); !errors.As(err, &p) {
		t.Errorf("closed with %v", err)
	}
}
