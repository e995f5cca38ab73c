package sqlstore

import (
	"context"

	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/sqlstore/entries"
	"github.com/stint-dev/stint/internal/sqlstore/identities"
	"github.com/stint-dev/stint/internal/sqlstore/policies"
	sqlprofiles "github.com/stint-dev/stint/internal/sqlstore/profiles"
)

var _ catalog.Source = (*Store)(nil)

// whatChanged counts the changes of every kind in one query, since nearly every change concerns
// one of these tables.
const whatChanged = `
	(SELECT count(*) FROM settings WHERE revision > $1),
	(SELECT count(*) FROM policies WHERE revision > $1),
	(SELECT count(*) FROM tokens WHERE revision > $1),
	(SELECT count(*) FROM users WHERE revision > $1) + (SELECT count(*) FROM ended_credentials WHERE revision > $1),
	(SELECT count(*) FROM known_logins WHERE revision > $1),
	(SELECT count(*) FROM entries WHERE revision > $1),
	(SELECT count(*) FROM profiles WHERE revision > $1),
	(SELECT count(*) FROM channels_changed WHERE revision > $1)
FROM revision WHERE id = 1`

// touched is the number of changed rows of each kind.
type touched struct{ settings, policies, tokens, users, knownLogins, entries, profiles, channels int64 }

// EachChange implements catalog.Source. It reads everything in one transaction, so that apply
// gets the database as it was at Changes.Revision.
func (s *Store) EachChange(ctx context.Context, position catalog.Position, apply func(catalog.Changes) error) error {
	if err := db.CheckHeld(s.DB); err != nil {
		return err // reading still works, but the node must report that its changes would be lost
	}
	since := position.Revision
	return s.View(ctx, func(t *db.Tx) error {
		if since == 0 {
			if err := t.AllowLong(); err != nil {
				return err
			}
		}
		ch, what, err := readTouched(t, since)
		if err != nil {
			return err
		}
		if ch.Revision < since || since > 0 && position.Server != 0 && ch.Server != position.Server {
			return catalog.ErrOtherHistory
		}
		if ch.Revision == since {
			return nil
		}
		if what.settings > 0 {
			if ch.Settings, err = settings(t); err != nil {
				return err
			}
		}
		if ch.PoliciesChanged = what.policies > 0; ch.PoliciesChanged {
			all, err := policies.In(t).Policies()
			if err != nil {
				return err
			}
			ch.Policies = policies.PlainPolicies(all)
		}
		if what.tokens > 0 {
			if ch.Tokens, err = identities.In(t).TokensSince(since); err != nil {
				return err
			}
		}
		ch.UsersChanged, ch.ChannelsChanged = what.users > 0, what.channels > 0
		// Addresses are forgotten together with a change of their user.
		if ch.KnownLoginsChanged = what.knownLogins > 0 || ch.UsersChanged; ch.KnownLoginsChanged {
			if ch.KnownLogins, err = identities.In(t).KnownLogins(); err != nil {
				return err
			}
		}
		ch.Entries = entries.In(t).Changes(since, what.entries)
		ch.Profiles = sqlprofiles.In(t).Changes(since, what.profiles)
		return apply(ch)
	})
}

// readTouched reads the revision and counts what changed since a revision; 0 means everything.
func readTouched(t *db.Tx, since int64) (ch catalog.Changes, what touched, err error) {
	if since == 0 {
		_, err = t.One("SELECT value, "+db.Server(t)+" FROM revision WHERE id = 1", nil, &ch.Revision, &ch.Server)
		return ch, touched{1, 1, 1, 1, 1, 1, 1, 1}, err
	}
	_, err = t.One("SELECT value, "+db.Server(t)+","+whatChanged, []any{since}, &ch.Revision, &ch.Server, &what.settings, &what.policies, &what.tokens, &what.users, &what.knownLogins, &what.entries, &what.profiles, &what.channels)
	return ch, what, err
}
