package accesslog

import (
	"bytes"
	"net/url"

	"github.com/stint-dev/stint/internal/conditions"
)

// maxText is how much of a path, method or agent is kept, in bytes.
const maxText = 8 << 10

// textCache returns equal texts as one string, because logs repeat them. The zero value
// is ready.
type textCache struct {
	known map[string]string
	size  int // of the texts, in bytes
}

// maxTexts and maxTextsSize bound how many texts a textCache holds, and their bytes.
const (
	maxTexts     = 4096
	maxTextsSize = 4 << 20
)

func (c *textCache) of(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	text = text[:min(len(text), maxText)]
	if known, found := c.known[string(text)]; found {
		return known
	}
	if len(c.known) >= maxTexts || c.size+len(text) > maxTextsSize || c.known == nil {
		c.known, c.size = make(map[string]string, 64), 0
	}
	s := string(text)
	c.size += len(s)
	c.known[s] = s
	return s
}

// ofPath is of for a path. A long one is cut only once it is in its plain spelling, so that
// no padding of slashes and dots hides what it leads to.
func (c *textCache) ofPath(text []byte) string {
	if len(text) > maxText {
		text = []byte((&url.URL{Path: conditions.NormalizePath(string(text))}).EscapedPath())
	}
	return c.of(text)
}

// ofPart is of for one of Record.texts. The first of them is the path.
func (c *textCache) ofPart(i int, text []byte) string {
	if i == 0 {
		return c.ofPath(text)
	}
	return c.of(text)
}

// requestLine returns the method and the target of a request line such as
// "GET /x HTTP/1.1"; nothing for anything else.
func requestLine(line []byte) (method, target []byte) {
	method, rest, found := bytes.Cut(line, []byte{' '})
	if !found || len(rest) == 0 {
		return nil, nil
	}
	if at := bytes.LastIndexByte(rest, ' '); at >= 0 && bytes.HasPrefix(rest[at+1:], []byte("HTTP/")) {
		rest = rest[:at]
	}
	return method, rest
}

// isNoRequest reports whether a request line is that of another protocol or broken: TLS, SSH, RDP, a command.
// One that is empty, or that a server writes in place of a request that never came, is not.
func isNoRequest(line []byte) bool {
	method, rest, _ := bytes.Cut(line, []byte{' '})
	if len(line) == 0 || line[0] == '-' || line[0] == '<' {
		return false
	}
	if len(method) > maxMethod || bytes.ContainsFunc(method, func(r rune) bool { return (r < 'A' || r > 'Z') && r != '-' && r != '_' }) {
		return true
	}
	target, _, _ := bytes.Cut(rest, []byte{' '})
	return len(target) == 0 || target[0] != '/' && target[0] != '*' && !bytes.Contains(target, []byte("://")) && string(method) != "CONNECT"
}

// maxMethod is the longest name of a method, in bytes: the longest that is registered has 17.
const maxMethod = 24

// unescape returns what a server has written with a backslash: nginx writes quotes, backslashes
// and what is no ASCII as \xHH, Apache also \" and \\. A text without any is returned as it is.
func unescape(text []byte) []byte {
	at := bytes.IndexByte(text, '\\')
	if at < 0 {
		return text
	}
	plain := append(make([]byte, 0, len(text)), text[:at]...)
	for ; at < len(text); at++ {
		if text[at] != '\\' || at+1 == len(text) {
			plain = append(plain, text[at])
			continue
		}
		switch next := text[at+1]; {
		case next == 'x' && at+3 < len(text) && isHex(text[at+2]) && isHex(text[at+3]):
			plain = append(plain, hexValue(text[at+2])<<4|hexValue(text[at+3]))
			at += 3
		case next == '"', next == '\\':
			plain = append(plain, next)
			at++
		default:
			plain = append(plain, '\\')
		}
	}
	return plain
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
