package logfollow_test

import (
	"os"
	"path/filepath"
	"testing"
)

// A server writes into a new file each day and lets a link lead to it. The link leads to the
// third file when the second run begins.
func TestFilesOfALinkAreReadToTheirEnds(t *testing.T) {
	for name, link := range map[string]string{"beside the files": "access.log", "of another name": "current", "elsewhere": "logs/current"} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			dir := t.TempDir()
			s.path = filepath.Join(dir, link)
			if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
				t.Fatal(err)
			}
			lead := func(date string, lines int) (to string) {
				to = filepath.Join(dir, "access-"+date+".log")
				s.append(to, s.more(lines))
				os.Remove(s.path)
				if err := os.Symlink(to, s.path); err != nil {
					t.Fatal(err)
				}
				return to
			}
			s.options.FromStart = true
			first := lead("2026-01-30", 5)
			s.follow()
			s.awaitCharges()
			if err := s.leave(); err != nil {
				t.Fatal(err)
			}
			s.append(first, s.more(4))
			lead("2026-01-31", 3)
			lead("2026-02-01", 2)
			if _, err := s.once(); err != nil {
				t.Fatal(err)
			}
			s.awaitCharges()
		})
	}
}
