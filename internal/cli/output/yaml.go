package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/internal/escape"
)

// WriteJSON writes a JSON text unchanged, or as YAML.
func (p *Printer) WriteJSON(text []byte) error {
	if p.YAML {
		var err error
		if text, err = yamlOf(text); err != nil {
			return fmt.Errorf("printing YAML: %w", err)
		}
	} else {
		text = append(escapeJSON(text), '\n')
	}
	_, err := p.Out.Write(text)
	return err
}

// yamlOf converts a JSON text to YAML with the same order of fields. It escapes what escapeJSON
// escapes.
func yamlOf(text []byte) ([]byte, error) {
	root, err := yamlNode(jsontext.NewDecoder(bytes.NewReader(text)))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(root), e.Close()); err != nil {
		return nil, err
	}
	return escapeYAML(b.Bytes()), nil
}

// yamlNode reads one JSON value.
func yamlNode(d *jsontext.Decoder) (*yaml.Node, error) {
	token, err := d.ReadToken()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	switch token.Kind() {
	case '{', '[':
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if token.Kind() == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for d.PeekKind() != '}' && d.PeekKind() != ']' {
			part, err := yamlNode(d)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, part)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle
		}
		_, err := d.ReadToken()
		return n, err
	case '"':
		s := token.String()
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
		if strings.ContainsFunc(s, escape.IsHidden) {
			n.Style = yaml.DoubleQuotedStyle // the only one with escapes
		}
		return n, nil
	case 'n':
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	case 't', 'f':
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: token.String()}, nil
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: token.String()}, nil
	}
}

// escapeYAML escapes hidden characters in YAML text, where they occur only in strings in
// double quotes. Line feeds are kept.
func escapeYAML(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n' || !escape.IsHidden(r):
			out = append(out, text[:size]...)
		default:
			out = fmt.Appendf(out, `\U%08x`, r)
		}
		text = text[size:]
	}
	return out
}
