package logfollow_test

import (
	"strings"
	"testing"
)

// No more lines come, so that they cannot show the format.
func TestOnceRefusesALogOfUnknownFormat(t *testing.T) {
	s := newSite(t)
	s.options.FromStart = true
	s.append(s.path, "what is this\n")
	if summary, err := s.once(); err == nil || !strings.Contains(err.Error(), "the first lines are neither") {
		t.Errorf("got %v, %s", err, summary)
	}
}
