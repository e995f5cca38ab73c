package logfollow_test

import (
	"strings"
	"testing"
	"time"
)

func TestSummaryOfOneLine(t *testing.T) {
	s := newSite(t)
	s.options.FromStart = true
	s.append(s.path, lineOf("198.51.100.7", time.Now(), 0))
	if summary, err := s.once(); err != nil || summary.String() != "1 line: 1 checked, 1 allowed" {
		t.Errorf("Run: got %v, %s", err, summary)
	}
}

// With Once no later lines can show the format.
func TestOnceRefusesALogOfUnknownFormat(t *testing.T) {
	s := newSite(t)
	s.options.FromStart = true
	s.append(s.path, "no log line\n")
	if summary, err := s.once(); err == nil || !strings.Contains(err.Error(), "the first lines are neither") {
		t.Errorf("Run: got %v, %s", err, summary)
	}
}
