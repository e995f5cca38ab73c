package client

import (
	"strings"
	"testing"
)

func TestRequestCutNormalizesPaddedPaths(t *testing.T) {
	for _, padding := range []string{"/", "/.", "/%2e", "/a/.."} {
		if got := (Request{Path: strings.Repeat(padding, maxPath) + "/.env?a=b"}).cut().Path; got != "/.env" {
			t.Errorf("behind the padding %q: got the path %.20q", padding, got)
		}
	}
	long := "/" + strings.Repeat("a", maxPath)
	if got := (Request{Path: long}).cut().Path; got != long[:maxPath] {
		t.Errorf("a long path: got %d bytes", len(got))
	}
}
