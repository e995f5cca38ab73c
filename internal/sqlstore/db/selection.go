package db

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Selection builds the WHERE clause of a list.
type Selection struct {
	clauses []string
	Args    []any
}

// And adds a clause. Each ? in it represents the next of args.
func (q *Selection) And(clause string, args ...any) {
	var b strings.Builder
	for _, c := range clause {
		if c != '?' {
			b.WriteRune(c)
			continue
		}
		q.Args = append(q.Args, args[0])
		args = args[1:]
		b.WriteString("$" + strconv.Itoa(len(q.Args)))
	}
	q.clauses = append(q.clauses, b.String())
}

func (q *Selection) String() string {
	if len(q.clauses) == 0 {
		return "1 = 1"
	}
	return strings.Join(q.clauses, " AND ")
}

// LikeContaining returns the LIKE pattern for texts that contain text. It ignores the case of
// ASCII letters; for other letters the two databases differ.
func LikeContaining(text string) string {
	return LikeExactly(Fold(text))
}

// LikeExactly returns the LIKE pattern for texts that contain text in the same case.
func LikeExactly(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
}

// Fold returns a text with its ASCII letters in lower case.
func Fold(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// Fill numbers each ? of a clause and adds its argument.
func (q *Selection) Fill(clause string, args ...any) string {
	kept := q.clauses
	q.clauses = nil
	q.And(clause, args...)
	clause = q.clauses[0]
	q.clauses = kept
	return clause
}

// AfterPrefix returns the first text, in byte order, after all texts that begin with prefix.
func AfterPrefix(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case last == utf8.MaxRune:
			continue // it has no successor: increment the rune before
		case last == 0xD7FF: // skip the surrogates
			last = 0xDFFF
		}
		return prefix + string(last+1)
	}
	return string(utf8.MaxRune)
}
