package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/test/keytest"
)

// slowSource pauses before each thousand of its entries.
type slowSource struct {
	testing.TB
	pause time.Duration
}

func (s slowSource) EachChange(ctx context.Context, _ catalog.Position, apply func(catalog.Changes) error) error {
	return apply(catalog.Changes{Position: catalog.Position{Revision: 1}, Entries: func(yield func(*blocks.Entry, error) bool) {
		for n := range 4096 {
			if n%1024 == 0 {
				select {
				case <-time.After(s.pause):
				case <-ctx.Done():
					yield(nil, context.Cause(ctx))
					return
				}
			}
			text := fmt.Sprintf("token:%d", n)
			if !yield(&blocks.Entry{ID: text, Kind: blocks.Block, Pattern: keytest.Pattern(s, text), Revision: 1}, nil) {
				return
			}
		}
	}})
}

// TestARefreshLastsAsLongAsTheSourceGoesOn reads for longer than MaxStall.
func TestARefreshLastsAsLongAsTheSourceGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for pause, want := range map[time.Duration]error{catalog.MaxStall / 2: nil, catalog.MaxStall * 2: context.DeadlineExceeded} {
			c := catalog.New(slowSource{t, pause}, time.Now)
			if err := c.Refresh(t.Context()); !errors.Is(err, want) || want == nil && c.Blocks().Size(blocks.Block) != 4096 {
				t.Errorf("with pauses of %v: %v, %d blocks", pause, err, c.Blocks().Size(blocks.Block))
			}
			if _, failing := c.Failing(); !errors.Is(failing, want) {
				t.Errorf("with pauses of %v it fails by %v", pause, failing)
			}
		}
	})
}
