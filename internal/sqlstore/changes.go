package sqlstore

import (
	"context"
	"iter"

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
	(SELECT count(*) FROM blocks WHERE revision > $1),
	(SELECT count(*) FROM exemptions WHERE revision > $1)
FROM revision WHERE id = 1`

// touched says how many rows of each kind have changed.
type touched struct{ settings, policies, tokens, users, knownLogins, blocks, exemptions int64 }

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
		ch.Blocks = mapSeq(t.itemChanges(blockShelf, since, what.blocks), blockOf)
		ch.Exemptions = mapSeq(t.itemChanges(exemptionShelf, since, what.exemptions), exemptionOf)
		return apply(ch)
	})
}

// whatChanged reads the revision and what has changed since; since 0 is
// everything.
func (t *tx) whatChanged(since int64) (ch catalog.Changes, what touched, err error) {
	if since == 0 {
		_, err = t.one(readRevision, nil, &ch.Revision)
		return ch, touched{1, 1, 1, 1, 1, 1, 1}, err
	}
	_, err = t.one(whatChanged, []any{since}, &ch.Revision, &what.settings, &what.policies, &what.tokens, &what.users, &what.knownLogins, &what.blocks, &what.exemptions)
	return ch, what, err
}

// itemChanges ranges over all that is active for since 0, and else over all
// that changed, what ended included. It asks nothing where count says that
// nothing did.
func (t *tx) itemChanges(s *shelf, since, count int64) iter.Seq2[*item, error] {
	return func(yield func(*item, error) bool) {
		switch {
		case count == 0:
		case since > 0:
			gather(t.ctx, []part{{t, s.loadSince, []any{since}, false}}, yield)
		default:
			t.load(s, yield)
		}
	}
}
