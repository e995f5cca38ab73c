package breakdown

import (
	"cmp"
	"slices"
)

// Values are the values of one request by dimension, "" for what is not known.
type Values [count]string

// Counts are numbers of requests by what was decided. Reported are those whose outcome was reported
// later; they may also be among the others.
type Counts struct{ Allowed, Limited, Blocked, Challenged, Unavailable, Reported int64 }

// Add adds more to c.
func (c *Counts) Add(more Counts) {
	c.Allowed += more.Allowed
	c.Limited += more.Limited
	c.Blocked += more.Blocked
	c.Challenged += more.Challenged
	c.Unavailable += more.Unavailable
	c.Reported += more.Reported
}

// Checks returns the number of checks that were answered.
func (c Counts) Checks() int64 {
	return c.Allowed + c.Limited + c.Blocked + c.Challenged + c.Unavailable
}

// Refused returns the number of checks that were limited, blocked or challenged.
func (c Counts) Refused() int64 { return c.Limited + c.Blocked + c.Challenged }

// Sum returns how often something was counted: by a check, and again by a report.
func (c Counts) Sum() int64 { return c.Checks() + c.Reported }

// Requests returns how many requests there were at least: a report may be of a check.
func (c Counts) Requests() int64 { return max(c.Checks(), c.Reported) }

// Decisions are the decisions that Of knows.
var Decisions = []string{"allowed", "refused", "limited", "blocked", "challenged", "unavailable", "reported"}

// Of returns the requests of a decision: allowed, limited, blocked, challenged, unavailable,
// reported, refused for the second to fourth, or "" for all.
func (c Counts) Of(decision string) int64 {
	switch decision {
	case "allowed":
		return c.Allowed
	case "refused":
		return c.Refused()
	case "limited":
		return c.Limited
	case "blocked":
		return c.Blocked
	case "challenged":
		return c.Challenged
	case "unavailable":
		return c.Unavailable
	case "reported":
		return c.Reported
	}
	return c.Requests()
}

// Client is a key and some of its requests.
type Client struct {
	Key   string
	Count int64
}

// MaxClients is how many clients a row keeps of those that were allowed, and of those that were
// refused.
const MaxClients = 4

// Clients are the heaviest clients of a row, at most MaxClients, after Misra and Gries (1982): a
// count is never too high, and at most Missing too low. Clients of several rows can be merged.
type Clients []Client

// Merge adds more to c.
func (c *Clients) Merge(more Clients) {
	all := slices.Clone(*c)
	for _, m := range more {
		if i := slices.IndexFunc(all, func(known Client) bool { return known.Key == m.Key }); i >= 0 {
			all[i].Count += m.Count
		} else {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b Client) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key)) })
	if len(all) > MaxClients {
		least := all[MaxClients].Count
		all = all[:MaxClients]
		for i := range all {
			all[i].Count -= least
		}
		all = slices.DeleteFunc(all, func(c Client) bool { return c.Count == 0 })
	}
	*c = all
}

// Missing returns how many requests any one client may have made beyond its count, or without one,
// if all clients together made n.
func (c Clients) Missing(n int64) int64 {
	for _, one := range c {
		n -= one.Count
	}
	return max(0, n) / (MaxClients + 1)
}

// Row counts the requests with the same values.
type Row struct {
	Counts
	Clients   Clients // by their allowed requests
	Offenders Clients // by their refused requests
}

// Rest are the requests that lost a part of their values: of each dimension only the value of that
// dimension is known.
type Rest struct {
	Values map[string]Counts
	// Other are the requests whose value is not known either. One value may have at most Overcount
	// of them.
	Other     Counts
	Overcount int64
}

// Table counts requests by all values of their dimensions, as far as it has room. The requests of
// the lightest combinations are counted by each dimension alone, and the lightest values of a
// dimension without a value. So, in each dimension, the sum of Rows and of its Rest is exactly the
// number of all requests. The zero value is empty.
type Table struct {
	Rows map[Values]*Row
	Rest [count]Rest
}

