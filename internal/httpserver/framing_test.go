package httpserver

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// feed passes text to a framer in pieces and returns how much of it was accepted,
// its error, and whether a request was left half way.
func feed(text string, piece int) (passed int, err *FramingError, open bool) {
	f := framer{length: -1}
	for at := 0; at < len(text); at += piece {
		part := []byte(text[at:min(at+piece, len(text))])
		n := f.follow(part)
		passed += n
		if f.err != nil {
			return passed, f.err, true
		}
		if n != len(part) {
			panic("the framer did not accept a part, and has no error")
		}
	}
	return passed, nil, f.inRequest()
}

const head = "POST /v1/check HTTP/1.1\r\nHost: x\r\n"

func TestFramerAcceptsUnambiguousRequests(t *testing.T) {
	for name, text := range map[string]string{
		"without a body":           "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"of HTTP/1.0":              "GET / HTTP/1.0\r\n\r\n",
		"with a length":            head + "Content-Length: 5\r\n\r\na\nb\r\n",
		"with a length of zero":    head + "content-length:0\r\n\r\n",
		"with leading zeros":       head + "Content-Length: 005\r\n\r\nabcde",
		"with spaces round a size": head + "Content-Length:  5\t\r\n\r\nabcde",
		"in chunks":                head + "Transfer-Encoding: chunked\r\n\r\n3\r\na\nb\r\nA\r\n0123456789\r\n0\r\n\r\n",
		"in chunks by another case": head + "transfer-encoding: Chunked\r\n\r\n1\r\n\n\r\n" +
			"0\r\n\r\n",
		"with chunk extensions":     head + "Transfer-Encoding: chunked\r\n\r\n3;a=b;c=\"d\"\r\nabc\r\n0;x\r\n\r\n",
		"without chunks":            head + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"one after the other":       head + "Content-Length: 1\r\n\r\n\nGET / HTTP/1.1\r\nHost: x\r\n\r\n" + head + "\r\n",
		"after an empty line":       "\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"with a body of GET":        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
		"with similar header names": head + "X-Content-Length: 9\r\nContent-Length-X: 9\r\nTransfer-Encodings: x\r\n\r\n",
		"with a value that is odd":  head + "X: a:b  c\t\x80\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			for piece := 1; piece <= len(text); piece++ {
				if passed, err, open := feed(text, piece); err != nil || open || passed != len(text) {
					t.Fatalf("in pieces of %d: accepted %d of %d bytes, in a request %v, error %v", piece, passed, len(text), open, err)
				}
			}
		})
	}
}

