package site

import (
	"bytes"
	"io"
	"testing"

	"github.com/klauspost/compress/gzip"
)

func TestACompressedFileIsTheFile(t *testing.T) {
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
			t.Errorf("%s has %d bytes and, compressed, %d of another content: %v", name, len(a.body), len(got), err)
		}
		if len(a.gzip) >= len(a.body) {
			t.Errorf("%s has %d bytes and takes %d compressed", name, len(a.body), len(a.gzip))
		}
	}
	if compressed < 2 {
		t.Errorf("%d files are compressed", compressed)
	}
}
