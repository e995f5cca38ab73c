package httpserver

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/stint-dev/stint/internal/supervise"
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
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	event := "event: decision\ndata: {\"key\":\"" + strings.Repeat("x", 300) + "\"}\n\n"
	const streams = 50
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var open [streams]*piecesBody
	for i := range open {
		open[i] = &piecesBody{from: &batches{all: []*Piece{NewPiece([]byte(event)), NewPiece([]byte(event))}, size: 1}, conn: here, isGzip: true, rest: gzipHead}
		for range 2 { // the head of gzip, then an event
			if n, err := open[i].Read(make([]byte, 4096)); n == 0 || err != nil {
				t.Fatalf("read %d, %v", n, err)
			}
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
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	for kind, body := range map[string]io.Reader{
		"a file": newGzipBody(&pieces{"one", "two", "three"}), "a stream": &piecesBody{from: &batches{all: []*Piece{NewPiece([]byte("one")), NewPiece([]byte("two")), NewPiece([]byte("three"))}, size: 1}, conn: here, isGzip: true, rest: gzipHead},
	} {
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
			if n == len(gzipHead) {
				var more int
				more, err = body.Read(p[n:])
				n += more
			}
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = w.Write(p[:n]) }() // the reader takes what it needs
			if got := <-read; got != want {
				t.Fatalf("%s: read %q, want %q", kind, got, want)
			}
		}
		go func() { _, _ = io.Copy(w, body); _ = w.Close() }()
		if got := <-read; got != "" {
			t.Errorf("%s: read %q at the end, want nothing", kind, got)
		}
	}
}

// Responses share the compressed bytes of a piece. However small the reads, each is valid, and
// has an end mark only if the stream ended.
func TestPiecesAreSharedByResponses(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	var shared []*Piece
	var want strings.Builder
	for i := range 100 {
		text := strings.Repeat("event ", i) + "\n"
		shared = append(shared, NewPiece([]byte(text)))
		want.WriteString(text)
	}
	var running sync.WaitGroup
	for size := 1; size < 2000; size *= 3 {
		for _, cut := range []bool{false, true} {
			for _, isGzip := range []bool{false, true} {
				running.Go(func() {
					body := &piecesBody{from: &batches{all: shared, size: size, cut: cut}, conn: here, isGzip: isGzip}
					var plain io.Reader = smallReads{body, size}
					if isGzip {
						body.rest = gzipHead
						unpacked, err := gzip.NewReader(plain)
						if err != nil {
							t.Error(err)
							return
						}
						plain = unpacked
					}
					got, err := io.ReadAll(plain)
					if string(got) != want.String() || (err != nil) != cut {
						t.Errorf("reads of %d bytes, cut %v, gzip %v: got %d bytes, %v, want %d", size, cut, isGzip, len(got), err, want.Len())
					}
				})
			}
		}
	}
	running.Wait()
	if first := shared[9].compressed(); &first[0] != &shared[9].compressed()[0] {
		t.Error("a piece is compressed more than once")
	}
}

// batches are Pieces that come several at a time, and end by an error if they are cut.
type batches struct {
	all  []*Piece
	size int
	cut  bool
}

func (b *batches) Next() ([]*Piece, error) {
	n := min(b.size, len(b.all))
	next := b.all[:n]
	b.all = b.all[n:]
	switch {
	case n > 0:
		return next, nil
	case b.cut:
		return nil, errors.New("the stream was cut")
	default:
		return nil, io.EOF
	}
}

func (*batches) Close() error { return nil }

// smallReads reads at most size bytes at a time.
type smallReads struct {
	from io.Reader
	size int
}

func (r smallReads) Read(to []byte) (int, error) { return r.from.Read(to[:min(len(to), r.size)]) }

func TestPanicOfPiecesIsAnError(t *testing.T) {
	body := &piecesBody{from: brokenPieces{}}
	var p *supervise.Panic
	if n, err := body.Read(make([]byte, 8)); n != 0 || !errors.As(err, &p) {
		t.Errorf("Read: got %d bytes, %v, want a panic error", n, err)
	}
	if err := body.Close(); !errors.As(err, &p) {
		t.Errorf("Close: got %v, want a panic error", err)
	}
}

// brokenPieces are Pieces with a bug.
type brokenPieces struct{}

func (brokenPieces) Next() ([]*Piece, error) { panic("a bug in the pieces") }
func (brokenPieces) Close() error            { panic("a bug in the pieces") }
