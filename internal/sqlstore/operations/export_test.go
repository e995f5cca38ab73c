package operations

import "github.com/stint-dev/stint/internal/audit"

// QueryOfRecords returns the query that FindRecords makes of a filter.
func (s *Audit) QueryOfRecords(f audit.Filter) (query string, args []any, err error) {
	q, err := s.recordSelection(f)
	if err != nil {
		return "", nil, err
	}
	return newestRecords(q, f.Limit), q.Args, nil
}
