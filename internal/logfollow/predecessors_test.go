package logfollow

import "testing"

func TestOnlyWhatRotationAddsMakesAFileAPredecessor(t *testing.T) {
	for _, added := range []string{".1", ".12", ".3.gz", "-20260131", "-20260131.gz", ".2026-01-31", ".2026-01-31T23:59.gz", "_20260131", "-2026013123", ".old"} {
		if !rotated.MatchString(added) {
			t.Errorf("%q is not taken for rotation", added)
		}
	}
	for _, added := range []string{"-8080", "-2", "_3", "-1.gz", ".8080", "-2026", "", ".txt", "-20260131a"} {
		if rotated.MatchString(added) {
			t.Errorf("%q is taken for rotation", added)
		}
	}
}
