package logfollow_test

import (
	"strings"
	"testing"
)

// With Once no later lines can show the format.
func TestOnceRefusesALogOfUnknownFormat(t *testing.T) {
	s := newSite(t)
	s.options.FromStart = true
	s.append(s.path, "no log line\n")
	if summary, err := s.once(); err == nil || !strings.Contains(err.Error(), "the first lines are neither") {
		t.Errorf("Run: got %v, %s", err, summary)
	}
}
