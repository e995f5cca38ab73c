package v1

import (
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
)

// FromToken returns a token as the API shows it at an instant.
func FromToken(t *identity.Token, now time.Time) Token {
	return Token{
		ID: t.ID, Name: t.Name, Hint: t.Hint, Scopes: FromAccess(t.Scopes), Author: t.Author, Active: t.ActiveAt(now),
		CreatedAt: At(t.Created), ExpiresAt: At(t.Expires), LastUsedAt: At(t.LastUsed), RevokedAt: At(t.Revoked),
	}
}

// FromAccess returns accesses as the API spells them.
func FromAccess(all []identity.Access) []string {
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = string(a)
	}
	return texts
}

// FromUser returns a user as the API shows it.
func FromUser(u *identity.User) User {
	return User{
		ID: u.ID, Name: u.Name, Role: string(u.Role), Disabled: !u.Disabled.IsZero(),
		CreatedAt: At(u.Created), LastLoginAt: At(u.LastLogin), DisabledAt: At(u.Disabled),
	}
}

// FromEntry returns an audit entry as the API shows it.
func FromEntry(e *audit.Record) AuditEntry {
	return AuditEntry{
		ID: e.ID, At: At(e.At), Action: e.Action, Object: e.Object, ObjectID: e.ObjectID, Summary: e.Summary,
		Actor: Actor{
			Kind: string(e.Actor.Kind), ID: NullString(e.Actor.ID), Name: e.Actor.Name, Address: NullString(e.Actor.Address),
		},
		Before: e.Before, After: e.After, Revision: e.Revision,
	}
}

// FromVerification returns v as the API shows it.
func FromVerification(v audit.Verification) AuditVerification {
	out := AuditVerification{
		Intact: v.Intact, Problem: NullString(v.Problem), Records: v.Records, Uncovered: v.Uncovered, Pending: v.Pending,
		FirstAt: At(v.First), Kept: NullString(v.Kept),
	}
	if v.ProblemID != 0 {
		out.ProblemID = &v.ProblemID
	}
	if v.Anchor.Hash != (audit.Hash{}) {
		out.RemovedThrough = &v.Anchor.ID
	}
	if v.Head.Hash != (audit.Hash{}) {
		out.Head = NullString(v.Head.String())
	}
	return out
}
