package identities

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	userColumns = `
SELECT id, name, role, password_hash, created_at, last_login_at, disabled_at,
	coalesce((SELECT confirmed_at FROM totp WHERE totp.user_id = users.id), 0), revision, issuer, subject
FROM users `
	readUsers      = userColumns + `ORDER BY id`
	readUserByID   = userColumns + `WHERE id = $1`
	readUserByName = userColumns + `WHERE name = $1`
	readUserBySub  = userColumns + `WHERE issuer = $1 AND subject = $2 AND subject <> ''`

	addUser = `
INSERT INTO users (id, name, role, password_hash, created_at, revision, issuer, subject) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT DO NOTHING`
	updateUser = `UPDATE users SET role = $2, password_hash = $3, disabled_at = $4, revision = $5 WHERE id = $1`
	deleteUser = `DELETE FROM users WHERE id = $1`
	noteLogin  = `UPDATE users SET last_login_at = $2 WHERE id = $1 AND last_login_at < $2`

	endCredential = `INSERT INTO ended_credentials (id, revision) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`
)

func scanUser(r db.Row) (*identity.User, error) {
	u := &identity.User{}
	if err := r.Scan(&u.ID, &u.Name, &u.Role, &u.PasswordHash, db.MS(&u.Created), db.MS(&u.LastLogin), db.MS(&u.Disabled), db.MS(&u.TOTPSince), &u.Revision, &u.Issuer, &u.Subject); err != nil {
		return nil, err
	}
	return u, nil
}

// user reads the user that query finds. The error is NotFound if there is none; it names what
// and text.
func (t Tx) user(query, what, text string) (*identity.User, error) {
	none := fault.New(fault.NotFound, "There is no user with the %s %q.", what, text)
	if db.CheckText(what, text) != nil {
		return nil, none
	}
	return db.Find(t.Tx, none, scanUser, query, text)
}

// FindUserByName returns a user.
func (s *Store) FindUserByName(ctx context.Context, name string) (*identity.User, error) {
	return db.Read(ctx, s.db, func(t *db.Tx) (*identity.User, error) { return In(t).user(readUserByName, "name", name) })
}

// FindUserBySubject implements identities.OpenIDStore.
func (s *Store) FindUserBySubject(ctx context.Context, issuer, subject string) (u *identity.User, err error) {
	none := fault.New(fault.NotFound, "There is no user with this subject of the OpenID provider.")
	if db.CheckText("issuer", issuer) != nil || db.CheckText("subject", subject) != nil {
		return nil, none
	}
	return db.Read(ctx, s.db, func(t *db.Tx) (*identity.User, error) {
		return db.Find(t, none, scanUser, readUserBySub, issuer, subject)
	})
}

// FindUserByID implements identities.UserStore.
func (s *Store) FindUserByID(ctx context.Context, id string) (*identity.User, error) {
	return db.Read(ctx, s.db, func(t *db.Tx) (*identity.User, error) { return In(t).user(readUserByID, "id", id) })
}

// AddUser implements identities.UserStore. It fills in the id and the time of creation.
func (s *Store) AddUser(ctx context.Context, by audit.Actor, u identity.User) (made *identity.User, err error) {
	for field, text := range map[string]string{"issuer": u.Issuer, "subject": u.Subject} {
		if err := db.CheckText(field, text); err != nil {
			return nil, err
		}
	}
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		made = &identity.User{
			Name: u.Name, Role: u.Role, PasswordHash: u.PasswordHash, Created: t.Now, Revision: t.Revision,
			Issuer: u.Issuer, Subject: u.Subject,
		}
		if made.ID, err = db.NewID(); err != nil {
			return err
		}
		added, err := t.Exec(addUser, made.ID, made.Name, made.Role, made.PasswordHash, db.ToMS(made.Created), made.Revision, made.Issuer, made.Subject)
		if err != nil {
			return err
		}
		if added == 0 {
			e := fault.New(fault.Conflict, "There is already a user named %q.", u.Name)
			e.Field = "name"
			return e
		}
		return In(t).recordUser("add", fmt.Sprintf("Added the user %q.", made.Name), nil, made)
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// UpdateUser implements identities.UserStore.
func (s *Store) UpdateUser(ctx context.Context, by audit.Actor, id string, u identity.UserUpdate) (after *identity.User, err error) {
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		before, err := In(t).user(readUserByID, "id", id)
		if err != nil {
			return err
		}
		if u.PasswordHash != nil && before.Source() != identity.Local {
			return errNoPassword(before)
		}
		if u.Verified != "" && u.Verified != before.PasswordHash {
			return errRaced()
		}
		var changed []string
		after, changed = In(t).updated(before, u)
		if len(changed) == 0 {
			return db.ErrUnchanged
		}
		if _, err := t.Exec(updateUser, id, after.Role, after.PasswordHash, db.ToMS(after.Disabled), after.Revision); err != nil {
			return err
		}
		if err := In(t).endLogins(id); err != nil {
			return err
		}
		if u.RemoveTOTP {
			if err := In(t).removeTOTP(id); err != nil {
				return err
			}
		}
		summary := fmt.Sprintf("Changed the user %q: %s.", after.Name, strings.Join(changed, ", "))
		if err := In(t).recordUser("update", summary, before, after); err != nil {
			return err
		}
		return In(t).keepAdmin(isAdmin(before) && !isAdmin(after))
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}

// InviteUser implements identities.UserStore.
func (s *Store) InviteUser(ctx context.Context, by audit.Actor, id, within string) (u *identity.User, err error) {
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		if u, err = In(t).user(readUserByID, "id", id); err != nil {
			return err
		}
		switch {
		case u.Source() != identity.Local:
			return fault.New(fault.Conflict, "%q logs in with the OpenID provider and has no password here.", u.Name)
		case !u.Disabled.IsZero():
			return fault.New(fault.Conflict, "%q is disabled; enable the user first.", u.Name)
		}
		u.Revision = t.Revision
		if _, err := t.Exec(updateUser, id, u.Role, u.PasswordHash, db.ToMS(u.Disabled), u.Revision); err != nil {
			return err
		}
		return t.Record("user.invite", "user", id, fmt.Sprintf("Invited the user %q to set a password within %s.", u.Name, within), nil, nil)
	})
	return u, err
}

