package logfollow

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestPredecessorsHaveRotationSuffixes(t *testing.T) {
	for _, added := range []string{".1", ".12", ".3.gz", "-20260131", "-20260131.gz", ".2026-01-31", ".2026-01-31T23:59.gz", "_20260131", "-2026013123", ".old", "-2026-01-31T22-05-03.123-size", "-2026-01-31T22-05-03.123-time.gz", "-2026-01-31-size_1", "-2026-01-31-time_12.gz"} {
		if !rotated.MatchString(added) {
			t.Errorf("the suffix %q is not recognized as that of a rotated file", added)
		}
	}
	for _, added := range []string{"-8080", "-2", "_3", "-1.gz", ".8080", "-2026", "", ".txt", "-20260131a", "-size", "-8080-time", "-20260131-api", "-20260131-size_", "-20260131_1a"} {
		if rotated.MatchString(added) {
			t.Errorf("the suffix %q is recognized as that of a rotated file", added)
		}
	}
}

func TestFilesOfALinkDifferByTheirDate(t *testing.T) {
	for name, base := range map[string]string{
		"access-2026-01-31.log": "access-2026-02-01.log", "20260131": "20260201", "access.2026013123.log.gz": "access.2026020100.log",
	} {
		if !hasOtherDate(name, base) {
			t.Errorf("%q is not recognized as a file before %q", name, base)
		}
	}
	for name, base := range map[string]string{
		"access-2026-01-31.log": "access-2026-01-31.log", "shop-2026-01-31.log": "access-2026-02-01.log", "access-8080.log": "access-8081.log",
		"access-2026-01-31.log.1": "access-2026-02-01.log", "access.log": "access.log",
	} {
		if hasOtherDate(name, base) {
			t.Errorf("%q is recognized as a file before %q", name, base)
		}
	}
}

// A rotation deletes a file after its predecessor was read, and the next file gets its
// inode: truncating the file does the same.
func TestPredecessorWithAReusedInodeHasMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log.1")
	if err := os.WriteFile(path, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := readPredecessor(path)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := p.open("a", 8)
	if err != nil {
		t.Fatal(err)
	}
	opened.close()
	if err := os.Truncate(path, 4); err != nil {
		t.Fatal(err)
	}
	if _, err := p.open("a", 8); !errors.Is(err, errMoved) {
		t.Errorf("open of the new file: got %v, want errMoved", err)
	}
}
