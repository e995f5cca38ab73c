package adminui

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
)

// shelf is what the pages of blocks and of exemptions differ in: both are
// patterns that stand until they expire or are ended.
type shelf struct {
	Path  string // "/blocks"
	Head  string // "Blocks"
	Noun  string // "block", in a sentence
	Verb  string // "Block", on the button that adds one
	Past  string // "Blocked"
	End   string // "Lift"
	Ended string // "Lifted"
	About string // one sentence for the empty list
	// Blocks says that these refuse: with a source, and a warning before one
	// hits whoever adds it.
	Blocks bool

	find   func(context.Context, blocks.Filter) (blocks.Page[*item], error)
	each   func(context.Context, blocks.Filter) iter.Seq2[*item, error]
	byID   func(context.Context, string) (*item, error)
	add    func(context.Context, audit.Actor, item, blocks.Conflict) (*item, error)
	update func(context.Context, audit.Actor, string, blocks.Update) (*item, error)
	end    func(context.Context, audit.Actor, string) (*item, error)
}

// item is one block or exemption as its page shows it.
type item struct {
	ID       string
	Pattern  keys.Pattern
	Reason   string
	Author   string
	Source   blocks.Source // blocks only, as are the next two
	Policy   int64
	Step     int
	Created  time.Time
	Expires  time.Time
	EndedAt  time.Time // lifted or removed; zero: not
	EndedBy  string
	Revision int64

	// What the page adds.
	Active     bool
	PolicyName string
	Exempt     bool  // an exemption hides the whole of this block
	Refused    int64 // requests in the last hour
	Edit       *edit // its row is open, nil otherwise
}

// SourceWord says how a block came to be.
func (i *item) SourceWord() string {
	switch i.Source {
	case blocks.Manual:
		return "by hand"
	case blocks.Automatic, blocks.Imported:
		return string(i.Source)
	}
	return ""
}

func (u *UI) blockShelf() *shelf {
	return &shelf{
		Path: "/blocks", Head: "Blocks", Noun: "block", Verb: "Block", Past: "Blocked", End: "Lift", Ended: "Lifted", Blocks: true,
		About: "A block refuses every key of a pattern until it ends, whatever the rules say.",
		find: func(ctx context.Context, f blocks.Filter) (blocks.Page[*item], error) {
			page, err := u.Blocks.FindBlocks(ctx, f)
			return mapPage(page, itemOfBlock), err
		},
		each: func(ctx context.Context, f blocks.Filter) iter.Seq2[*item, error] {
			return mapSeq(u.Blocks.EachBlock(ctx, f), itemOfBlock)
		},
		byID: func(ctx context.Context, id string) (*item, error) {
			return asItem(itemOfBlock)(u.Blocks.FindBlockByID(ctx, id))
		},
		add: func(ctx context.Context, by audit.Actor, i item, on blocks.Conflict) (*item, error) {
			added, err := u.Blocks.AddBlock(ctx, by, blocks.Block{
				Pattern: i.Pattern, Reason: i.Reason, Author: i.Author, Source: i.Source, Policy: i.Policy, Level: i.Step, Expires: i.Expires,
			}, on)
			return asItem(itemOfBlock)(added.Item, err)
		},
		update: func(ctx context.Context, by audit.Actor, id string, change blocks.Update) (*item, error) {
			return asItem(itemOfBlock)(u.Blocks.UpdateBlock(ctx, by, id, change))
		},
		end: func(ctx context.Context, by audit.Actor, id string) (*item, error) {
			return asItem(itemOfBlock)(u.Blocks.LiftBlock(ctx, by, id, ""))
		},
	}
}

