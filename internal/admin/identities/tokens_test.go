package identities_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

func (f *fixture) tokens() *identities.Tokens {
	return &identities.Tokens{Store: f.store.Identities, Now: func() time.Time { return f.now }}
}

func TestTokenFaultsNameTheField(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		tokens := f.tokens()
		valid := wire.TokenRequest{Name: "ci", Scopes: []string{"check"}}
		if _, err := tokens.Create(t.Context(), ann, valid); err != nil {
			t.Fatal(err)
		}
		for field, change := range map[string]func(r *wire.TokenRequest){
			"name":       func(r *wire.TokenRequest) { r.Name = "" },
			"scopes":     func(r *wire.TokenRequest) { r.Scopes = nil },
			"scopes[0]":  func(r *wire.TokenRequest) { r.Scopes = []string{"root"} },
			"scopes[1]":  func(r *wire.TokenRequest) { r.Scopes = []string{"read", "read"} },
			"expires_at": func(r *wire.TokenRequest) { r.ExpiresAt = wire.At(f.now) },
			"expires_in": func(r *wire.TokenRequest) { r.ExpiresIn = wire.Duration(-time.Hour) },
		} {
			r := wire.TokenRequest{Name: "other", Scopes: []string{"check"}}
			change(&r)
			if _, err := tokens.Create(t.Context(), ann, r); !isField(err, field) {
				t.Errorf("got %v, want the field %s", err, field)
			}
		}
		for _, name := range []string{" ci", "ci ", "c\ni", strings.Repeat("c", 65)} {
			if _, err := tokens.Create(t.Context(), ann, wire.TokenRequest{Name: name, Scopes: []string{"check"}}); !isField(err, "name") {
				t.Errorf("Create with the name %q: got %v, want the field name", name, err)
			}
		}
		if _, err := tokens.Create(t.Context(), ann, valid); !fault.Is(err, fault.Conflict) || !isField(err, "name") {
			t.Errorf("Create with a name in use: got %v, want Conflict of the field name", err)
		}
		if all, err := tokens.Find(t.Context(), ann, wire.TokenList{}); err != nil || len(all.Items) != 1 {
			t.Errorf("List: got %d tokens, %v; want 1", len(all.Items), err)
		}
	})
}

func TestRotationReturnsTheNewSecretAndEndsTheOldTokenAfterTheOverlap(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		tokens := f.tokens()
		root, err := tokens.Create(t.Context(), ann, wire.TokenRequest{Name: "root", Scopes: []string{"admin"}})
		if err != nil {
			t.Fatal(err)
		}
		old, err := tokens.Create(t.Context(), ann, wire.TokenRequest{Name: "ci", Scopes: []string{"check", "read"}, ExpiresIn: wire.Duration(48 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		made, err := tokens.Rotate(t.Context(), ann, wire.RotateRequest{ID: old.ID, Overlap: wire.To(wire.Duration(time.Hour))})
		if err != nil {
			t.Fatal(err)
		}
		stored, err := f.store.Identities.FindTokenByID(t.Context(), made.ID)
		if err != nil {
			t.Fatal(err)
		}
		hash := identity.HashSecret(made.Secret)
		if made.Name != "ci-2" || string(stored.Hash) != string(hash[:]) || made.Secret == old.Secret || !made.ExpiresAt.Equal(f.now.Add(48*time.Hour)) {
			t.Errorf("made %+v with %q", made.Token, made.Secret)
		}
		if made.Replaces == nil || made.Replaces.ID != old.ID || !made.Replaces.ExpiresAt.Equal(f.now.Add(time.Hour)) {
			t.Errorf("replaces %+v", made.Replaces)
		}
		if _, err := tokens.Revoke(t.Context(), ann, wire.ByID{ID: made.ID}); err != nil {
			t.Fatal(err)
		}
		if _, err := tokens.Rotate(t.Context(), ann, wire.RotateRequest{ID: made.ID, Overlap: wire.To(wire.Duration(0))}); !fault.Is(err, fault.Conflict) {
			t.Errorf("Rotate of a revoked token: got %v, want Conflict", err)
		}
		if _, err := tokens.Revoke(t.Context(), ann, wire.ByID{ID: root.ID}); !fault.Is(err, fault.Conflict) {
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
		made, err := tokens.Create(t.Context(), ann, wire.TokenRequest{Name: "ci", Scopes: []string{"check"}, ExpiresIn: wire.Duration(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tokens.Update(t.Context(), ann, wire.TokenPatch{ID: made.ID}); !fault.Is(err, fault.Invalid) {
			t.Errorf("Update without changes: got %v, want Invalid", err)
		}
		if _, err := tokens.Update(t.Context(), ann, wire.TokenPatch{ID: made.ID, Name: wire.To("")}); !isField(err, "name") {
			t.Errorf("Update with an empty name: got %v, want the field name", err)
		}
		changed, err := tokens.Update(t.Context(), ann, wire.TokenPatch{ID: made.ID, Name: wire.To("deploy"), ExpiresAt: wire.To(wire.Time{})})
		if err != nil || changed.Name != "deploy" || !changed.ExpiresAt.IsZero() {
			t.Errorf("changed to %+v, %v", changed, err)
		}
	})
}
