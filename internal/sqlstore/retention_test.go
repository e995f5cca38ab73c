package sqlstore_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/identity"
)

func TestRetention_forgets_what_ended_long_ago_and_nothing_else(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		add(t, f, block(t, "token:good", time.Time{}), blocks.Fail)
		add(t, f, block(t, "token:expires", f.clock.Now().Add(time.Hour)), blocks.Fail)
		lifted := add(t, f, block(t, "token:lifted", time.Time{}), blocks.Fail).Entry
		if _, err := f.Entries().End(ctx, operator, blocks.Block, "", lifted.ID); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(2 * time.Hour)
		late := add(t, f, block(t, "token:late", time.Time{}), blocks.Fail).Entry
		if _, err := f.Entries().End(ctx, operator, blocks.Block, "", late.ID); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{1, 0} { // a second run finds nothing
			ended, err := f.EndExpired(ctx, f.clock.Now())
			if err != nil || ended != want {
				t.Fatalf("%d were ended, %v; want %d", ended, err, want)
			}
		}
		for _, want := range []int{2, 0} {
			deleted, err := f.DeleteEndedBefore(ctx, f.clock.Now().Add(-30*time.Minute))
			if err != nil || deleted != want {
				t.Fatalf("%d were deleted, %v; want %d", deleted, err, want)
			}
		}
		page, err := f.Entries().Find(ctx, blocks.Filter{Kind: blocks.Block, State: "all", At: f.clock.Now()})
		if err != nil || spellings(page.Items) != "token:good token:late" {
			t.Fatalf("left are %q, %v", spellings(page.Items), err)
		}
	})
}

func TestRetention_forgets_tokens_that_ended_long_ago(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		mint := func(name string, expires time.Time) string {
			secret := identity.NewSecret([]identity.Access{identity.Read})
			made, err := f.AddToken(ctx, operator, identity.Token{
				Name: name, Scopes: []identity.Access{identity.Read}, Expires: expires, Hash: secret.Hash[:], Hint: secret.Hint,
			})
			if err != nil {
				t.Fatal(err)
			}
			return made.ID
		}
		mint("stays", time.Time{})
		mint("expired", f.clock.Now().Add(time.Minute))
		revoked := mint("revoked", time.Time{})
		if _, err := f.RevokeToken(ctx, operator, revoked); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(time.Hour)
		late := mint("late", time.Time{})
		if _, err := f.RevokeToken(ctx, operator, late); err != nil {
			t.Fatal(err)
		}
		deleted, err := f.DeleteTokensBefore(ctx, f.clock.Now().Add(-time.Minute))
		if err != nil || deleted != 2 {
			t.Fatalf("%d were deleted, %v; want 2", deleted, err)
		}
		left, err := f.Tokens(ctx)
		if err != nil || len(left) != 2 {
			t.Fatalf("left are %v, %v", left, err)
		}
	})
}