// isAdmin reports whether keepAdmin counts a user. Users of an OpenID provider do not count:
// the provider may be unreachable, and its groups decide their role.
func isAdmin(u *identity.User) bool {
	return u.Role == identity.Administrator && u.Disabled.IsZero() && u.Source() == identity.Local
}

func errNoPassword(u *identity.User) error {
	e := fault.New(fault.Conflict, "%q logs in with the OpenID provider and has no password here.", u.Name)
	e.Field = "password"
	return e
}

// updated returns before with the changes of u, and the names of the changed fields.
func (t Tx) updated(before *identity.User, u identity.UserUpdate) (*identity.User, []string) {
	after, changed := *before, []string(nil)
	if u.Role != nil && *u.Role != before.Role {
		after.Role = *u.Role
		changed = append(changed, "role "+string(after.Role))
	}
	if u.PasswordHash != nil && *u.PasswordHash != before.PasswordHash {
		after.PasswordHash = *u.PasswordHash
		changed = append(changed, "new password")
	}
	if u.RemoveTOTP && !before.TOTPSince.IsZero() {
		after.TOTPSince = time.Time{}
		changed = append(changed, "no two-factor authentication")
	}
	switch {
	case u.Disabled == nil || *u.Disabled == !before.Disabled.IsZero():
	case *u.Disabled:
		after.Disabled = t.Now
		changed = append(changed, "disabled")
	default:
		after.Disabled = time.Time{}
		changed = append(changed, "enabled")
	}
	if len(changed) > 0 {
		after.Revision = t.Revision
	}
	return &after, changed
}

// DeleteUser implements identities.UserStore. Restoring a backup does not bring the user back.
func (s *Store) DeleteUser(ctx context.Context, by audit.Actor, id string) error {
	return s.db.Change(ctx, by, func(t *db.Tx) error {
		before, err := In(t).user(readUserByID, "id", id)
		if err != nil {
			return err
		}
		if err := In(t).endLogins(id); err != nil {
			return err
		}
		for _, statement := range []string{deleteTOTP, deleteRecoveryCodes, deleteKnownLogins, deleteUser} {
			if _, err := t.Exec(statement, id); err != nil {
				return err
			}
		}
		if _, err := t.Exec(endCredential, id, t.Revision); err != nil {
			return err
		}
		if err := In(t).recordUser("delete", fmt.Sprintf("Deleted the user %q.", before.Name), before, nil); err != nil {
			return err
		}
		return In(t).keepAdmin(isAdmin(before))
	})
}

func (t Tx) recordUser(action, summary string, before, after *identity.User) error {
	type view struct {
		ID       string        `json:"id"`
		Name     string        `json:"name"`
		Role     identity.Role `json:"role"`
		Created  time.Time     `json:"created_at"`
		Disabled time.Time     `json:"disabled_at,omitzero"`
		Issuer   string        `json:"issuer,omitzero"`
		Subject  string        `json:"subject,omitzero"`
		TOTP     time.Time     `json:"totp_since,omitzero"`
	}
	id := ""
	viewOf := func(u *identity.User) any {
		if u == nil {
			return nil
		}
		id = u.ID
		return view{u.ID, u.Name, u.Role, u.Created, u.Disabled, u.Issuer, u.Subject, u.TOTPSince}
	}
	beforeView, afterView := viewOf(before), viewOf(after)
	return t.Record("user."+action, "user", id, summary, beforeView, afterView)
}
