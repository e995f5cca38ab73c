package api

import (
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// fromToken returns a token as the API shows it at an instant.
func fromToken(t *identity.Token, now time.Time) wire.Token {
	return wire.Token{
		ID: t.ID, Name: t.Name, Hint: t.Hint, Scopes: fromAccess(t.Scopes), Author: t.Author, Active: t.ActiveAt(now),
		CreatedAt: wire.At(t.Created), ExpiresAt: wire.At(t.Expires), LastUsedAt: wire.At(t.LastUsed), RevokedAt: wire.At(t.Revoked),
	}
}

// fromAccess returns accesses as the API spells them.
func fromAccess(all []identity.Access) []string {
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = string(a)
	}
	return texts
}

// fromUser returns a user as the API shows it.
func fromUser(u *identity.User) wire.User {
	return wire.User{
		ID: u.ID, Name: u.Name, Role: string(u.Role), Disabled: !u.Disabled.IsZero(),
		CreatedAt: wire.At(u.Created), LastLoginAt: wire.At(u.LastLogin), DisabledAt: wire.At(u.Disabled),
	}
}

// fromVerification returns v as the API shows it.
func fromVerification(v audit.Verification) wire.AuditVerification {
	out := wire.AuditVerification{
		Intact: v.Intact, Problem: wire.NullString(v.Problem), Records: v.Records, Uncovered: v.Uncovered, Pending: v.Pending,
		FirstAt: wire.At(v.First), Kept: wire.NullString(v.Kept),
	}
	if v.ProblemID != 0 {
		out.ProblemID = &v.ProblemID
	}
	if v.Anchor.Hash != (audit.Hash{}) {
		out.RemovedThrough = &v.Anchor.ID
	}
	if v.Head.Hash != (audit.Hash{}) {
		out.Head = wire.NullString(v.Head.String())
	}
	return out
}
