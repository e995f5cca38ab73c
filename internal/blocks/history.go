package blocks

import "time"

// Former is a former state of an entry.
type Former struct {
	Revision int64 // of the change that led to this state
	Replaced int64 // revision of the change that ended this state
	Expires  time.Time
	Ended    time.Time
	Reason   string
}

// History is an entry and its states before its newest changes.
type History struct {
	*Entry
	Former []Former
}

// AsOf returns the entry as it was at a revision, nil if it did not exist. The result must not be
// changed.
func (h *History) AsOf(revision int64) *Entry {
	if h.Revision <= revision {
		return h.Entry
	}
	for _, f := range h.Former {
		if f.Revision <= revision && revision < f.Replaced {
			e := *h.Entry
			e.Revision, e.Expires, e.End, e.Reason = f.Revision, f.Expires, EndingOf(f.Ended, ""), f.Reason
			return &e
		}
	}
	return nil
}

// ExpiresWithin reports whether any present or former expiry of the entry is after from and not
// after to.
func (h *History) ExpiresWithin(from, to time.Time) bool {
	within := func(t time.Time) bool { return !t.IsZero() && t.After(from) && !t.After(to) }
	for _, f := range h.Former {
		if within(f.Expires) {
			return true
		}
	}
	return within(h.Expires)
}
