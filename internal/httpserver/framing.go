package httpserver

import (
	"bytes"
	"fmt"
)

// FramingError says why the bytes of a connection are not a request that every proxy and server
// delimits alike.
type FramingError struct{ Detail string }

// Error returns the detail, a full sentence.
func (e *FramingError) Error() string { return e.Detail }

func framingErrorf(format string, args ...any) *FramingError {
	return &FramingError{fmt.Sprintf(format, args...)}
}

var (
	errBareLF      = framingErrorf("A line ends with LF alone; end every line with CRLF.")
	errFolded      = framingErrorf("A header continues on a second line; send each header on one line.")
	errTwoLengths  = framingErrorf("Content-Length and Transfer-Encoding are both given; send one of them.")
	errNoColon     = framingErrorf("A header has no colon; write it as Name: value.")
	errHeaderName  = framingErrorf("The name of a header is empty or has a space in it; write it as Name: value, without a space before the colon.")
	errLength      = framingErrorf("Content-Length must be one whole number of decimal digits, given once.")
	errEncoding    = framingErrorf("Transfer-Encoding must be chunked, given once, and needs HTTP/1.1.")
	errRequestLine = framingErrorf("The request line must be METHOD target HTTP/1.1, with one space between each two, or HTTP/1.0.")
	errChunkSize   = framingErrorf("The size of a chunk must be 1 to 8 hexadecimal digits and CRLF; an extension begins with a semicolon and has at most %d bytes.", maxChunkLine)
	errChunkEnd    = framingErrorf("A chunk must end with CRLF after as many bytes as its size says.")
	errTrailer     = framingErrorf("The chunked body has trailer fields; end it with an empty line.")
	errEmptyLines  = framingErrorf("More than one empty line comes before the request.")
)

const (
	maxHeadLine  = 16 << 10 // the size of fasthttp's buffer
	maxChunkLine = 128
)

// framingState says what the next byte of a connection belongs to.
type framingState uint8

const (
	atRequestLine framingState = iota
	atHeader
	atBody      // left bytes of it
	atChunkSize // a line
	atChunk     // left bytes of it
	atChunkEnd  // the CRLF after a chunk
	atTrailer   // a line, which must be empty
)

// framer follows the requests on one connection and finds the first byte that makes the end of
// a request ambiguous. It is stricter than fasthttp's parser, so that the two never disagree
// about where a request ends.
type framer struct {
	state framingState
	left  int64 // bytes of the body or chunk not yet received

	// Of the request whose head is being read:
	http10  bool
	length  int64 // Content-Length, -1 for none
	chunked bool
	empties int // empty lines before the request line

	line []byte // start of a line that an earlier read received
	err  *FramingError
}

// inRequest reports whether a request has begun and has not ended.
func (f *framer) inRequest() bool {
	return f.state != atRequestLine || len(f.line) > 0
}

// inBody reports whether the head of a request is complete and its body is not.
func (f *framer) inBody() bool { return f.state >= atBody }

// isBetween reports whether the next byte begins a request, and the parser has seen every byte
// before it.
func (f *framer) isBetween() bool {
	return f.state == atRequestLine && len(f.line) == 0 && f.empties == 0 && f.err == nil
}

// follow takes the next bytes of the connection and returns how many of them the parser may
// see: all, or those before the first invalid line. After that, err is set and the parser must
// not see any more bytes.
func (f *framer) follow(p []byte) int {
	at := 0
	for at < len(p) {
		switch f.state {
		case atBody, atChunk:
			n := min(f.left, int64(len(p)-at))
			at += int(n)
			if f.left -= n; f.left > 0 {
				return at
			}
			if f.state == atBody {
				f.begin()
			} else {
				f.state = atChunkEnd
			}
		default:
			n := bytes.IndexByte(p[at:], '\n')
			if n < 0 {
				return f.keep(p, at)
			}
			line := p[at : at+n]
			if len(f.line) > 0 {
				f.line = append(f.line, line...)
				line = f.line
			}
			if f.err = f.endLine(line); f.err != nil {
				return at
			}
			f.line = f.line[:0]
			at += n + 1
		}
	}
	return at
}

// keep stores the rest of p, which is the beginning of a line.
func (f *framer) keep(p []byte, at int) int {
	most := maxHeadLine
	if f.state > atBody {
		most = maxChunkLine
	}
	if len(f.line)+len(p)-at > most {
		if f.state > atBody {
			f.err = errChunkSize
			return at
		}
		// The parser refuses the head for its size as soon as its buffer is full. It must not
		// receive more than that.
		f.err = framingErrorf("The headers have more than %d bytes.", maxHeadLine)
		return len(p)
	}
	f.line = append(f.line, p[at:]...)
	return len(p)
}

