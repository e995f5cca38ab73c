package main

import (
	"bytes"
	"fmt"
	"strings"
)

// table is a table of a Markdown document, between two comments that name it.
type table struct {
	name string
	rows [][]string // the head first
}

// String returns it as Markdown.
func (t table) String() string {
	var text strings.Builder
	for i, row := range t.rows {
		fmt.Fprintf(&text, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			text.WriteString("|---" + strings.Repeat("|---:", len(row)-1) + "|\n")
		}
	}
	return text.String()
}

func (t table) begin() string { return "<!-- " + t.name + ": made by a command, see below -->\n" }
func (t table) end() string   { return "<!-- end of " + t.name + " -->" }

// replaceIn returns document with t in place of what is there.
func (t table) replaceIn(document []byte) ([]byte, error) {
	before, rest, found := bytes.Cut(document, []byte(t.begin()))
	_, after, ended := bytes.Cut(rest, []byte(t.end()))
	if !found || !ended {
		return nil, fmt.Errorf("there is no place for the table %s, which would be between %q and %q", t.name, t.begin(), t.end())
	}
	return bytes.Join([][]byte{before, []byte(t.begin()), []byte(t.String()), []byte(t.end()), after}, nil), nil
}