func TestFramerRejectsAmbiguousRequests(t *testing.T) {
	const chunked = "Transfer-Encoding: chunked\r\n\r\n"
	for name, test := range map[string]struct {
		text string
		want *FramingError
	}{
		"a bare LF in the request line": {"GET / HTTP/1.1\nHost: x\r\n\r\n", errBareLF},
		"a bare LF in a header":         {head + "X: y\nA: b\r\n\r\n", errBareLF},
		"a bare LF at the head's end":   {head + "X: y\r\n\n", errBareLF},
		"only bare LFs":                 {"GET / HTTP/1.1\nHost: x\n\n", errBareLF},
		"a bare LF first":               {"\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", errBareLF},
		"a bare LF after a body":        {head + "Content-Length: 1\r\n\r\na\nGET / HTTP/1.1\r\n", errBareLF},
		"a bare LF after a size":        {head + chunked + "3\nabc\r\n0\r\n\r\n", errBareLF},
		"a bare LF after a chunk":       {head + chunked + "3\r\nabc\n0\r\n\r\n", errBareLF},
		"a bare LF after the last":      {head + chunked + "0\r\n\n", errBareLF},
		"a bare LF in an extension":     {head + chunked + "3;a\nabc\r\n0\r\n\r\n", errBareLF},
		"many empty lines":              {"\r\n\r\nGET / HTTP/1.1\r\n", errEmptyLines},
		"a folded header":               {head + "X: y\r\n z\r\n\r\n", errFolded},
		"a folded length":               {head + "Content-Length:\r\n 5\r\n\r\n", errLength},
		"a folded first line":           {"GET / HTTP/1.1\r\n\tHost: x\r\n\r\n", errFolded},
		"two lengths":                   {head + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", errLength},
		"two lengths in one":            {head + "Content-Length: 1, 1\r\n\r\n", errLength},
		"a signed length":               {head + "Content-Length: +1\r\n\r\n", errLength},
		"a negative length":             {head + "Content-Length: -1\r\n\r\n", errLength},
		"a hexadecimal length":          {head + "Content-Length: 0x1\r\n\r\n", errLength},
		"an empty length":               {head + "Content-Length: \r\n\r\n", errLength},
		"a huge length":                 {head + "Content-Length: 9999999999999999999\r\n\r\n", errLength},
		"a length and chunks":           {head + "Content-Length: 1\r\n" + chunked, errTwoLengths},
		"chunks and a length":           {head + "Transfer-Encoding: chunked\r\ncontent-LENGTH: 1\r\n\r\n", errTwoLengths},
		"a length of zero and chunks":   {head + "Content-Length: 0\r\n" + chunked, errTwoLengths},
		"a space before a colon":        {head + "Transfer-Encoding : chunked\r\n\r\n", errHeaderName},
		"a tab before a colon":          {head + "Content-Length\t: 1\r\n\r\n", errHeaderName},
		"a space in a name":             {head + "X Y: z\r\n\r\n", errHeaderName},
		"no name":                       {head + ": z\r\n\r\n", errHeaderName},
		"no colon":                      {head + "X\r\n\r\n", errNoColon},
		"another encoding":              {head + "Transfer-Encoding: xchunked\r\n\r\n", errEncoding},
		"two encodings":                 {head + "Transfer-Encoding: gzip, chunked\r\n\r\n", errEncoding},
		"identity":                      {head + "Transfer-Encoding: identity\r\n\r\n", errEncoding},
		"chunked twice":                 {head + "Transfer-Encoding: chunked\r\n" + chunked, errEncoding},
		"chunked, quoted":               {head + "Transfer-Encoding: \"chunked\"\r\n\r\n", errEncoding},
		"chunked after a vertical tab":  {head + "Transfer-Encoding: \x0bchunked\r\n\r\n", errEncoding},
		"chunks of HTTP/1.0":            {"POST / HTTP/1.0\r\n" + chunked, errEncoding},
		"another version":               {"GET / HTTP/1.2\r\n\r\n", errRequestLine},
		"HTTP/2":                        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", errRequestLine},
		"HTTP/0.9":                      {"GET /\r\n", errRequestLine},
		"two spaces":                    {"GET  / HTTP/1.1\r\n\r\n", errRequestLine},
		"a space in the target":         {"GET /a b HTTP/1.1\r\n\r\n", errRequestLine},
		"a space at the end":            {"GET / HTTP/1.1 \r\n\r\n", errRequestLine},
		"a size with a prefix":          {head + chunked + "0x3\r\nabc\r\n", errChunkSize},
		"a signed size":                 {head + chunked + "+3\r\nabc\r\n", errChunkSize},
		"a size with a space":           {head + chunked + "3 \r\nabc\r\n", errChunkSize},
		"a size that overflows":         {head + chunked + "fffffffff\r\nabc\r\n", errChunkSize},
		"no size":                       {head + chunked + "\r\nabc\r\n", errChunkSize},
		"an extension without a size":   {head + chunked + ";a\r\nabc\r\n", errChunkSize},
		"a CR in an extension":          {head + chunked + "3;a\rb\r\nabc\r\n", errChunkSize},
		"a long extension":              {head + chunked + "3;" + strings.Repeat("a", 200) + "\r\nabc\r\n", errChunkSize},
		"a chunk that is longer":        {head + chunked + "3\r\nabcd\r\n0\r\n\r\n", errChunkEnd},
		"a chunk that is shorter":       {head + chunked + "3\r\nab\r\n0\r\n\r\n", errBareLF},
		"a trailer":                     {head + chunked + "0\r\nContent-Length: 5\r\n\r\n", errTrailer},
	} {
		t.Run(name, func(t *testing.T) {
			for piece := 1; piece <= len(test.text); piece++ {
				if _, err, _ := feed(test.text, piece); err != test.want {
					t.Fatalf("in pieces of %d: got %v, want %v", piece, err, test.want)
				}
			}
		})
	}
}

// FuzzFraming compares the framer with net/http: if the framer accepts text, its requests end
// where net/http ends them.
func FuzzFraming(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", head + "Content-Length: 3\r\n\r\nabc" + head + "\r\n",
		head + "Transfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
		head + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "GET / HTTP/1.1\nHost: x\n\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		framed := framer{length: -1}
		var ends []int // of the requests
		for i := range text {
			was := framed.inRequest()
			if framed.follow(text[i:i+1]) != 1 {
				break
			}
			if was && !framed.inRequest() && framed.empties == 0 {
				ends = append(ends, i+1)
			}
		}
		for i, from := 0, 0; i < len(ends); i++ {
			text := text[from:ends[i]]
			request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\r\n")))))
			if err != nil {
				return // the parser's refusals do not concern framing
			}
			// Beyond its end there is nothing to read, and before it something.
			if _, err := io.Copy(io.Discard, request.Body); err != nil {
				t.Fatalf("request %d: %v\n%q", i, err, text)
			}
			cut := bufio.NewReader(bytes.NewReader(bytes.TrimPrefix(text[:len(text)-1], []byte("\r\n"))))
			if request, err := http.ReadRequest(cut); err == nil {
				if _, err := io.Copy(io.Discard, request.Body); err == nil && request.ContentLength != 0 {
					t.Fatalf("request %d ends earlier for net/http\n%q", i, text)
				}
			}
			from = ends[i]
		}
	})
}

func BenchmarkFraming(b *testing.B) {
	body := `{"key":"ip:203.0.113.7","detail":"none"}`
	request := fmt.Appendf(nil, "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	f := framer{length: -1}
	b.ReportAllocs()
	for b.Loop() {
		f.follow(request)
	}
	if f.err != nil || f.inRequest() {
		b.Fatal(f.err)
	}
}
