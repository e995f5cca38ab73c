package site

import (
	"bytes"
	"io"
	"testing"

	"github.com/klauspost/compress/gzip"
)

func TestCompressedAssetsMatchOriginals(t *testing.T) {
	compressed := 0
	for name, a := range assets {
		if a.gzip == nil {
			continue
		}
		compressed++
		r, err := gzip.NewReader(bytes.NewReader(a.gzip))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, a.body) {
			t.Errorf("%s has %d bytes, and decompressed %d with another content: %v", name, len(a.body), len(got), err)
		}
		if len(a.gzip) >= len(a.body) {
			t.Errorf("%s has %d bytes, and %d compressed", name, len(a.body), len(a.gzip))
		}
	}
	if compressed < 2 {
		t.Errorf("%d files are compressed, want at least 2", compressed)
	}
}
