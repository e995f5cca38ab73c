package accesslog

import (
	"bytes"
	"errors"
	"slices"
	"strings"
)

// linesLookedAt is the number of lines in which detect looks for a format.
const linesLookedAt = 20

var errFormat = errors.New("the first lines are neither Common or Combined Log Format, nor JSON objects, nor W3C Extended Log Format, nor as HAProxy, AWS load balancers, Envoy, Werkzeug or uWSGI write, nor CSV below a line of column names with a time and a client; name the format and the columns if they are, or describe the lines with --log-format")

// detect returns the format of the first line that has one, so that a truncated line at
// the top does not matter.
func detect(head [][]byte, o Options) (Format, error) {
	seen := 0
	for _, line := range head {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if line[0] == '{' {
			return JSON, nil
		}
		if _, err := cutCLF(line); err == nil {
			return CLF, nil
		}
		if bytes.HasPrefix(line, fieldsDirective) {
			return W3C, nil
		}
		if isDirective(line) {
			continue
		}
		if d := describedAs(Auto, line); d != nil {
			return d.format, nil
		}
		if seen == 0 && isHeader(line, o) {
			return CSV, nil
		}
		if seen++; seen == linesLookedAt {
			break
		}
	}
	if seen == 0 { // nothing but blank lines: any format reads it
		return CLF, nil
	}
	return "", errFormat
}

func isHeader(line []byte, o Options) bool {
	names, err := splitHeader(line, delimiterOf(line))
	if err != nil {
		return false
	}
	hasTime, hasKey := column(names, o.Time, timeNames) >= 0, column(names, o.Key, addressNames) >= 0
	// One column is enough where the other is named: the error says which there are.
	return hasTime && (hasKey || o.Key != "") || hasKey && o.Time != ""
}

// column returns the index of the column called name, or where that is "" of
// the first well-known one; -1 where there is none.
func column(names []string, name string, wellKnown []string) int {
	if name != "" {
		wellKnown = []string{name}
	}
	for _, known := range wellKnown {
		at := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(strings.TrimSpace(n), known) })
		if at >= 0 {
			return at
		}
	}
	return -1
}

// delimiterOf returns the one of comma, semicolon and tab that a header uses.
func delimiterOf(header []byte) rune {
	best, most := ',', 0
	for _, d := range []byte{',', ';', '\t'} {
		if n := bytes.Count(header, []byte{d}); n > most {
			best, most = rune(d), n
		}
	}
	return best
}
