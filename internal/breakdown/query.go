package breakdown

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/fault"
)

// Filter selects requests by one dimension.
type Filter struct {
	Dimension int
	Value     string // "" for requests whose value is not known
	IsPrefix  bool   // selects all values that begin with Value
	Not       bool   // selects all other requests
}

// MaxFilters bounds the filters of a query.
const MaxFilters = 20

// ParseFilters parses filters that are separated by commas, each written dimension=value. Those of not
// select all other requests. A final * of a value matches any text; \*, \, and \\ are a star, a comma
// and a backslash, and \s is a space, which is trimmed at the end of a text otherwise. A comma that no
// dimension follows is a part of the value. The error is a fault.Error.
func ParseFilters(is, not string) (all Filters, err error) {
	for field, text := range map[string]string{"is": is, "not": not} {
		for _, part := range splitFilters(text) {
			name, value, isPair := strings.Cut(part, "=")
			i, known := Find(name)
			if !isPair || !known {
				return nil, fault.Field(field, "Must be a dimension, = and a value, for example path=/health. The dimensions are %s.", strings.Join(Names(), ", "))
			}
			f := Filter{Dimension: i, Not: field == "not"}
			f.Value, f.IsPrefix = unescape(value)
			if spell := Dimensions[i].Spell; spell != nil {
				f.Value = spell(f.Value)
			}
			all = append(all, f)
		}
	}
	if len(all) > MaxFilters {
		return nil, fault.Field("is", "Must be at most %d filters, together with not.", MaxFilters)
	}
	slices.SortStableFunc(all, func(a, b Filter) int {
		return cmp.Or(cmp.Compare(a.Dimension, b.Dimension), compareBool(a.Not, b.Not), cmp.Compare(a.Value, b.Value), compareBool(a.IsPrefix, b.IsPrefix))
	})
	return slices.Compact(all), nil
}

// splitFilters divides filters at the commas that a dimension follows.
func splitFilters(text string) (all []string) {
	begin, isEscaped := 0, false
	for i := range len(text) {
		switch {
		case isEscaped:
			isEscaped = false
		case text[i] == '\\':
			isEscaped = true
		case text[i] == ',':
			name, _, _ := strings.Cut(text[i+1:], "=")
			if name, _, _ = strings.Cut(name, ","); isDimension(name) {
				all, begin = append(all, text[begin:i]), i+1
			}
		}
	}
	if text == "" {
		return nil
	}
	return append(all, text[begin:])
}

func isDimension(name string) bool {
	_, is := Find(name)
	return is
}

