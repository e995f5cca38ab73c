package httpserver

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// pieces is a body whose Reads return one piece each.
type pieces []string

func (p *pieces) Read(to []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(to, (*p)[0])
	*p = (*p)[1:]
	return n, nil
}

func (p *pieces) Close() error { return nil }

// A stream of events without traffic uses little memory: a listener may have thousands.
func TestCompressedEventStreamUsesLittleMemory(t *testing.T) {
	event := "event: decision\ndata: {\"key\":\"" + strings.Repeat("x", 300) + "\"}\n\n"
	const streams = 50
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var open [streams]*gzipBody
	for i := range open {
		open[i] = newGzipBody(&pieces{event, event}, eventStream)
		if n, err := open[i].Read(make([]byte, 4096)); n == 0 || err != nil {
			t.Fatalf("read %d, %v", n, err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / streams; held > 64<<10 { //nolint:gosec // no such heap
		t.Errorf("a stream uses %d bytes, want at most 64 KiB", held)
	}
	runtime.KeepAlive(open)
}

// What was written to a stream can be read before more follows, and everything can be read at
// the end.
func TestCompressedEventIsFlushedAtOnce(t *testing.T) {
	for _, mediaType := range []string{eventStream, "text/csv"} {
		body := newGzipBody(&pieces{"one", "two", "three"}, mediaType)
		r, w := io.Pipe()
		read := make(chan string)
		go func() { // of a test, which ends with it
			plain, err := gzip.NewReader(r)
			for err == nil {
				p := make([]byte, 100)
				var n int
				n, err = plain.Read(p)
				read <- string(p[:n])
			}
			close(read)
		}()
		for _, want := range []string{"one", "two", "three"} {
			p := make([]byte, 4096)
			n, err := body.Read(p)
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = w.Write(p[:n]) }() // the reader takes what it needs
			if got := <-read; got != want {
				t.Fatalf("%s: read %q, want %q", mediaType, got, want)
			}
		}
		go func() { _, _ = io.Copy(w, body); _ = w.Close() }()
		if got := <-read; got != "" {
			t.Errorf("%s: read %q at the end, want nothing", mediaType, got)
		}
	}
}