// Limits bound a Table.
type Limits struct {
	Rows int // combinations
	Rest int // values of each dimension in its Rest
}

// The bounds of the tables of a minute of one node, and of those of an hour and of a day.
var (
	MinuteLimits = Limits{Rows: 512, Rest: 128}
	LongLimits   = Limits{Rows: 1024, Rest: 256}
)

// Row returns the row of values, and creates it.
func (t *Table) Row(v Values) *Row {
	row, known := t.Rows[v]
	if !known {
		if t.Rows == nil {
			t.Rows = map[Values]*Row{}
		}
		row = &Row{}
		t.Rows[v] = row
	}
	return row
}

// AddRest counts requests by dimension i alone.
func (t *Table) AddRest(i int, value string, c Counts) {
	r := &t.Rest[i]
	if r.Values == nil {
		r.Values = map[string]Counts{}
	}
	sum := r.Values[value]
	sum.Add(c)
	r.Values[value] = sum
}

// Merge adds more to t.
func (t *Table) Merge(more *Table) {
	for values, row := range more.Rows {
		into := t.Row(values)
		into.Add(row.Counts)
		into.Clients.Merge(row.Clients)
		into.Offenders.Merge(row.Offenders)
	}
	for i := range more.Rest {
		for value, c := range more.Rest[i].Values {
			t.AddRest(i, value, c)
		}
		t.Rest[i].Other.Add(more.Rest[i].Other)
		t.Rest[i].Overcount += more.Rest[i].Overcount
	}
}

// Replace returns t with each value, and the key of each client, as the functions have it.
func (t *Table) Replace(value, key func(string) string) *Table {
	clients := func(of Clients) (all Clients) {
		for _, c := range of {
			all.Merge(Clients{{key(c.Key), c.Count}})
		}
		return all
	}
	to := &Table{}
	for values, row := range t.Rows {
		for i := range values {
			values[i] = value(values[i])
		}
		into := to.Row(values)
		into.Add(row.Counts)
		into.Clients.Merge(clients(row.Clients))
		into.Offenders.Merge(clients(row.Offenders))
	}
	for i, r := range t.Rest {
		for known, c := range r.Values {
			to.AddRest(i, value(known), c)
		}
		to.Rest[i].Other, to.Rest[i].Overcount = r.Other, r.Overcount
	}
	return to
}

// Trim moves the lightest rows and values until t is within its limits.
func (t *Table) Trim(l Limits) {
	if len(t.Rows) > l.Rows {
		all := make([]Values, 0, len(t.Rows))
		for values := range t.Rows {
			all = append(all, values)
		}
		slices.SortFunc(all, func(a, b Values) int {
			return cmp.Or(cmp.Compare(t.Rows[b].Sum(), t.Rows[a].Sum()), slices.Compare(a[:], b[:]))
		})
		for _, values := range all[l.Rows:] {
			for i, value := range values {
				t.AddRest(i, value, t.Rows[values].Counts)
			}
			delete(t.Rows, values)
		}
	}
	for i := range t.Rest {
		t.Rest[i].trim(l.Rest)
	}
}

func (r *Rest) trim(limit int) {
	if len(r.Values) <= limit {
		return
	}
	all := make([]string, 0, len(r.Values))
	for value := range r.Values {
		all = append(all, value)
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Values[b].Sum(), r.Values[a].Sum()), cmp.Compare(a, b))
	})
	r.Overcount += r.Values[all[limit]].Sum() // the largest that leaves
	for _, value := range all[limit:] {
		r.Other.Add(r.Values[value])
		delete(r.Values, value)
	}
}

// IsEmpty reports whether nothing was counted.
func (t *Table) IsEmpty() bool {
	if len(t.Rows) > 0 {
		return false
	}
	for i := range t.Rest {
		if len(t.Rest[i].Values) > 0 || t.Rest[i].Other != (Counts{}) || t.Rest[i].Overcount > 0 {
			return false
		}
	}
	return true
}
