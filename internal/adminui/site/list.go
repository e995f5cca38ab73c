package site

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/wire"
)

// Order is an order of a list.
type Order struct {
	Value      string
	Descending bool
}

// List is a list with a search field, columns that sort, and pages. Its parameters are q, order,
// cursor and from, which is the number of the first row.
type List struct {
	Query Query
	Base  string // the path of the page
	First int    // number of the first row shown, from 1
	Shown int    // rows shown
	Total int    // rows that the search selects
	Over  bool   // there are more than Total
	Next  string // the address of the next page, "" on the last
	// FromMemory means that the database did not answer, and the rows are the first in memory.
	FromMemory bool

	orders []Order
}

// ReadList returns the list of the page base that a request asks for, without its rows. The first
// of orders is the default. others are further parameters of the page.
func ReadList(c *httpserver.Call, base string, orders []Order, others ...string) (*List, error) {
	q, err := ReadQuery(c, append(others, "q", "order", "cursor", "from")...)
	if err != nil {
		return nil, err
	}
	return &List{Query: q, Base: base, orders: orders}, nil
}

// Rows reads the rows of a list. If the row with the id open is not among them, it comes first,
// unless it does not exist. open is "" for none.
func Rows[T interface{ GetID() string }](l *List, open string, find func(cursor string) (wire.Page[T], error), byID func(wire.ByID) (T, error)) (all []T, err error) {
	err = l.Fill(func(cursor string) (int, int, string, error) {
		page, err := find(cursor)
		if err != nil {
			return 0, 0, "", err
		}
		all = page.Items
		return len(all), *page.Total, string(page.NextCursor), nil
	})
	if err != nil || open == "" || slices.ContainsFunc(all, func(row T) bool { return row.GetID() == open }) {
		return all, err
	}
	row, err := byID(wire.ByID{ID: open})
	switch {
	case fault.Is(err, fault.NotFound):
		return all, nil
	case err != nil:
		return nil, err
	}
	return append([]T{row}, all...), nil
}

// Change is a change of the row with an id, by a form with some values. It returns the toast that
// says what was done.
type Change func(ctx context.Context, by admin.Caller, id string, values url.Values) (done string, err error)

// PostRow returns the route of a change of a row, which leads back to the list.
func (s *Site) PostRow(path string, access identity.Access, list func(*httpserver.Call) (*List, error), change Change) httpserver.Route {
	return s.Post(path, access, func(c *httpserver.Call) error {
		l, err := list(c)
		if err != nil {
			return err
		}
		done, err := change(c.Context(), CallerOf(c), c.Params("id"), form.Values(c))
		if err != nil {
			return err
		}
		return s.Redirect(c, l.Here(l.Base, "done", done))
	})
}

// Fill sets the rows. find reads the page of a cursor; it returns how many rows are shown, of how
// many, and the cursor of the next page. If the rows of the page were deleted, the list begins
// again.
func (l *List) Fill(find func(cursor string) (shown, total int, next string, err error)) error {
	cursor := l.Query.Get("cursor")
	shown, total, next, err := find(cursor)
	if err != nil {
		return err
	}
	if shown == 0 && cursor != "" {
		delete(l.Query, "cursor")
		return l.Fill(find)
	}
	l.SetRows(shown, total, next)
	return nil
}

// SetRows sets how many rows are shown, of how many, and the cursor of the next page.
func (l *List) SetRows(shown, total int, next string) {
	l.First, l.Shown, l.Total = 1, shown, total
	if l.FromMemory {
		return
	}
	if from, err := strconv.Atoi(l.Query.Get("from")); err == nil && from > 0 && l.Query.Get("cursor") != "" {
		l.First = from
	}
	if next != "" {
		l.Next = l.Query.Path(l.Base, "cursor", next, "from", strconv.Itoa(l.First+shown), "edit", "")
	}
}

// Search returns what the rows must contain, "" for all rows.
func (l *List) Search() string { return l.Query.Get("q") }

// Order returns the order.
func (l *List) Order() string { return cmp.Or(l.Query.Get("order"), l.orders[0].Value) }

// Last returns the number of the last row shown.
func (l *List) Last() int { return l.First + l.Shown - 1 }

// Amount says how many rows the search selects: "1,284", "10,000+".
func (l *List) Amount() string {
	if l.Over {
		return phrase.Number(l.Total) + "+"
	}
	return phrase.Number(l.Total)
}

// HasPages reports whether the list has more than this page.
func (l *List) HasPages() bool { return l.First > 1 || l.Shown < l.Total }

// Sorted returns the value of aria-sort for a column, "" if the list is in another order.
func (l *List) Sorted(order string) string {
	for _, o := range l.orders {
		switch {
		case o.Value != order || order != l.Order():
		case o.Descending:
			return "descending"
		default:
			return "ascending"
		}
	}
	return ""
}

// By returns the address of the list in an order, at its first page.
func (l *List) By(order string) string {
	if order == l.orders[0].Value {
		order = ""
	}
	return l.Query.With("order", order, l.Base)
}

// Here returns the address of a path, such as that of an action, that keeps the place in the list.
func (l *List) Here(path string, changes ...string) string { return l.Query.Path(path, changes...) }

// FirstPage returns the address of the first page of the list.
func (l *List) FirstPage() string { return l.Query.With("cursor", "", l.Base) }

// Unfiltered returns the address of the list without the search.
func (l *List) Unfiltered() string { return l.Query.Without("q", l.Base) }
