package blocklist

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"iter"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/rowfile"
)

func readPlain(from io.Reader, d Defaults) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		r := rowfile.NewReader(from)
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 4096), rowfile.MaxRow/2)
		line := 0
		for lines.Scan() {
			line++
			r.NextRow()
			f, any, err := plainFields(line, strings.TrimSpace(lines.Text()))
			if !any {
				continue
			}
			var rows []Row
			if err == nil {
				rows, err = d.rows(line, f)
			}
			if !yieldRows(rows, err, yield) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			if errors.Is(err, bufio.ErrTooLong) {
				err = rowfile.ErrRowTooLong
			}
			yield(Row{}, rowfile.Unreadable(line+1, err))
		}
	}
}

// plainFields reads one line: a pattern and perhaps a comment, which becomes the reason. A
// pattern in double quotes is a JSON text that is meant as written, for patterns of kinds that
// are not in use and for those that contain # or ;. any is false if the line has no pattern.
func plainFields(line int, text string) (f fields, any bool, err error) {
	if text == "" || text[0] == '#' || text[0] == ';' {
		return f, false, nil
	}
	if text[0] == '"' {
		return quotedFields(line, text)
	}
	for i := 1; i < len(text); i++ {
		if (text[i] == '#' || text[i] == ';') && (text[i-1] == ' ' || text[i-1] == '\t') {
			text, f.reason = strings.TrimSpace(text[:i]), strings.TrimSpace(text[i+1:])
			break
		}
	}
	words := strings.Fields(text)
	if len(words) == 1 && !isApacheSection(words) {
		f.pattern = text
		return f, true, nil
	}
	for _, form := range lineForms {
		read, problem, is := form.read(words)
		if problem != "" {
			return f, true, &rowfile.RowError{Line: line, Problem: problem}
		}
		if is {
			read.reason = cmp.Or(f.reason, read.reason)
			return read, read.pattern != "", nil
		}
	}
	f.pattern = text
	return f, true, nil
}

func quotedFields(line int, text string) (f fields, any bool, err error) {
	end := len(text)
	for i := 1; i < len(text); i++ {
		if text[i] == '\\' {
			i++
		} else if text[i] == '"' {
			end = i + 1
			break
		}
	}
	rest := strings.TrimSpace(text[end:])
	if err := json.Unmarshal([]byte(text[:end]), &f.pattern); err != nil || rest != "" && rest[0] != '#' && rest[0] != ';' {
		return f, true, &rowfile.RowError{Line: line, Problem: `it begins with a quote and is not a JSON string; write for example "token:a # b"`}
	}
	f.reason, f.literal = strings.TrimSpace(strings.TrimLeft(rest, "#;")), "true"
	return f, true, nil
}
