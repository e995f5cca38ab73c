package entries

import (
	"errors"
	"strings"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// Fast path. Plain version: EntryScanner, which reads a row column by column, as every other
// query does; TestAPackedRowIsReadLikeItsColumns compares the two. Benchmark:
// BenchmarkCatalogLoad, 0.85 of the time on SQLite and 0.8 on Postgres.
//
// The drivers make a value of Go's for each column of each row, the one of SQLite under its
// locks, so that one text with all columns is cheaper than the columns.

// packedFields is one text with the fields of an entry that has not ended, each with a space behind it: numbers, the lengths
// in bytes of the texts that may have spaces themselves, and texts. The kind, the source and the
// scope are single words. A length costs as much as a column, so the author, which is the last,
// has none.
const packedFields = `concat_ws(' ', policy_id, level, created_at, expires_at, revision, octet_length(id), octet_length(pattern), octet_length(reason),
	kind, id, pattern, reason, source, scope, author)`

// packedScanner reads rows of packedFields.
type packedScanner struct {
	EntryScanner
	row  string
	rest string // of the row
	bad  bool   // the row is not of that form
}

var errPacked = errors.New("a row of entries has lengths that are not those of its texts")

// Scan reads a row.
func (s *packedScanner) Scan(r db.Row) (*blocks.Entry, error) {
	if err := r.Scan(&s.row); err != nil {
		return nil, err
	}
	s.rest, s.bad = s.row, false
	e := &blocks.Entry{PolicyID: s.number()}
	s.level, s.created, s.expires, e.Revision = s.number(), s.number(), s.number(), s.number()
	id, pattern, reason := s.number(), s.number(), s.number()
	s.kind = s.word()
	// What an entry keeps must not keep the row, and these two are kept together.
	kept := strings.Clone(s.text(id + 1 + pattern))
	if s.bad || kept[id] != ' ' {
		return nil, errPacked
	}
	e.ID, s.pattern = kept[:id], kept[id+1:]
	e.Reason = cloneUnless(s.reason, s.text(reason))
	s.source, s.scope = s.word(), cloneUnless(s.known, s.word())
	e.Author = cloneUnless(s.author, s.rest)
	if s.bad {
		return nil, errPacked
	}
	return e, s.fill(e)
}

// number returns the next field of the row, a number of up to 19 digits.
func (s *packedScanner) number() (n int64) {
	for i := range min(len(s.rest), 20) {
		digit := int64(s.rest[i]) - '0'
		switch {
		case digit >= 0 && digit <= 9:
			n = 10*n + digit
			continue
		case digit == ' '-'0' && i > 0 && n >= 0: // below 0 after more than an int64 has
			s.rest = s.rest[i+1:]
			return n
		}
		break
	}
	s.bad = true
	return 0
}

// word returns the next field of the row, which has no space.
func (s *packedScanner) word() string {
	word, rest, found := strings.Cut(s.rest, " ")
	s.rest, s.bad = rest, s.bad || !found
	return word
}

// text returns the next field of the row, of so many bytes; "" where the row is bad.
func (s *packedScanner) text(length int64) string {
	if s.bad || length < 0 || length >= int64(len(s.rest)) || s.rest[length] != ' ' {
		s.bad = true
		return ""
	}
	text := s.rest[:length]
	s.rest = s.rest[length+1:]
	return text
}

// cloneUnless returns known where text is the same, and else a copy.
func cloneUnless(known, text string) string {
	if text == known {
		return known
	}
	return strings.Clone(text)
}
