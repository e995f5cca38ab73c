package catalog_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

// TestNodeThatWasCutOffForLongerThanRetentionMissesNothing ends a block and a token, and deletes
// both, while a node cannot read the database.
func TestNodeThatWasCutOffForLongerThanRetentionMissesNothing(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		block := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", time.Time{}), blocks.Fail).Entry
		secret := identity.NewSecret([]identity.Access{identity.Check})
		token, err := f.Identities.AddToken(ctx, storetest.Operator, identity.Token{
			Name: "gateway", Scopes: []identity.Access{identity.Check}, Hash: secret.Hash[:], Hint: secret.Hint,
		})
		if err != nil {
			t.Fatal(err)
		}
		c := catalog.New(f, f.Clock.Now)
		if err := c.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Entries.End(ctx, storetest.Operator, blocks.Block, "", block.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Identities.RevokeToken(ctx, storetest.Operator, token.ID); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(24 * time.Hour)
		if n, err := f.Retention.DeleteEndedBefore(ctx, f.Clock.Now()); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := f.Retention.DeleteTokensBefore(ctx, f.Clock.Now()); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if err := c.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		if c.Blocks().Match(keytest.Key(t, "token:a"), f.Clock.Now()).Block != nil {
			t.Error("the block that was ended is active")
		}
		if found, is := c.TokenByHash(secret.Hash); is && found.ActiveAt(f.Clock.Now()) {
			t.Error("the token that was revoked is valid")
		}
	})
}
