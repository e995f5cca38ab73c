package db

import "context"

// WriteInParts runs a statement in d that changes at most limit rows, its last argument, until it
// changes fewer. Each time it does so in a transaction of its own, since other changes wait for a
// long one: on SQLite all of them, on Postgres those of the same rows. It returns the number of
// changed rows, also after an error.
func WriteInParts(ctx context.Context, d *DB, limit int, statement string, args ...any) (changed int, err error) {
	args = append(args[:len(args):len(args)], limit)
	for last := limit; last == limit; changed += last {
		last = 0 // a transaction may run twice, and fail
		err = d.Write(ctx, func(t *Tx) error {
			n, err := t.Exec(statement, args...)
			last = int(n)
			return err
		})
		if err != nil {
			return changed, err
		}
	}
	return changed, nil
}
