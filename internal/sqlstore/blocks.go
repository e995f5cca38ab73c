package sqlstore

import (
	"context"
	"iter"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
)

var _ blocks.Store = (*Store)(nil)

func itemOfBlock(b blocks.Block) item {
	return item{
		Pattern: b.Pattern, Reason: b.Reason, Author: b.Author, Source: string(b.Source),
		Policy: b.Policy, Step: b.Level, Expires: fromMS(toMS(b.Expires)),
	}
}

func blockOf(i *item) *blocks.Block {
	if i == nil {
		return nil
	}
	return &blocks.Block{
		ID: i.ID, Pattern: i.Pattern, Reason: i.Reason, Author: i.Author, Source: blocks.Source(i.Source),
		Policy: i.Policy, Level: i.Step, Created: i.Created, Expires: i.Expires,
		Lifted: i.Ended, LiftedBy: i.EndedBy, Revision: i.Revision,
	}
}

func mapPage[T any](page blocks.Page[*item], to func(*item) T) blocks.Page[T] {
	mapped := blocks.Page[T]{Items: make([]T, len(page.Items)), Next: page.Next, Total: page.Total}
	for n, i := range page.Items {
		mapped.Items[n] = to(i)
	}
	return mapped
}

func mapSeq[T any](all iter.Seq2[*item, error], to func(*item) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for i, err := range all {
			if !yield(to(i), err) {
				return
			}
		}
	}
}

func (s *Store) addItem(ctx context.Context, by audit.Actor, to *shelf, i item, on blocks.Conflict) (added blocks.Added[*item], err error) {
	err = s.change(ctx, by, func(t *tx) error {
		added, err = t.addItem(to, i, on)
		return err
	})
	if err != nil {
		return blocks.Added[*item]{}, err
	}
	return added, nil
}

func (s *Store) findItem(ctx context.Context, from *shelf, id string) (i *item, err error) {
	err = s.view(ctx, func(t *tx) error {
		i, err = t.findItem(from, id)
		return err
	})
	return i, err
}

// changeItem runs a change that leaves one item behind.
func (s *Store) changeItem(ctx context.Context, by audit.Actor, do func(t *tx) (*item, error)) (i *item, err error) {
	err = s.change(ctx, by, func(t *tx) error {
		i, err = do(t)
		return err
	})
	if err != nil {
		return nil, err
	}
	return i, nil
}

// AddBlock implements blocks.Store.
func (s *Store) AddBlock(ctx context.Context, by audit.Actor, b blocks.Block, on blocks.Conflict) (blocks.Added[*blocks.Block], error) {
	if b.Source == "" {
		b.Source = blocks.Manual
	}
	added, err := s.addItem(ctx, by, blockShelf, itemOfBlock(b), on)
	return blocks.Added[*blocks.Block]{Item: blockOf(added.Item), Outcome: added.Outcome, Before: blockOf(added.Before)}, err
}

// FindBlockByID implements blocks.Store.
func (s *Store) FindBlockByID(ctx context.Context, id string) (*blocks.Block, error) {
	i, err := s.findItem(ctx, blockShelf, id)
	return blockOf(i), err
}

// FindBlocks implements blocks.Store.
func (s *Store) FindBlocks(ctx context.Context, f blocks.Filter) (blocks.Page[*blocks.Block], error) {
	page, err := s.findItems(ctx, blockShelf, f)
	return mapPage(page, blockOf), err
}

// EachBlock implements blocks.Store.
func (s *Store) EachBlock(ctx context.Context, f blocks.Filter) iter.Seq2[*blocks.Block, error] {
	return mapSeq(s.eachItem(ctx, blockShelf, f), blockOf)
}

// UpdateBlock implements blocks.Store.
func (s *Store) UpdateBlock(ctx context.Context, by audit.Actor, id string, u blocks.Update) (*blocks.Block, error) {
	i, err := s.changeItem(ctx, by, func(t *tx) (*item, error) { return t.updateItem(blockShelf, id, u) })
	return blockOf(i), err
}

// LiftBlock implements blocks.Store.
func (s *Store) LiftBlock(ctx context.Context, by audit.Actor, id, reason string) (*blocks.Block, error) {
	i, err := s.changeItem(ctx, by, func(t *tx) (*item, error) { return t.endItem(blockShelf, id, reason) })
	return blockOf(i), err
}
