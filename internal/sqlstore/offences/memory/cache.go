// Package memory keeps rows of counted offences in memory, so that pages need not read a
// million of them again each few seconds, and adds them up. It knows no database: who fills
// it says by a mark which state of a slot the rows are.
package memory

import (
	"container/list"
	"sync"
	"unique"

	"github.com/stint-dev/stint/internal/offences"
)

// Slot is a minute, an hour or a day of counts: the span of its rows and its beginning, in
// Unix milliseconds.
type Slot struct{ Span, Start int64 }

// Group is what rows of many keys have in common.
type Group struct {
	Policy    int64
	Kind      offences.Kind
	RefusedBy string
	Source    string
}

// Row is the offences of one key in a slot. Times are Unix milliseconds.
type Row struct {
	Key                 unique.Handle[string] // of "" for offences without their key
	Group               unique.Handle[Group]
	Offences, Overcount int64
	First, Last         int64
}

// Part is a slot with its rows, which nobody changes.
type Part struct {
	Slot
	Rows []Row
}

// Cache keeps the parts that were used last, up to a number of rows. It is safe for use by
// many goroutines.
type Cache struct {
	maxRows int

	mu    sync.Mutex
	parts map[Slot]*list.Element // of *known
	used  *list.List             // the last used first
	rows  int
}

// known is what is known of a slot in the state of a mark: its rows, or only that they are
// at least so many.
type known struct {
	Part
	mark  string
	count int
	whole bool
}

// NewCache returns an empty cache of at most so many rows.
func NewCache(maxRows int) *Cache {
	return &Cache{maxRows: maxRows, parts: map[Slot]*list.Element{}, used: list.New()}
}

// MaxRows returns how many rows fit.
func (c *Cache) MaxRows() int { return c.maxRows }

// Find returns the parts of slots that are kept in the state of their marks, in no order,
// and the slots that are not. fits is false where the rows of all together are known to be
// more than fit; then nothing else is returned.
func (c *Cache) Find(slots []Slot, marks map[Slot]string) (parts []Part, missing []Slot, fits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	parts = make([]Part, 0, len(slots))
	rows := 0
	for _, slot := range slots {
		e, is := c.parts[slot]
		if !is || e.Value.(*known).mark != marks[slot] {
			missing = append(missing, slot)
			continue
		}
		k := e.Value.(*known)
		if rows += k.count + 1; rows > c.maxRows {
			return nil, nil, false
		}
		if !k.whole {
			missing = append(missing, slot)
			continue
		}
		c.used.MoveToFront(e)
		parts = append(parts, k.Part)
	}
	return parts, missing, true
}

// Put keeps a part in the state of a mark, and drops what was used least recently where
// there is no room.
func (c *Cache) Put(p Part, mark string) { c.put(&known{p, mark, len(p.Rows), true}) }

// PutCount keeps that a slot has at least so many rows in the state of a mark, and none of
// them.
func (c *Cache) PutCount(slot Slot, mark string, rows int) {
	c.put(&known{Part{Slot: slot}, mark, rows, false})
}

func (c *Cache) put(k *known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, is := c.parts[k.Slot]; is {
		c.drop(e)
	}
	c.parts[k.Slot] = c.used.PushFront(k)
	c.rows += k.size()
	for c.rows > c.maxRows {
		c.drop(c.used.Back())
	}
}

// size counts an empty slot as a row, so that the number of slots is bounded too.
func (k *known) size() int { return len(k.Rows) + 1 }

func (c *Cache) drop(e *list.Element) {
	k := c.used.Remove(e).(*known)
	delete(c.parts, k.Slot)
	c.rows -= k.size()
}
