package catalog_test

import (
	"context"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/catalog"
)

// unseeded is a database with tables but without content.
type unseeded struct{}

func (unseeded) EachChange(context.Context, catalog.Position, func(catalog.Changes) error) error {
	return nil
}

func TestCatalogDoesNotLoadAnUnseededDatabase(t *testing.T) {
	c := catalog.New(unseeded{}, time.Now)
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.Loaded() {
		t.Error("Loaded is true without policies")
	}
}