// unescape returns the value that a filter writes, and whether a star that is not escaped ends it.
func unescape(text string) (value string, isPrefix bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], finalSpace):
			b.WriteByte(' ')
			i++
			continue
		case text[i] == '\\' && i+1 < len(text) && strings.IndexByte(`*,\`, text[i+1]) >= 0:
			i++
		case text[i] == '*' && i == len(text)-1:
			return b.String(), true
		}
		b.WriteByte(text[i])
	}
	return b.String(), false
}

// finalSpace is a space at the end of a value.
const finalSpace = `\s`

var filterEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `,`, `\,`)

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// String returns the filter as ParseFilters reads it.
func (f Filter) String() string {
	text := Dimensions[f.Dimension].Name + "=" + filterEscaper.Replace(f.Value)
	switch before, isFinal := strings.CutSuffix(text, " "); {
	case f.IsPrefix:
		text += "*"
	case isFinal:
		text = before + finalSpace
	}
	return text
}

// Has reports whether a value is that of the filter.
func (f Filter) Has(value string) bool {
	return value == f.Value || f.IsPrefix && strings.HasPrefix(value, f.Value)
}

// Filters select requests: in each dimension with filters those that have one of the values, if
// there is a filter that is not a Not, and none of the values of a Not.
type Filters []Filter

// Texts returns the filters as ParseFilters reads them.
func (all Filters) Texts() (is, not string) {
	var texts [2][]string
	for _, f := range all {
		at := 0
		if f.Not {
			at = 1
		}
		texts[at] = append(texts[at], f.String())
	}
	return strings.Join(texts[0], ","), strings.Join(texts[1], ",")
}

// dimensions returns the dimensions that are filtered.
func (all Filters) dimensions() (dimensions []int) {
	for _, f := range all {
		if !slices.Contains(dimensions, f.Dimension) {
			dimensions = append(dimensions, f.Dimension)
		}
	}
	return dimensions
}

// selects reports whether the filters of dimension i select a value.
func (all Filters) selects(i int, value string) bool {
	wanted, found := false, false
	for _, f := range all {
		switch {
		case f.Dimension != i:
		case f.Not && f.Has(value):
			return false
		case !f.Not:
			wanted, found = true, found || f.Has(value)
		}
	}
	return found || !wanted
}

// Group is the requests with one value of a dimension.
type Group struct {
	Value string
	Counts
}

// Breakdown is how requests are divided among the values of one dimension.
type Breakdown struct {
	Dimension int
	Groups    []Group // those with most requests first
	// Unnamed are selected requests whose value was not kept.
	Unnamed Counts
	// Overcount is how many further requests one value may have at most. They are among Unnamed and
	// among those of which it is not known whether the filters select them.
	Overcount int64
}

// Point is the selected requests of a part of the time range.
type Point struct {
	At time.Time
	Counts
}

// Result is what was requested in a time range.
type Result struct {
	Total Counts // of the requests that certainly are selected
	// Unsure is how many further requests the filters may select at most: their values of the
	// filtered dimensions were not kept together.
	Unsure     int64
	Points     []Point // those with a request, in order of time
	Breakdowns []Breakdown
	// Unread are the tables that could not be read. Their requests are missing.
	Unread int
	// Clients and Offenders are those with the most allowed and refused requests. Each may have
	// made ClientsMissing or OffendersMissing more.
	Clients, Offenders               []Client
	ClientsMissing, OffendersMissing int64
}

// Query collects a Result from tables.
type Query struct {
	Filters Filters
	By      []int         // the wanted dimensions
	Of      string        // the decision whose requests rank the groups, "" for all requests
	Start   time.Time     // of the first point
	Step    time.Duration // of the points, 0 for none

	filtered  []int
	points    map[int64]*Counts
	groups    []map[string]Counts
	rows      Counts   // selected rows
	partly    []Counts // by filtered dimension: its selected rest
	others    []Counts // by dimension: what has no value
	most      []int64  // by dimension: Overcount of its rest
	clients   map[string]int64
	offenders map[string]int64
	missing   [2]int64
	unread    int
	dropped   []Counts // by wanted dimension: of values for which there was no room
	least     []int64  // the most requests of them that one value may have
}

// MaxValues bounds the values of a dimension, and the clients, that a query keeps.
const MaxValues = 32_768

// trim drops the lighter half, by compare, of what has no room.
func trim[V any](all map[string]V, compare func(a, b V) int, drop func(V)) {
	if len(all) <= MaxValues {
		return
	}
	values := slices.Collect(maps.Keys(all))
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(compare(all[b], all[a]), cmp.Compare(a, b)) })
	for _, value := range values[MaxValues/2:] {
		drop(all[value])
		delete(all, value)
	}
}

// trim drops what has no room.
func (q *Query) trim() {
	for at := range q.groups {
		most := int64(0)
		trim(q.groups[at], q.compare, func(c Counts) {
			q.dropped[at].Add(c)
			most = max(most, c.Requests())
		})
		q.least[at] += most
	}
	for i, clients := range []map[string]int64{q.clients, q.offenders} {
		most := int64(0)
		trim(clients, cmp.Compare[int64], func(n int64) { most = max(most, n) })
		q.missing[i] += most
	}
}

// compare compares counts as they are ranked.
func (q *Query) compare(a, b Counts) int {
	return cmp.Or(cmp.Compare(a.Of(q.Of), b.Of(q.Of)), cmp.Compare(a.Sum(), b.Sum()))
}

// Add adds a table whose time begins at start, nil for one that could not be read.
func (q *Query) Add(start time.Time, t *Table) {
	if q.groups == nil {
		q.begin()
	}
	if t == nil {
		q.unread++
		return
	}
	var certain Counts
rows:
	for values, row := range t.Rows {
		for _, i := range q.filtered {
			if !q.Filters.selects(i, values[i]) {
				continue rows
			}
		}
		certain.Add(row.Counts)
		for at, i := range q.By {
			add(q.groups[at], values[i], row.Counts)
		}
		for _, c := range row.Clients {
			q.clients[c.Key] += c.Count
		}
		for _, c := range row.Offenders {
			q.offenders[c.Key] += c.Count
		}
		q.missing[0] += row.Clients.Missing(row.Counts.Allowed)
		q.missing[1] += row.Offenders.Missing(row.Refused())
	}
	q.rows.Add(certain)
	q.addRest(t, &certain)
	q.trim()
	if q.Step > 0 {
		at := int64(start.Sub(q.Start) / q.Step)
		if q.points[at] == nil {
			q.points[at] = &Counts{}
		}
		q.points[at].Add(certain)
	}
}

func (q *Query) begin() {
	q.filtered = q.Filters.dimensions()
	q.points, q.clients, q.offenders = map[int64]*Counts{}, map[string]int64{}, map[string]int64{}
	q.partly, q.others, q.most = make([]Counts, count), make([]Counts, count), make([]int64, count)
	q.groups, q.dropped, q.least = make([]map[string]Counts, len(q.By)), make([]Counts, len(q.By)), make([]int64, len(q.By))
	for i := range q.groups {
		q.groups[i] = map[string]Counts{}
	}
}

func add(to map[string]Counts, value string, c Counts) {
	sum := to[value]
	sum.Add(c)
	to[value] = sum
}

// addRest adds the requests of which only one value is known, and to certain those of them that are
// certainly selected.
func (q *Query) addRest(t *Table, certain *Counts) {
	for i := range t.Rest {
		r := &t.Rest[i]
		q.others[i].Add(r.Other)
		q.most[i] += r.Overcount
		at := slices.Index(q.By, i)
		isOnly := len(q.filtered) == 0 || len(q.filtered) == 1 && q.filtered[0] == i
		for value, c := range r.Values {
			if !q.Filters.selects(i, value) {
				continue
			}
			q.partly[i].Add(c)
			if at >= 0 && isOnly {
				add(q.groups[at], value, c)
			}
			if len(q.filtered) == 1 && q.filtered[0] == i {
				certain.Add(c)
			}
		}
	}
	if len(q.filtered) == 0 { // every dimension has all requests
		for _, c := range t.Rest[0].Values {
			certain.Add(c)
		}
		certain.Add(t.Rest[0].Other)
	}
}

// Result returns what was collected, with up to limit groups of each dimension and as many clients.
func (q *Query) Result(limit int) *Result {
	if q.groups == nil {
		q.begin()
	}
	r := &Result{Total: q.rows, Unread: q.unread}
	unnamed := q.unnamed()
	r.Total.Add(unnamed)
	r.Unsure = q.unsure()
	for at, i := range q.By {
		b := Breakdown{Dimension: i, Groups: q.rank(q.groups[at], limit)}
		switch {
		case len(q.filtered) == 0:
			b.Unnamed, b.Overcount = q.others[i], q.most[i]
		case len(q.filtered) == 1 && q.filtered[0] == i:
			b.Overcount = q.most[i]
		default:
			b.Unnamed = unnamed
			b.Overcount = unnamed.Sum() + r.Unsure
		}
		b.Unnamed.Add(q.dropped[at])
		b.Overcount = min(b.Overcount+q.least[at], b.Unnamed.Requests()+r.Unsure)
		r.Breakdowns = append(r.Breakdowns, b)
	}
	for at, c := range q.points {
		r.Points = append(r.Points, Point{q.Start.Add(time.Duration(at) * q.Step), *c})
	}
	slices.SortFunc(r.Points, func(a, b Point) int { return a.At.Compare(b.At) })
	r.Clients, r.Offenders = rankClients(q.clients, limit), rankClients(q.offenders, limit)
	r.ClientsMissing = q.missing[0] + unnamed.Allowed + r.Unsure
	r.OffendersMissing = q.missing[1] + unnamed.Refused() + r.Unsure
	return r
}

// unnamed returns the requests that are certainly selected, and of which only one value is known.
func (q *Query) unnamed() Counts {
	switch len(q.filtered) {
	case 0:
		sum := q.partly[0]
		sum.Add(q.others[0])
		return sum
	case 1:
		return q.partly[q.filtered[0]]
	}
	return Counts{}
}

// unsure returns how many further requests the filters may select.
func (q *Query) unsure() int64 {
	if len(q.filtered) == 0 {
		return 0
	}
	if len(q.filtered) == 1 {
		return q.others[q.filtered[0]].Sum()
	}
	least := int64(-1)
	for _, i := range q.filtered {
		if n := q.partly[i].Sum() + q.others[i].Sum(); least < 0 || n < least {
			least = n
		}
	}
	return least
}

func (q *Query) rank(all map[string]Counts, limit int) []Group {
	groups := make([]Group, 0, len(all))
	for value, c := range all {
		if c.Of(q.Of) > 0 {
			groups = append(groups, Group{value, c})
		}
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(q.compare(b.Counts, a.Counts), cmp.Compare(a.Value, b.Value))
	})
	return groups[:min(len(groups), limit)]
}

func rankClients(all map[string]int64, limit int) []Client {
	clients := make([]Client, 0, len(all))
	for key, n := range all {
		clients = append(clients, Client{key, n})
	}
	slices.SortFunc(clients, func(a, b Client) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key)) })
	return clients[:min(len(clients), limit)]
}