func (u *UI) exemptionShelf() *shelf {
	return &shelf{
		Path: "/exemptions", Head: "Exemptions", Noun: "exemption", Verb: "Exempt", Past: "Exempted", End: "Remove", Ended: "Removed",
		About: "An exemption lets every key of a pattern through: no rule and no block touches it until it ends.",
		find: func(ctx context.Context, f blocks.Filter) (blocks.Page[*item], error) {
			page, err := u.Blocks.FindExemptions(ctx, f)
			return mapPage(page, itemOfExemption), err
		},
		each: func(ctx context.Context, f blocks.Filter) iter.Seq2[*item, error] {
			return mapSeq(u.Blocks.EachExemption(ctx, f), itemOfExemption)
		},
		byID: func(ctx context.Context, id string) (*item, error) {
			return asItem(itemOfExemption)(u.Blocks.FindExemptionByID(ctx, id))
		},
		add: func(ctx context.Context, by audit.Actor, i item, on blocks.Conflict) (*item, error) {
			added, err := u.Blocks.AddExemption(ctx, by, blocks.Exemption{
				Pattern: i.Pattern, Reason: i.Reason, Author: i.Author, Expires: i.Expires,
			}, on)
			return asItem(itemOfExemption)(added.Item, err)
		},
		update: func(ctx context.Context, by audit.Actor, id string, change blocks.Update) (*item, error) {
			return asItem(itemOfExemption)(u.Blocks.UpdateExemption(ctx, by, id, change))
		},
		end: func(ctx context.Context, by audit.Actor, id string) (*item, error) {
			return asItem(itemOfExemption)(u.Blocks.RemoveExemption(ctx, by, id, ""))
		},
	}
}

func itemOfBlock(b *blocks.Block) *item {
	return &item{
		ID: b.ID, Pattern: b.Pattern, Reason: b.Reason, Author: b.Author, Source: b.Source, Policy: b.Policy, Step: b.Level,
		Created: b.Created, Expires: b.Expires, EndedAt: b.Lifted, EndedBy: b.LiftedBy, Revision: b.Revision,
	}
}

func itemOfExemption(e *blocks.Exemption) *item {
	return &item{
		ID: e.ID, Pattern: e.Pattern, Reason: e.Reason, Author: e.Author,
		Created: e.Created, Expires: e.Expires, EndedAt: e.Removed, EndedBy: e.RemovedBy, Revision: e.Revision,
	}
}

func asItem[T any](of func(T) *item) func(T, error) (*item, error) {
	return func(x T, err error) (*item, error) {
		if err != nil {
			return nil, err
		}
		return of(x), nil
	}
}

func mapPage[T any](page blocks.Page[T], of func(T) *item) blocks.Page[*item] {
	mapped := blocks.Page[*item]{Next: page.Next, Total: page.Total}
	for _, x := range page.Items {
		mapped.Items = append(mapped.Items, of(x))
	}
	return mapped
}

func mapSeq[T any](all iter.Seq2[T, error], of func(T) *item) iter.Seq2[*item, error] {
	return func(yield func(*item, error) bool) {
		for x, err := range all {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(of(x), nil) {
				return
			}
		}
	}
}

// shelfRoutes returns the routes of both shelves.
func (u *UI) shelfRoutes() []httpserver.Route {
	var all []httpserver.Route
	for _, s := range []*shelf{u.blockShelf(), u.exemptionShelf()} {
		on := func(h func(*httpserver.Call, *shelf) error) httpserver.Handler {
			return func(c *httpserver.Call) error { return h(c, s) }
		}
		all = append(all,
			u.get(s.Path, identity.Read, on(u.showShelf)),
			u.get(s.Path+"/export", identity.Read, on(u.exportShelf)),
			u.get(s.Path+"/new", identity.Operate, on(u.showAdd)),
			u.post(s.Path+"/new", identity.Operate, on(u.previewAdd)),
			u.post(s.Path, identity.Operate, on(u.addItem)),
			u.post(s.Path+"/end", identity.Operate, on(u.endItems)),
			u.post(s.Path+"/restore", identity.Operate, on(u.restoreItems)),
			u.post(s.Path+"/:id", identity.Operate, on(u.updateItem)),
		)
	}
	return all
}

// decorate adds to an item what its page shows beside it.
func (u *UI) decorate(i *item, refused map[string]int64) {
	now := u.Now()
	i.Active = i.EndedAt.IsZero() && (i.Expires.IsZero() || now.Before(i.Expires))
	if p, found := u.Catalog.Selector().ByID(i.Policy); found {
		i.PolicyName = p.Name
	}
	i.Refused = refused[i.ID]
	if i.Source == "" || !i.Active {
		return
	}
	for _, e := range u.Catalog.Blocks().ExemptionsTouching(i.Pattern, now, maxTouching) {
		if e.Pattern.Covers(i.Pattern) {
			i.Exempt = true
		}
	}
}

// maxTouching bounds how many exemptions or blocks are looked at for one line.
const maxTouching = 50

// statusOfForm is answered where a form is shown again with its mistakes.
const statusOfForm = http.StatusUnprocessableEntity
