// Package memory keeps rows of counted offences, and of the traffic of keys, in memory and adds
// them up, so that pages need not read a million of them every few seconds. It does not access a database: its user passes
// a mark that identifies the state of each slot.
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

// Group is the part of a row that rows of many keys share.
type Group struct {
	Policy    int64
	Kind      offences.Kind
	RefusedBy string
	Source    string
}

// Row is the offences of one key in a slot. Times are Unix milliseconds.
type Row struct {
	Key                 unique.Handle[string] // of "" for offences that lost their key
	Group               unique.Handle[Group]
	Offences, Overcount int64
	First, Last         int64
}

// KeyTraffic is the checks of one key by one policy in a slot.
type KeyTraffic struct {
	Key                      unique.Handle[string]
	Policy, Allowed, Refused int64
}

// Part is a slot with its rows, which must not be changed.
type Part[R any] struct {
	Slot
	Rows []R
}

// Cache keeps the most recently used parts, up to a number of rows. It is safe for concurrent
// use.
type Cache[R any] struct {
	maxRows int

	mu    sync.Mutex
	parts map[Slot]*list.Element // of *known[R]
	used  *list.List             // most recently used first
	rows  int
}

// known is the cached state of a slot at a mark: its rows, or only a lower bound of their
// number.
type known[R any] struct {
	Part[R]
	mark  string
	count int
	whole bool
}

// NewCache returns an empty cache for at most maxRows rows.
func NewCache[R any](maxRows int) *Cache[R] {
	return &Cache[R]{maxRows: maxRows, parts: map[Slot]*list.Element{}, used: list.New()}
}

// MaxRows returns the capacity in rows.
func (c *Cache[R]) MaxRows() int { return c.maxRows }

// Find returns the cached parts of slots with their marks, in no particular order, and the
// slots that are not cached. fits is false if the rows of all slots are known to exceed the
// capacity; then it returns nothing else.
func (c *Cache[R]) Find(slots []Slot, marks map[Slot]string) (parts []Part[R], missing []Slot, fits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	parts = make([]Part[R], 0, len(slots))
	rows := 0
	for _, slot := range slots {
		e, is := c.parts[slot]
		if !is || e.Value.(*known[R]).mark != marks[slot] {
			missing = append(missing, slot)
			continue
		}
		k := e.Value.(*known[R])
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

// Put caches a part at a mark. It evicts the least recently used parts if there is no room.
func (c *Cache[R]) Put(p Part[R], mark string) { c.put(&known[R]{p, mark, len(p.Rows), true}) }

// PutCount caches only that a slot has at least the given number of rows at a mark.
func (c *Cache[R]) PutCount(slot Slot, mark string, rows int) {
	c.put(&known[R]{Part[R]{Slot: slot}, mark, rows, false})
}

func (c *Cache[R]) put(k *known[R]) {
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

// size counts a row for the slot itself, so that the number of slots is bounded too.
func (k *known[R]) size() int { return len(k.Rows) + 1 }

func (c *Cache[R]) drop(e *list.Element) {
	k := c.used.Remove(e).(*known[R])
	delete(c.parts, k.Slot)
	c.rows -= k.size()
}
