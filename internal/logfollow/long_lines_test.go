package logfollow_test

import (
	"strings"
	"testing"
)

// Caddy writes the headers of a request into its line: a client that sends many of them must not be
// skipped for that, and neither must the lines after it.
func TestLongLinesAreChecked(t *testing.T) {
	long := func(s *site, bytes int) string {
		return strings.Replace(s.more(1), "agent/1", "agent/1 "+strings.Repeat("a", bytes), 1)
	}
	t.Run("growing", func(t *testing.T) {
		s := newSite(t)
		s.append(s.path, "")
		s.addSecond()
		s.follow()
		s.append(s.path, long(s, 300_000)+s.more(2)) // the first line of the file too
		s.awaitCharges()
		text := long(s, 2_000_000)
		s.append(s.path, text[:1_500_000])
		s.awaitRead() // half a line
		s.append(s.path, text[1_500_000:]+long(s, 70_000)+s.more(5))
		s.awaitCharges()
		s.leave()
		if s.summary.Bad > 0 || s.summary.Checked != 10+2 {
			t.Errorf("got the summary %+v", s.summary)
		}
	})
	t.Run("rotated and compressed", func(t *testing.T) {
		s := newSite(t)
		s.append(s.path, long(s, 300_000)+s.more(3)+long(s, 500_000))
		s.rename(s.path, s.path+".1")
		s.gzip(s.path + ".1")
		s.append(s.path, long(s, 100_000))
		s.options.FromStart = true
		if summary, err := s.once(); err != nil || summary.Bad > 0 || summary.Checked != 6 {
			t.Errorf("Run: got %+v, %v", summary, err)
		}
	})
}