// begin resets f to wait for the next request.
func (f *framer) begin() {
	f.state, f.length, f.chunked, f.http10, f.empties = atRequestLine, -1, false, false, 0
}

// endLine processes a line, without its LF.
func (f *framer) endLine(line []byte) *FramingError {
	if len(line) == 0 || line[len(line)-1] != '\r' {
		return errBareLF
	}
	line = line[:len(line)-1]
	switch f.state {
	case atRequestLine:
		return f.requestLine(line)
	case atHeader:
		return f.header(line)
	case atChunkSize:
		return f.chunkSize(line)
	case atChunkEnd:
		if len(line) > 0 {
			return errChunkEnd
		}
		f.state = atChunkSize
	default: // atTrailer
		if len(line) > 0 {
			return errTrailer
		}
		f.begin()
	}
	return nil
}

func (f *framer) requestLine(line []byte) *FramingError {
	if len(line) == 0 {
		// RFC 9112 lets a server ignore one empty line: old clients send it after a body.
		if f.empties++; f.empties > 1 {
			return errEmptyLines
		}
		return nil
	}
	target, version := bytes.IndexByte(line, ' '), bytes.LastIndexByte(line, ' ')
	if target <= 0 || version <= target+1 || bytes.IndexByte(line[target+1:version], ' ') >= 0 {
		return errRequestLine
	}
	switch string(line[version+1:]) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		f.http10 = true
	default:
		return errRequestLine
	}
	f.state, f.length = atHeader, -1
	return nil
}

func (f *framer) header(line []byte) *FramingError {
	if len(line) == 0 {
		return f.endHead()
	}
	if line[0] == ' ' || line[0] == '\t' {
		return errFolded
	}
	colon := bytes.IndexByte(line, ':')
	if colon < 0 {
		return errNoColon
	}
	name := line[:colon]
	if colon == 0 || bytes.IndexByte(name, ' ') >= 0 || bytes.IndexByte(name, '\t') >= 0 {
		return errHeaderName
	}
	switch {
	case len(name) == len(contentLength) && bytes.EqualFold(name, contentLength):
		return f.contentLength(line[colon+1:])
	case len(name) == len(transferEncoding) && bytes.EqualFold(name, transferEncoding):
		if f.chunked || f.http10 || !bytes.EqualFold(trimSpace(line[colon+1:]), chunkedCoding) {
			return errEncoding
		}
		f.chunked = true
	}
	return nil
}

var (
	contentLength    = []byte("content-length")
	transferEncoding = []byte("transfer-encoding")
	chunkedCoding    = []byte("chunked")
)

func (f *framer) contentLength(value []byte) *FramingError {
	value = trimSpace(value)
	if f.length >= 0 || len(value) == 0 || len(value) > 18 {
		return errLength
	}
	f.length = 0
	for _, c := range value {
		if c < '0' || c > '9' {
			return errLength
		}
		f.length = f.length*10 + int64(c-'0')
	}
	return nil
}

func (f *framer) endHead() *FramingError {
	switch {
	case f.chunked && f.length >= 0:
		return errTwoLengths
	case f.chunked:
		f.state = atChunkSize
	case f.length > 0:
		f.state, f.left = atBody, f.length
	default:
		f.begin()
	}
	return nil
}

func (f *framer) chunkSize(line []byte) *FramingError {
	if len(line) > maxChunkLine {
		return errChunkSize
	}
	digits, _, _ := bytes.Cut(line, []byte(";"))
	if len(digits) == 0 || len(digits) > 8 {
		return errChunkSize
	}
	size := int64(0)
	for _, c := range digits {
		digit := hexDigit(c)
		if digit < 0 {
			return errChunkSize
		}
		size = size<<4 | digit
	}
	for _, c := range line[len(digits):] {
		if c < ' ' && c != '\t' || c == 0x7f {
			return errChunkSize
		}
	}
	if size == 0 {
		f.state = atTrailer
	} else {
		f.state, f.left = atChunk, size
	}
	return nil
}

func hexDigit(c byte) int64 {
	switch {
	case '0' <= c && c <= '9':
		return int64(c - '0')
	case 'a' <= c && c <= 'f':
		return int64(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int64(c-'A') + 10
	}
	return -1
}

// trimSpace removes the spaces and tabs around a header's value.
func trimSpace(value []byte) []byte { return bytes.Trim(value, " \t") }
