package output

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Cells are the cells of columns by their names, where the type of a field does not say them.
type Cells[T any] map[string]func(T) Cell

// Columns returns the columns of T that a list declares:
//
//	name: Name (cut), scopes: May, last_used_at: Last used (drop 3 or never), id
//
// A column is called as its field in JSON, which may be a field of a field, as in evidence.size, or differently:
// size=evidence.size. Behind the colon is its head; a column without one is only in CSV. In parentheses are right,
// cut, drop and usual as in Column, and behind "or" what people see instead of the zero time.
//
// A column without a cell of its own has that of the type of its field: a text, texts, a number, which is aligned
// right, a boolean, a time, or what its String returns, unless it is zero. What a nil pointer leads to is empty.
// Columns panics if there is no such field or cell.
func Columns[T any](list string, own ...Cells[T]) (columns []Column[T]) {
	cells := Cells[T]{}
	for _, o := range own {
		cells = o
	}
	unused := len(cells)
	for text := range strings.SplitSeq(list, ",") {
		field, head, _ := strings.Cut(strings.TrimSpace(text), ": ")
		name, path, isElsewhere := strings.Cut(field, "=")
		if !isElsewhere {
			path = name
		}
		head, options, _ := strings.Cut(strings.TrimSuffix(head, ")"), " (")
		options, zero, _ := strings.Cut(options, "or ")
		c := Column[T]{Name: name, Head: head, Cell: cells[name]}
		if c.Cell == nil {
			c.Cell, c.Right = fieldCell[T](path, zero)
		} else {
			unused--
		}
		words := strings.Fields(options)
		for i, word := range words {
			switch word {
			case "right":
				c.Right = true
			case "cut":
				c.Cut = true
			case "drop":
				c.Drop, _ = strconv.Atoi(words[i+1])
			case "usual":
				c.Usual = words[i+1]
			}
		}
		columns = append(columns, c)
	}
	if unused > 0 {
		panic(fmt.Sprintf("%T has a cell for none of the columns %s", cells, list))
	}
	return columns
}

// fieldCell returns the cell of a field, and whether it is a number. zero is what people see of the zero time.
func fieldCell[T any](path, zero string) (cell func(T) Cell, isNumber bool) {
	t := reflect.TypeFor[T]()
	var index [][]int // of each field on the path
	for name := range strings.SplitSeq(path, ".") {
		f := fieldOf(pointedTo(t), name)
		index, t = append(index, f.Index), f.Type
	}
	format := formatOf(pointedTo(t), zero)
	return func(item T) Cell {
		v := reflect.Indirect(reflect.ValueOf(item))
		for _, at := range index {
			if !v.IsValid() {
				return Cell{}
			}
			v = reflect.Indirect(v.FieldByIndex(at))
		}
		if !v.IsValid() {
			return Cell{}
		}
		return format(v)
	}, pointedTo(t).Kind() == reflect.Int || pointedTo(t) == reflect.TypeFor[int64]()
}

func pointedTo(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// fieldOf returns the field of t with a name in JSON.
func fieldOf(t reflect.Type, name string) reflect.StructField {
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f
		}
	}
	panic(fmt.Sprintf("%s has no field %q", t, name))
}

// instant is a time, or a struct that embeds one.
type instant interface{ UTC() time.Time }

// formatOf returns the function that formats values of t.
func formatOf(t reflect.Type, zero string) func(reflect.Value) Cell {
	switch {
	case t.Implements(reflect.TypeFor[instant]()):
		return func(v reflect.Value) Cell { return TimeOr(v.Interface().(instant).UTC(), zero) }
	case t.Implements(reflect.TypeFor[fmt.Stringer]()):
		return func(v reflect.Value) Cell {
			if v.IsZero() {
				return Cell{}
			}
			return Text(v.Interface().(fmt.Stringer).String())
		}
	case t.Kind() == reflect.String:
		return func(v reflect.Value) Cell { return Text(v.String()) }
	case t.Kind() == reflect.Bool:
		return func(v reflect.Value) Cell { return YesNo(v.Bool()) }
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return func(v reflect.Value) Cell { return Number(v.Int()) }
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		return func(v reflect.Value) Cell {
			texts := make([]string, v.Len())
			for i := range texts {
				texts[i] = v.Index(i).String()
			}
			return Texts(texts)
		}
	}
	panic("a field of type " + t.String() + " needs a cell of its own")
}
