package sqlstore

import (
	"context"
	"iter"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
)

func itemOfExemption(e blocks.Exemption) item {
	return item{Pattern: e.Pattern, Reason: e.Reason, Author: e.Author, Expires: fromMS(toMS(e.Expires))}
}

func exemptionOf(i *item) *blocks.Exemption {
	if i == nil {
		return nil
	}
	return &blocks.Exemption{
		ID: i.ID, Pattern: i.Pattern, Reason: i.Reason, Author: i.Author, Created: i.Created, Expires: i.Expires,
		Removed: i.Ended, RemovedBy: i.EndedBy, Revision: i.Revision,
	}
}

// AddExemption implements blocks.Store.
func (s *Store) AddExemption(ctx context.Context, by audit.Actor, e blocks.Exemption, on blocks.Conflict) (blocks.Added[*blocks.Exemption], error) {
	added, err := s.addItem(ctx, by, exemptionShelf, itemOfExemption(e), on)
	return blocks.Added[*blocks.Exemption]{Item: exemptionOf(added.Item), Outcome: added.Outcome, Before: exemptionOf(added.Before)}, err
}

// FindExemptionByID implements blocks.Store.
func (s *Store) FindExemptionByID(ctx context.Context, id string) (*blocks.Exemption, error) {
	i, err := s.findItem(ctx, exemptionShelf, id)
	return exemptionOf(i), err
}

// FindExemptions implements blocks.Store.
func (s *Store) FindExemptions(ctx context.Context, f blocks.Filter) (blocks.Page[*blocks.Exemption], error) {
	page, err := s.findItems(ctx, exemptionShelf, f)
	return mapPage(page, exemptionOf), err
}

// EachExemption implements blocks.Store.
func (s *Store) EachExemption(ctx context.Context, f blocks.Filter) iter.Seq2[*blocks.Exemption, error] {
	return mapSeq(s.eachItem(ctx, exemptionShelf, f), exemptionOf)
}

// UpdateExemption implements blocks.Store.
func (s *Store) UpdateExemption(ctx context.Context, by audit.Actor, id string, u blocks.Update) (*blocks.Exemption, error) {
	i, err := s.changeItem(ctx, by, func(t *tx) (*item, error) { return t.updateItem(exemptionShelf, id, u) })
	return exemptionOf(i), err
}

// RemoveExemption implements blocks.Store.
func (s *Store) RemoveExemption(ctx context.Context, by audit.Actor, id, reason string) (*blocks.Exemption, error) {
	i, err := s.changeItem(ctx, by, func(t *tx) (*item, error) { return t.endItem(exemptionShelf, id, reason) })
	return exemptionOf(i), err
}
