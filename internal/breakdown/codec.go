package breakdown

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// Chunk is a Table of one minute of one node as it is stored.
type Chunk struct {
	Minute int64 // Unix milliseconds of its beginning
	Data   []byte
}

// format begins every encoded table.
const format = 1

// Encode returns t in bytes, the same for equal tables: the names of the dimensions, the texts, each
// once, and then the rows, which refer to both by their numbers. A version with other dimensions can
// read it.
func (t *Table) Encode() []byte {
	e := encoder{places: map[string]uint64{}}
	rows := slices.SortedFunc(maps.Keys(t.Rows), func(a, b Values) int { return slices.Compare(a[:], b[:]) })
	e.number(uint64(len(rows)))
	for _, values := range rows {
		for _, value := range values {
			e.text(value)
		}
		row := t.Rows[values]
		e.counts(row.Counts)
		e.clients(row.Clients)
		e.clients(row.Offenders)
	}
	for i := range t.Rest {
		r := &t.Rest[i]
		e.number(uint64(len(r.Values)))
		for _, value := range slices.SortedFunc(maps.Keys(r.Values), cmp.Compare[string]) {
			e.text(value)
			e.counts(r.Values[value])
		}
		e.counts(r.Other)
		e.number(uint64(r.Overcount)) //nolint:gosec // a count
	}
	head := encoder{}
	head.number(format)
	head.list(Names())
	head.list(e.texts)
	return append(head.data, e.data...)
}

type encoder struct {
	data   []byte
	places map[string]uint64
	texts  []string
}

func (e *encoder) number(n uint64) { e.data = binary.AppendUvarint(e.data, n) }

func (e *encoder) list(all []string) {
	e.number(uint64(len(all)))
	for _, text := range all {
		e.number(uint64(len(text)))
		e.data = append(e.data, text...)
	}
}

func (e *encoder) text(text string) {
	place, known := e.places[text]
	if !known {
		place = uint64(len(e.texts))
		e.places[text] = place
		e.texts = append(e.texts, text)
	}
	e.number(place)
}

func (e *encoder) counts(c Counts) {
	for _, n := range []int64{c.Allowed, c.Limited, c.Blocked, c.Challenged, c.Unavailable, c.Reported} {
		e.number(uint64(n)) //nolint:gosec // a count
	}
}

func (e *encoder) clients(all Clients) {
	e.number(uint64(len(all)))
	for _, c := range all {
		e.text(c.Key)
		e.number(uint64(c.Count)) //nolint:gosec // a count
	}
}

var errBad = errors.New("a table of what was requested cannot be read")

// ErrFormat is the error of Decode for a table of another version, whose format it does not know.
var ErrFormat = errors.New("a table of what was requested has a format that this version does not know")

// Decode returns the table of the result of Encode; of nothing, an empty one. Dimensions that this
// version does not know are left out, and the values of those that it knows in addition are "".
func Decode(data []byte) (*Table, error) {
	t := &Table{}
	if len(data) == 0 {
		return t, nil
	}
	d := decoder{rest: data}
	if found := d.number(); d.bad {
		return nil, errBad
	} else if found != format {
		return nil, ErrFormat
	}
	var places []int // of the stored dimensions in Dimensions, -1 for none
	for _, name := range d.list() {
		place, _ := Find(name)
		places = append(places, place)
	}
	d.texts = d.list()
	for n := d.number(); n > 0 && !d.bad; n-- {
		var values Values
		for _, place := range places {
			if value := d.text(); place >= 0 {
				values[place] = value
			}
		}
		row := Row{Counts: d.counts(), Clients: d.clients(), Offenders: d.clients()}
		into := t.Row(values)
		into.Add(row.Counts)
		into.Clients.Merge(row.Clients)
		into.Offenders.Merge(row.Offenders)
	}
	isStored := [count]bool{}
	var whole Counts // what a dimension that is not stored has not got
	for at, place := range places {
		var sum Counts
		for n := d.number(); n > 0 && !d.bad; n-- {
			value, c := d.text(), d.counts()
			sum.Add(c)
			if place >= 0 {
				t.AddRest(place, value, c)
			}
		}
		other := d.counts()
		sum.Add(other)
		overcount := d.count()
		if place >= 0 {
			isStored[place] = true
			t.Rest[place].Other.Add(other)
			t.Rest[place].Overcount += overcount
		}
		if at == 0 {
			whole = sum
		}
	}
	if d.bad || len(d.rest) > 0 {
		return nil, errBad
	}
	for i := range t.Rest {
		if !isStored[i] && whole != (Counts{}) {
			t.AddRest(i, "", whole)
		}
	}
	return t, nil
}

type decoder struct {
	rest  []byte
	texts []string
	bad   bool // stays set after the first failure
}

func (d *decoder) number() uint64 {
	n, length := binary.Uvarint(d.rest)
	if length <= 0 {
		d.bad = true
		return 0
	}
	d.rest = d.rest[length:]
	return n
}

// count reads a number that is plausible as a count.
func (d *decoder) count() int64 {
	n := d.number()
	if n > 1<<56 {
		d.bad = true
		return 0
	}
	return int64(n)
}

func (d *decoder) list() (all []string) {
	for n := d.number(); n > 0 && !d.bad; n-- {
		length := d.number()
		if d.bad || length > uint64(len(d.rest)) {
			d.bad = true
			return nil
		}
		all = append(all, string(d.rest[:length]))
		d.rest = d.rest[length:]
	}
	return all
}

func (d *decoder) text() string {
	place := d.number()
	if place >= uint64(len(d.texts)) {
		d.bad = true
		return ""
	}
	return d.texts[place]
}

func (d *decoder) counts() Counts {
	return Counts{d.count(), d.count(), d.count(), d.count(), d.count(), d.count()}
}

func (d *decoder) clients() (all Clients) {
	for n := d.number(); n > 0 && !d.bad; n-- {
		all = append(all, Client{d.text(), d.count()})
	}
	return all
}
