package local

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// nginxDirective is a directive of nginx with its block, nil if it has none.
type nginxDirective struct {
	name  string
	args  []string
	block []nginxDirective
}

// maxNginx bounds a configuration of nginx, in bytes, and maxNginxDepth its blocks within blocks.
const (
	maxNginx      = 64 << 20
	maxNginxDepth = 100
)

// parseNginx reads a configuration of nginx, as 'nginx -T' prints one. No Go library that is kept
// reads it; the grammar is words, quoted words, ";", "{", "}" and comments.
func parseNginx(file io.Reader) ([]nginxDirective, error) {
	p := &nginxParser{from: bufio.NewReader(io.LimitReader(file, maxNginx)), line: 1}
	all, err := p.block(0)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", p.line, err)
	}
	return all, nil
}

type nginxParser struct {
	from *bufio.Reader
	line int
}

var errEnd = errors.New("it ends within a directive or a block")

// block reads the directives up to the end of a block, or of the file at depth 0.
func (p *nginxParser) block(depth int) (all []nginxDirective, err error) {
	if depth > maxNginxDepth {
		return nil, errors.New("its blocks are nested too deep")
	}
	var words []string
	for {
		word, isQuoted, err := p.token()
		switch {
		case errors.Is(err, io.EOF) && depth == 0 && len(words) == 0:
			return all, nil
		case errors.Is(err, io.EOF):
			return nil, errEnd
		case err != nil:
			return nil, err
		case !isQuoted && word == "}":
			if depth == 0 || len(words) > 0 {
				return nil, errors.New(`it has an unexpected "}"`)
			}
			return all, nil
		case !isQuoted && (word == ";" || word == "{"):
			if len(words) == 0 {
				return nil, fmt.Errorf("it has an unexpected %q", word)
			}
			d := nginxDirective{name: words[0], args: words[1:]}
			words = nil
			if word == "{" && strings.HasSuffix(d.name, "_by_lua_block") {
				if err := p.skipLua(); err != nil {
					return nil, err
				}
			} else if word == "{" {
				if d.block, err = p.block(depth + 1); err != nil {
					return nil, err
				}
			}
			all = append(all, d)
		default:
			words = append(words, word)
		}
	}
}

// token reads a word, or one of ; { }.
func (p *nginxParser) token() (word string, isQuoted bool, err error) {
	var b strings.Builder
	for {
		c, err := p.next()
		if err != nil {
			if b.Len() > 0 {
				return b.String(), false, nil
			}
			return "", false, err
		}
		isBlank := c == ' ' || c == '\t' || c == '\n' || c == '\r'
		switch {
		case b.Len() == 0 && isBlank:
		case b.Len() == 0 && c == '#':
			if _, err := p.from.ReadString('\n'); err != nil {
				return "", false, err
			}
			p.line++
		case b.Len() == 0 && (c == '"' || c == '\''):
			text, err := p.quoted(c)
			return text, true, err
		case b.Len() == 0 && (c == ';' || c == '{' || c == '}'):
			return string(c), false, nil
		case isBlank:
			return b.String(), false, nil
		case c == ';' || c == '{' && !strings.HasSuffix(b.String(), "$") || c == '}' && !strings.Contains(b.String(), "${"):
			_ = p.from.UnreadByte() // it was read just now
			return b.String(), false, nil
		case c == '\\':
			escaped, err := p.next()
			if err != nil {
				return "", false, errEnd
			}
			b.WriteByte(c)
			b.WriteByte(escaped)
		default:
			b.WriteByte(c)
		}
	}
}

func (p *nginxParser) next() (byte, error) {
	c, err := p.from.ReadByte()
	if c == '\n' {
		p.line++
	}
	return c, err
}

func (p *nginxParser) quoted(quote byte) (string, error) {
	var b strings.Builder
	for {
		c, err := p.next()
		switch {
		case err != nil:
			return "", errEnd
		case c == quote:
			return b.String(), nil
		case c == '\\':
			escaped, err := p.next()
			if err != nil {
				return "", errEnd
			}
			if escaped != quote && escaped != '\\' {
				b.WriteByte(c)
			}
			b.WriteByte(escaped)
		default:
			b.WriteByte(c)
		}
	}
}

// skipLua skips a block of Lua up to the brace that closes it.
func (p *nginxParser) skipLua() error {
	for open := 1; open > 0; {
		switch c, err := p.next(); {
		case err != nil:
			return errEnd
		case c == '{':
			open++
		case c == '}':
			open--
		}
	}
	return nil
}
