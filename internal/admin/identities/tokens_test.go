package identities_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
)

func (f *fixture) tokens() *identities.Tokens {
	return &identities.Tokens{Store: f.store.Identities, Now: func() time.Time { return f.now }}
}

func TestTokenFaultsNameTheField(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		tokens := f.tokens()
		valid := identities.CreateToken{Name: "ci", Scopes: []string{"check"}}
		if _, err := tokens.Create(t.Context(), ann, valid); err != nil {
			t.Fatal(err)
		}
		for field, change := range map[string]func(r *identities.CreateToken){
			"name":       func(r *identities.CreateToken) { r.Name = "" },
			"scopes":     func(r *identities.CreateToken) { r.Scopes = nil },
			"scopes[0]":  func(r *identities.CreateToken) { r.Scopes = []string{"root"} },
			"scopes[1]":  func(r *identities.CreateToken) { r.Scopes = []string{"read", "read"} },
			"expires_at": func(r *identities.CreateToken) { r.Expiry = blocks.Expiry{Until: f.now} },
			"expires_in": func(r *identities.CreateToken) { r.Expiry = blocks.Expiry{For: -time.Hour} },
		} {
			r := identities.CreateToken{Name: "other", Scopes: []string{"check"}}
			change(&r)
			if _, err := tokens.Create(t.Context(), ann, r); !isField(err, field) {
				t.Errorf("got %v, want the field %s", err, field)
			}
		}
		for _, name := range []string{" ci", "ci ", "c\ni", strings.Repeat("c", 65)} {
			if _, err := tokens.Create(t.Context(), ann, identities.CreateToken{Name: name, Scopes: []string{"check"}}); !isField(err, "name") {
				t.Errorf("Create with the name %q: got %v, want the field name", name, err)
			}
		}
		if _, err := tokens.Create(t.Context(), ann, valid); !fault.Is(err, fault.Conflict) || !isField(err, "name") {
			t.Errorf("Create with a name in use: got %v, want Conflict of the field name", err)
		}
		if all, err := tokens.Find(t.Context(), identity.TokenFilter{}); err != nil || len(all.Items) != 1 {
			t.Errorf("List: got %d tokens, %v; want 1", len(all.Items), err)
		}
	})
}

func TestRotationReturnsTheNewSecretAndEndsTheOldTokenAfterTheOverlap(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		tokens := f.tokens()
		root, err := tokens.Create(t.Context(), ann, identities.CreateToken{Name: "root", Scopes: []string{"admin"}})
		if err != nil {
			t.Fatal(err)
		}
		old, err := tokens.Create(t.Context(), ann, identities.CreateToken{Name: "ci", Scopes: []string{"check", "read"}, Expiry: blocks.Expiry{For: 48 * time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		made, err := tokens.Rotate(t.Context(), ann, old.ID, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		hash := identity.HashSecret(made.Secret)
		if made.Name != "ci-2" || string(made.Hash) != string(hash[:]) || made.Secret == old.Secret || !made.Expires.Equal(f.now.Add(48*time.Hour)) {
			t.Errorf("made %+v with %q", made.Token, made.Secret)
		}
		if made.Replaces == nil || made.Replaces.ID != old.ID || !made.Replaces.Expires.Equal(f.now.Add(time.Hour)) {
			t.Errorf("replaces %+v", made.Replaces)
		}
		if _, err := tokens.Revoke(t.Context(), ann, made.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := tokens.Rotate(t.Context(), ann, made.ID, 0); !fault.Is(err, fault.Conflict) {
			t.Errorf("Rotate of a revoked token: got %v, want Conflict", err)
		}
		if _, err := tokens.Revoke(t.Context(), ann, root.ID); !fault.Is(err, fault.Conflict) {
			t.Errorf("Revoke of the last admin token: got %v, want Conflict", err)
		}
		actions := []string{}
		for _, r := range f.records(t) {
			actions = append(actions, r.Action)
		}
		if got := strings.Join(actions, " "); got != "token.revoke token.update token.add token.add token.add" {
			t.Errorf("recorded %s", got)
		}
	})
}

func TestTokenUpdateFaultsNameTheField(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		tokens := f.tokens()
		made, err := tokens.Create(t.Context(), ann, identities.CreateToken{Name: "ci", Scopes: []string{"check"}, Expiry: blocks.Expiry{For: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tokens.Update(t.Context(), ann, made.ID, identities.UpdateToken{}); !fault.Is(err, fault.Invalid) {
			t.Errorf("Update without changes: got %v, want Invalid", err)
		}
		name := ""
		if _, err := tokens.Update(t.Context(), ann, made.ID, identities.UpdateToken{Name: &name}); !isField(err, "name") {
			t.Errorf("Update with an empty name: got %v, want the field name", err)
		}
		name = "deploy"
		changed, err := tokens.Update(t.Context(), ann, made.ID, identities.UpdateToken{Name: &name, Expiry: &blocks.Expiry{}})
		if err != nil || changed.Name != name || !changed.Expires.IsZero() {
			t.Errorf("changed to %+v, %v", changed, err)
		}
	})
}
