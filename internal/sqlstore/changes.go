package sqlstore

import (
	"context"
	"iter"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
)

var _ catalog.Source = (*Store)(nil)

// whatChanged asks at once what else would be a question each, since nearly
// every change touches one of these.
const whatChanged = `SELECT value,
	(SELECT count(*) FROM settings WHERE revision > $1),
	(SELECT count(*) FROM policies WHERE revision > $1),
	(SELECT count(*) FROM tokens WHERE revision > $1),
	(SELECT count(*) FROM users WHERE revision > $1) + (SELECT count(*) FROM ended_credentials WHERE revision > $1),
	(SELECT count(*) FROM known_logins WHERE revision > $1),
	(SELECT count(*) FROM entries WHERE revision > $1)
FROM revision WHERE id = 1`

// touched says how many rows of each kind have changed.
type touched struct{ settings, policies, tokens, users, knownLogins, entries int64 }

// EachChange implements catalog.Source. One transaction reads everything, so
// that what apply gets is the database as it was at Changes.Revision.
func (s *backend) EachChange(ctx context.Context, since int64, apply func(catalog.Changes) error) error {
	return s.view(ctx, func(t *tx) error {
		if since == 0 {
			if err := t.allowLong(); err != nil {
				return err
			}
		}
		ch, what, err := t.whatChanged(since)
		if err != nil || ch.Revision == since {
			return err
		}
		if what.settings > 0 {
			if ch.Settings, err = t.settings(); err != nil {
				return err
			}
		}
		if ch.PoliciesChanged = what.policies > 0; ch.PoliciesChanged {
			all, err := policiesIn(t).policies()
			if err != nil {
				return err
			}
			ch.Policies = plainPolicies(all)
		}
		if what.tokens > 0 {
			if ch.Tokens, err = identitiesIn(t).tokensSince(since); err != nil {
				return err
			}
		}
		ch.UsersChanged = what.users > 0
		if ch.KnownLoginsChanged = what.knownLogins > 0; ch.KnownLoginsChanged {
			if ch.KnownLogins, err = identitiesIn(t).knownLogins(); err != nil {
				return err
			}
		}
		ch.Entries = t.entryChanges(since, what.entries)
		return apply(ch)
	})
}

// whatChanged reads the revision and what has changed since; since 0 is
// everything.
func (t *tx) whatChanged(since int64) (ch catalog.Changes, what touched, err error) {
	if since == 0 {
		_, err = t.one(readRevision, nil, &ch.Revision)
		return ch, touched{1, 1, 1, 1, 1, 1}, err
	}
	_, err = t.one(whatChanged, []any{since}, &ch.Revision, &what.settings, &what.policies, &what.tokens, &what.users, &what.knownLogins, &what.entries)
	return ch, what, err
}

// entryChanges ranges over all active entries for since 0, and else over all
// that changed, ended ones included. It runs no query where count says that
// none did.
func (t *tx) entryChanges(since, count int64) iter.Seq2[*blocks.Entry, error] {
	return func(yield func(*blocks.Entry, error) bool) {
		switch {
		case count == 0:
		case since > 0:
			gather(t.ctx, []part{{t, loadSince, []any{since}, false}}, yield)
		default:
			t.loadActive(yield)
		}
	}
}
