package entries

import (
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/wire"
)

// EntryFields selects the columns of an entry for EntryScanner.
var EntryFields = strings.Join(entryColumns.names, ", ")

var entryColumns, shareColumns = columnsOf[blocks.Row](), columnsOf[blocks.Share]()

// changedTerms are the columns of the terms that a change may set.
var changedTerms = columnsOf[wire.EntryTerms]().in(new(wire.EntryPatch).Texts())

// columns are those in which the fields of a struct are stored, with their names in JSON.
type columns struct {
	names, types []string
	fields       [][]int // as for reflect.Value.FieldByIndex
}

func columnsOf[T any]() (c columns) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" { // an embedded struct, whose fields follow
			continue
		}
		kind := db.IntColumn
		if field.Type.Kind() == reflect.String {
			kind = db.TextColumn
		}
		c.names, c.types, c.fields = append(c.names, name), append(c.types, kind), append(c.fields, field.Index)
	}
	return c
}

// in returns the columns that have one of the names.
func (c columns) in(names iter.Seq2[string, *wire.Change[string]]) (some columns) {
	for name := range names {
		if i := slices.Index(c.names, name); i >= 0 {
			some.names, some.types, some.fields = append(some.names, name), append(some.types, c.types[i]), append(some.fields, c.fields[i])
		}
	}
	return some
}

// appendValues appends the values of the struct that of points to.
func (c columns) appendValues(row []any, of any) []any {
	v := reflect.ValueOf(of).Elem()
	for _, index := range c.fields {
		switch field := v.FieldByIndex(index); field.Kind() {
		case reflect.String:
			row = append(row, field.String())
		case reflect.Struct:
			row = append(row, db.ExpiryToMS(field.Interface().(time.Time)))
		default:
			row = append(row, field.Int())
		}
	}
	return row
}

// appendPointers appends what a row is scanned into to fill the struct that of points to.
func (c columns) appendPointers(into []any, of any) []any {
	v := reflect.ValueOf(of).Elem()
	for _, index := range c.fields {
		at := v.FieldByIndex(index).Addr()
		switch kind := at.Elem().Kind(); kind {
		case reflect.String:
			into = append(into, at.Convert(reflect.TypeFor[*string]()).Interface())
		case reflect.Struct:
			into = append(into, db.Expiry(at.Interface().(*time.Time)))
		case reflect.Int64:
			into = append(into, at.Convert(reflect.TypeFor[*int64]()).Interface())
		default:
			into = append(into, at.Interface())
		}
	}
	return into
}

// sets returns the assignments to the columns but the first few from the row that the prefix names.
func (c columns) sets(first int, from string) []string {
	all := make([]string, len(c.names)-first)
	for i, name := range c.names[first:] {
		all[i] = name + " = " + from + name
	}
	return all
}
